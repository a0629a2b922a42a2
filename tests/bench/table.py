#!/usr/bin/env python3
"""Every figure of docs/performance.md in one run, beside the machine's own.

    tests/bench/table.py [--bin build/release/bin] [--folder DIR] [--huge] [--out docs/performance.md]

Writes about 1.5 GB of data below DIR (default: the system's temporary folder; --huge 3.2 GB more),
serves it with daemons of its own, and removes it. A few minutes; let the machine rest meanwhile.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TABULAR = """name: "{name}" source {{ files: "{files}" }} order {{ {order} }}
tensor {{ name: "x" dtype: FLOAT32 shape: {floats} }} tensor {{ name: "label" dtype: INT64 }}
batch {{ size: {batch} remainder: DROP }}"""


class Bench:
    def __init__(self, folder, binaries):
        self.folder, self.bin = folder, binaries
        self.run_dir = folder / "run"
        self.environment = {**os.environ, "STOKER_RUNTIME_DIR": str(self.run_dir)}

    def stoker(self, *arguments):
        done = subprocess.run([self.bin / "stoker", *map(str, arguments)], env=self.environment,
                              stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"stoker {' '.join(map(str, arguments))}: exit code {done.returncode}")
        return done.stdout

    @contextlib.contextmanager
    def daemon(self, workers):
        process = subprocess.Popen(
            [self.bin / "stokerd", "--runtime-dir", self.run_dir, "--cache-dir",
             self.folder / "cache", "--state-dir", self.folder / "state", "--workers",
             str(workers)], stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while not (self.run_dir / "attach.sock").exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit("stokerd did not start")
                time.sleep(0.01)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()

    def spec(self, name, text):
        path = self.folder / f"{name}.textproto"
        path.write_text(text)
        return path

    def tabular(self, name, order, files="tabular/data-*", floats=32, batch=256):
        return self.spec(name, TABULAR.format(name=name, files=self.folder / files, order=order,
                                              floats=floats, batch=batch))

    def bench(self, spec, seconds=4, consumers=1):
        return json.loads(self.stoker("--json", "bench", spec, "--seconds", seconds,
                                      "--consumers", consumers))

    def drop(self, pattern):
        """Takes files out of the page cache."""
        for path in self.folder.glob(pattern):
            fd = os.open(path, os.O_RDONLY)
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def million(value):
    return f"{value / 1e6:.1f} million"


def giga(value):
    return f"{value / 1e9:.1f} GB/s"


def micro(value):
    return "" if value is None else f"{value * 1e6:.1f} µs"


def machine():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo")
                if line.startswith("model name")), platform.machine())
    memory = int(next(line.split()[1] for line in open("/proc/meminfo")
                      if line.startswith("MemTotal"))) >> 20
    return (f"{len(os.sched_getaffinity(0))} CPUs ({cpu}), {memory + 1} GiB, "
            f"Linux {platform.release()}, load at the start {os.getloadavg()[0]:.1f}")


def reading(bench):
    done = subprocess.run([bench.bin / "bench_reading", "--benchmark_format=json"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    first, _, rest = done.stdout.partition("\n")
    rows = [(b["name"], million(b["items_per_second"])) for b in json.loads(rest)["benchmarks"]]
    return first, table(("one core, records of 174 bytes", "a second"), rows)


def delivery(bench):
    rows = []
    orders = (("NONE", "shuffle: NONE"), ("WINDOW", "shuffle: WINDOW seed: 1"),
              ("GLOBAL", "shuffle: GLOBAL seed: 1"))
    for workers in (1, 2):
        with bench.daemon(workers):
            for name, order in orders:
                got = bench.bench(bench.tabular(name.lower(), order), seconds=8)
                rows.append((f"{name}, {workers} worker{'s' * (workers > 1)}",
                             million(got["rows_per_second"]),
                             million(1 / got["daemon_cpu_seconds_per_row"]),
                             f"{100 * got['wait_share']:.0f} %"))
    with bench.daemon(1):
        wide = bench.bench(bench.tabular("wide", "shuffle: NONE", "wide/data-*", 768, 256))
    share = wide["tensor_bytes_per_second"] / wide["ceilings"]["memcpy_bytes_per_second"]
    per_cpu = (wide["tensor_bytes_per_second"] * wide["seconds"] / wide["daemon_cpu_seconds"])
    return (table(("from page cache to consumer, batches of 256", "rows a second",
                   "rows a second of daemon CPU", "the consumer waited"), rows),
            f"Records of 3 KB, NONE, 1 worker: {giga(wide['tensor_bytes_per_second'])} in tensors, "
            f"{giga(per_cpu)} a second of daemon CPU; memcpy alone {giga(wide['ceilings']['memcpy_bytes_per_second'])} "
            f"({100 * share:.0f} % and "
            f"{100 * per_cpu / wide['ceilings']['memcpy_bytes_per_second']:.0f} % of it).\n")


def hand_over(bench):
    rows = []
    with bench.daemon(1):
        for floats, batch in ((32, 8), (32, 256), (768, 256), (768, 2048), (768, 12544)):
            source = "tabular/data-*" if floats == 32 else "wide/data-*"
            got = bench.bench(bench.tabular(f"h{floats}-{batch}", "shuffle: NONE", source, floats,
                                            batch))
            rows.append((f"{batch * floats * 4 / 1e6:.3g} MB", micro(got["handover_p50_seconds"]),
                         micro(got["handover_p99_seconds"]), micro(got["woken_p50_seconds"]),
                         micro(got["woken_p99_seconds"]),
                         micro(got["ceilings"]["futex_round_trip_seconds"] / 2)))
    return table(("batch", "ready, median", "ready, 99 of 100", "sleeper, median",
                  "sleeper, 99 of 100", "half a futex round trip"), rows)


def tools(bench):
    rows = []
    for name in ("tabular", "wide"):
        files = sorted(bench.folder.glob(f"{name}/data-*"))
        for path in files:
            path.read_bytes()
        for threads in (1, 2):
            got = json.loads(bench.stoker("--json", "verify", "--threads", threads, *files))
            rows.append((f"verify, {name}, {threads} thread{'s' * (threads > 1)}",
                         giga(got["bytes_per_second"]),
                         million(got["records"] / got["seconds"])))
        cache = bench.folder / f"index-{name}"
        cache.mkdir()
        got = json.loads(bench.stoker("--json", "index", *files, "--cache-dir", cache))
        rows.append((f"index, {name}", "", million(got["records"] / got["seconds"])))
    return table(("cached files", "bytes", "records a second"), rows)


def cold(bench):
    rows = []
    size = sum(path.stat().st_size for path in bench.folder.glob("wide/data-*"))

    def bare():
        began = time.monotonic()
        buffer = bytearray(8 << 20)
        for path in sorted(bench.folder.glob("wide/data-*")):
            with open(path, "rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass
        return size / (time.monotonic() - began)

    with bench.daemon(2):
        for order in ("NONE", "WINDOW seed: 1"):
            spec = bench.tabular(f"cold-{order[:4].lower()}", f"shuffle: {order} repeat: 1",
                                 "wide/data-*", 768)
            bench.stoker("open", spec)  # the index is made before the files are dropped
            bench.drop("wide/data-*")
            storage = bare()
            bench.drop("wide/data-*")
            began = time.monotonic()
            bench.stoker("read", spec)
            rows.append((order.split()[0], giga(size / (time.monotonic() - began)), giga(storage)))
    return table(("not in the page cache, 3 KB records", "read", "bare sequential reads of 8 MB"),
                 rows)


def huge(bench, records=200_000_000, shards=8):
    folder = bench.folder / "huge"
    folder.mkdir()
    empty = bytes(8) + bytes.fromhex("29039807d8ea82a2")  # a record without bytes
    block = empty * 100_000
    for shard in range(shards):
        with open(folder / f"data-{shard:05}-of-{shards:05}", "wb") as file:
            for _ in range(records // shards // 100_000):
                file.write(block)
    spec = bench.spec("huge", f"""name: "huge" source {{ files: "{folder}/data-*" }}
        order {{ shuffle: GLOBAL seed: 1 }} batch {{ size: 256 }}
        tensor {{ name: "x" dtype: INT64 ragged {{}} max_values: 1 }}""")
    rows = []
    for run in ("first time", "with sidecars"):
        with bench.daemon(2) as process:
            began = time.monotonic()
            bench.stoker("open", spec)
            opened = time.monotonic() - began
            began = time.monotonic()
            bench.stoker("read", spec, "--batches", 1)
            first = time.monotonic() - began
            status = json.loads(bench.stoker("--json", "status", "huge"))
            rss = int(next(line.split()[1] for line in open(f"/proc/{process.pid}/status")
                           if line.startswith("VmRSS"))) / 1024
            rows.append((run, f"{opened:.1f} s", f"{first:.2f} s", f"{rss:.0f} MB",
                         f"{int(status.get('index_bytes', 0)) / 1e6:.0f} MB"))
    return table((f"{records // 10**6} million records of no bytes, GLOBAL", "opened",
                  "first batch, process start included", "daemon's memory", "its index"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=HERE.parents[1] / "build/release/bin")
    parser.add_argument("--folder", help="where the data is written")
    parser.add_argument("--huge", action="store_true", help="200 million records too")
    parser.add_argument("--out", type=pathlib.Path, help="write the page here as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        bench = Bench(pathlib.Path(folder), options.bin.resolve())
        where = machine()
        bench.stoker("synth", bench.folder / "tabular", "--kind", "tabular", "--rows", 4_000_000,
                     "--shards", 8)
        bench.stoker("synth", bench.folder / "wide", "--kind", "tabular", "--floats", 768,
                     "--rows", 200_000, "--shards", 8)
        alone, steps = reading(bench)
        rows, wide = delivery(bench)
        parts = [f"Measured on {where}.\n\n{alone[0].upper()}{alone[1:]}.\n",
                 "## Reading\n\n" + steps, "## The whole daemon\n\n" + rows + "\n" + wide,
                 "## Hand-over\n\n" + hand_over(bench), "## Tools\n\n" + tools(bench),
                 "## Cold files\n\n" + cold(bench)]
        if options.huge:
            parts.append("## Many records\n\n" + huge(bench))
    page = "\n".join(parts)
    print(page)
    if options.out:
        text = options.out.read_text()
        mark = "<!-- table.py writes what follows -->\n"
        options.out.write_text(text.split(mark)[0] + mark + "\n" + page)


if __name__ == "__main__":
    main()
