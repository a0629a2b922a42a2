"""The metrics endpoint, scraped over real sockets; by a real Prometheus where one is installed."""

import http.client
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import support
from support import PATIENCE, SOURCE

RULES = SOURCE / "deploy" / "prometheus" / "stoker.rules.yml"
SPEC = ('name: "ids" source { files: "part-*" on_bad_record: SKIP max_bad_records: 100 }\n'
        'batch { size: 4 }\ntensor { name: "id" feature: "id" dtype: INT64 }\n')


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def scrape(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    assert answer.status == 200, answer.status
    return answer.read().decode()


def samples(page):
    pairs = (line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


class Endpoint(unittest.TestCase):

    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.folder = pathlib.Path(temp.name)
        support.write_ids(self.folder, [8, 8])
        with open(self.folder / "part-00001", "r+b") as shard:  # the payload of its first record
            shard.seek(14)
            byte = shard.read(1)
            shard.seek(14)
            shard.write(bytes([byte[0] ^ 1]))
        self.spec = self.folder / "ids.textproto"
        self.spec.write_text(SPEC)

    def daemon(self, listen):
        config = self.folder / "stokerd.textproto"
        config.write_text(f'metrics {{ listen: "{listen}" }}\n')
        return support.Daemon(self.folder, workers=1, arguments=["--config", config])

    def test_a_scrape_shows_what_was_delivered_and_what_a_reader_holds(self):
        port = free_port()
        with self.daemon(f"127.0.0.1:{port}") as daemon:
            before = samples(scrape(port))
            self.assertEqual(before["stoker_streams"], 0)
            self.assertEqual(before["stoker_workers"], 1)
            daemon.stoker("open", self.spec)
            daemon.stoker("read", "ids", "--epochs", "1")
            page = samples(scrape(port))
            status = daemon.status("ids")
            # The reader returned at its epoch's end; what was prepared beyond it may count too.
            self.assertGreaterEqual(page['stoker_rows_total{stream="ids"}'], 15)
            self.assertLessEqual(page['stoker_rows_total{stream="ids"}'],
                                 float(status["counters"]["rows"]))
            bad = status["counters"]["bad_by_class"]
            self.assertEqual(len(bad), 1)
            for fault, count in bad.items():
                self.assertEqual(
                    page[f'stoker_bad_records_total{{stream="ids",class="{fault}"}}'], float(count))
            self.assertEqual(page['stoker_index_progress_ratio{stream="ids"}'], 1)
            self.assertGreater(page["stoker_budget_used_bytes"], 0)

            reader = daemon.spawn("read", "ids", "--dump")
            try:
                reader.stdout.readline()  # it is attached, and its pipe fills up
                page = samples(scrape(port))
                lane = 'stream="ids",rank="0"'
                self.assertEqual(page[f"stoker_consumers{{{lane}}}"], 1)
                self.assertEqual(sum(page[f'stoker_slots{{{lane},state="{state}"}}'] for state in
                                     ("free", "filling", "ready", "held")), 4)
                self.assertIn(f"stoker_consumer_wait_seconds_total{{{lane}}}", page)
                self.assertIn(f"stoker_producer_blocked_seconds_total{{{lane}}}", page)
                self.assertGreater(page['stoker_arena_bytes{stream="ids"}'], 0)
            finally:
                reader.kill()
                reader.communicate()

    def test_why_names_the_trainer_where_it_is_slow_and_nobody_where_nobody_reads(self):
        with self.daemon("") as daemon:
            daemon.stoker("open", self.spec)
            nobody = json.loads(daemon.stoker("--json", "why", "ids", "--seconds", "0.1").stdout)
            self.assertEqual(nobody["limit"], "nobody-reads")
            reader = daemon.spawn("read", "ids", "--dump")
            try:
                reader.stdout.readline()
                # Once its pipe is full, it takes no more batches, and all slots are taken.
                deadline = time.monotonic() + PATIENCE
                lane = daemon.status("ids")["lane"][0]
                while lane["slots_free"] + lane["slots_filling"] > 0:
                    self.assertLess(time.monotonic(), deadline, lane)
                    lane = daemon.status("ids")["lane"][0]
                slow = json.loads(daemon.stoker("--json", "why", "ids", "--seconds", "1").stdout)
                self.assertEqual(slow["limit"], "trainer", slow)
                self.assertGreater(slow["producer_blocked_share"], 0.9)
                self.assertEqual(slow["consumer_wait_share"], 0)
            finally:
                reader.kill()
                reader.communicate()
            self.assertEqual(daemon.stoker("why", "no-such-stream", check=False).returncode, 1)

    def test_metrics_come_over_a_unix_socket_too_which_goes_with_the_daemon(self):
        path = self.folder / "metrics.sock"
        with self.daemon(f"unix:{path}"):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(PATIENCE)
                client.connect(str(path))
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                answer = b"".join(iter(lambda: client.recv(65536), b""))
            self.assertIn(b"\nstoker_workers 1\n", answer)
        self.assertFalse(path.exists())

    def test_a_port_that_is_taken_ends_the_start(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            daemon = self.daemon(f"127.0.0.1:{taken.getsockname()[1]}")
            done = subprocess.run(daemon.command(), capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("metrics.listen", done.stderr)

    def test_an_address_that_others_reach_is_refused_by_check(self):
        daemon = self.daemon("0.0.0.0:9464")
        done = subprocess.run([*daemon.command(), "--check"], capture_output=True, text=True,
                              timeout=PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("loopback", done.stderr)

    def test_the_page_lists_every_metric(self):
        port = free_port()
        with self.daemon(f"127.0.0.1:{port}"):
            families = {line.split()[2] for line in scrape(port).splitlines()
                        if line.startswith("# TYPE ")}
        page = (SOURCE / "docs" / "reference" / "metrics.md").read_text()
        listed = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `stoker_")}
        self.assertEqual(families, listed)
        for name in RULES.read_text().replace("(", " ").replace("[", " ").split():
            if name.startswith("stoker_"):
                self.assertIn(name, families)

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_promtool_finds_no_fault_in_the_page_and_the_rules(self):
        port = free_port()
        with self.daemon(f"127.0.0.1:{port}") as daemon:
            daemon.stoker("open", self.spec)
            daemon.stoker("read", "ids", "--epochs", "1")
            page = scrape(port)
        done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True,
                              text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True,
                              timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)

    @unittest.skipUnless(shutil.which("prometheus"), "prometheus is not installed")
    def test_a_real_prometheus_scrapes_the_daemon(self):
        port, web = free_port(), free_port()
        config = self.folder / "prometheus.yml"
        config.write_text(f"rule_files: ['{RULES}']\nscrape_configs:\n  - job_name: stoker\n"
                          f"    scrape_interval: 1s\n    static_configs:\n"
                          f"      - targets: ['127.0.0.1:{port}']\n")
        with self.daemon(f"127.0.0.1:{port}") as daemon:
            daemon.stoker("open", self.spec)
            daemon.stoker("read", "ids", "--epochs", "1")
            rows = samples(scrape(port))['stoker_rows_total{stream="ids"}']
            prometheus = subprocess.Popen(
                ["prometheus", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{web}",
                 f"--storage.tsdb.path={self.folder}/tsdb"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                self.assertEqual(self.ask(web, 'stoker_rows_total{stream="ids"}'), rows)
                self.assertEqual(self.ask(web, 'up{job="stoker"}'), 1)
            finally:
                prometheus.terminate()
                prometheus.wait(PATIENCE)

    def ask(self, web, query):
        """The value once there is one."""
        url = f"http://127.0.0.1:{web}/api/v1/query?query=" + urllib.parse.quote(query)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                    result = json.load(answer)["data"]["result"]
                if result:
                    return float(result[0]["value"][1])
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"Prometheus has no value of {query}")


if __name__ == "__main__":
    unittest.main()
