"""The journal against a judge that shares nothing with it, and `which` against what was read."""

import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import time
import zlib

from jpeg import tiny_jpeg
from logging_trainer import whole_lines
from support import CLIENT_ENVIRONMENT, PATIENCE, Case, example, main, write_ids, write_records
from trainer import Trainer

SPEC = """
name: "ids" source {{ files: "part-*" {source} }} order {{ shuffle: {order} }}
tensor {{ name: "id" dtype: INT64 }} batch {{ size: {batch} {remainder} }}
"""


def philox(seed, row_id, epoch, op):
    """The first four words of Philox 4x32-10 for one op of one row."""
    c = [row_id & 0xFFFFFFFF, row_id >> 32 & 0xFFFFFFFF, epoch, op << 20]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 1 << 32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


class Audit(Case):
    def ids(self, order="GLOBAL seed: 4 repeat: 3", batch=8, remainder="", source="", rows=400):
        write_ids(self.data, [rows // 2, rows // 4, rows - rows // 2 - rows // 4])
        return self.spec(SPEC.format(order=order, batch=batch, remainder=remainder, source=source))

    def audit(self, daemon, name="ids"):
        return json.loads(daemon.stoker("--json", "audit", name).stdout)

    def verdicts(self, daemon):
        return {epoch["epoch"]: [(r["begin"], r["end"], r["verdict"]) for r in epoch["rows"]]
                for epoch in self.audit(daemon)["epochs"]}

    def trainer(self, daemon, rank, world_size, hold=0):
        log = self.folder / f"log-{rank}"
        return subprocess.Popen(
            [sys.executable, "-B", str(pathlib.Path(__file__).with_name("logging_trainer.py")),
             str(daemon.run), "ids", str(rank), str(world_size), str(log), str(hold)],
            stderr=subprocess.PIPE, env=CLIENT_ENVIRONMENT)

    def logged(self, rank):
        """The rows that a rank's log holds; each line's CRC is checked."""
        rows = []
        for ids, crc, _ in whole_lines(self.folder / f"log-{rank}"):
            ids = [int(i) for i in ids.split(",")]
            self.assertEqual(f"{zlib.crc32(struct.pack(f'<{len(ids)}q', *ids)):08x}", crc)
            rows.append(ids)
        return rows

    def lines(self, rank):
        path = self.folder / f"log-{rank}"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def wait_for(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.002)

    def run_all(self, daemon, world_size, hold=0):
        trainers = [self.trainer(daemon, rank, world_size, hold) for rank in range(world_size)]
        for trainer in trainers:
            _, errors = trainer.communicate(timeout=PATIENCE)
            self.assertEqual(trainer.returncode, 0, errors.decode())
        rows = [self.logged(rank) for rank in range(world_size)]
        for rank in range(world_size):
            (self.folder / f"log-{rank}").unlink()
        return rows

    def test_trainers_and_daemons_killed_at_random_lose_nothing_and_the_audit_agrees(self):
        spec = self.ids(order="GLOBAL seed: 4 repeat: 40", batch=5)
        world_size = 2
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            undisturbed = self.run_all(daemon, world_size)
            daemon.stoker("close", "ids")
            daemon.stoker("open", spec)
            draw = random.Random(int(os.environ.get("STOKER_TEST_SEED", "1")))
            total = len(undisturbed[0])
            trainers = [self.trainer(daemon, rank, world_size, hold=2)
                        for rank in range(world_size)]
            points = sorted(draw.randrange(total - 20) for _ in range(24))
            for kill, point in enumerate(points):
                victim = draw.randrange(world_size)
                self.wait_for(lambda: self.lines(victim) >= point or
                              trainers[victim].poll() is not None)
                if kill % 3 == 0:
                    daemon.process.kill()
                    daemon.process.wait()
                    daemon.start()
                if kill % 3 != 0 or kill % 6 == 0:
                    trainers[victim].kill()
                    trainers[victim].communicate()
                    trainers[victim] = self.trainer(daemon, victim, world_size, hold=2)
            for trainer in trainers:
                _, errors = trainer.communicate(timeout=PATIENCE)
                self.assertEqual(trainer.returncode, 0, errors.decode())
            for rank in range(world_size):
                self.assertEqual(self.logged(rank), undisturbed[rank])
            self.assertEqual(self.verdicts(daemon),
                             {epoch: [(0, 400, "once")] for epoch in range(40)})
            entries = self.audit(daemon)["entry"]
            self.assertTrue(any(int(e["effective_row"]) < int(e["delivered_row"])
                                for e in entries))

    def test_a_job_that_went_on_with_another_world_size_counts_each_row_once(self):
        spec = self.ids(order="GLOBAL seed: 4 repeat: 1", batch=4)
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            seen = []
            with Trainer(daemon.run, "ids", rank=0, world_size=2) as a, \
                    Trainer(daemon.run, "ids", rank=1, world_size=2) as b:
                for _ in range(7):
                    for trainer in (a, b):
                        batch = trainer.next()
                        seen += batch.ids()
                        token = batch.token()
                        batch.release()
            with Trainer(daemon.run, "ids", token=token.encode()) as alone:
                for batch in alone:
                    seen += batch.ids()
                    batch.release()
            self.assertEqual(sorted(seen), list(range(400)))
            self.assertEqual(self.verdicts(daemon), {0: [(0, 400, "once")]})

    def test_a_live_stream_says_what_each_lane_delivered_and_what_came_back(self):
        spec = self.ids(order="NONE repeat: 1", batch=10)
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            with Trainer(daemon.run, "ids") as trainer:
                held = [trainer.next() for _ in range(3)]
                held[0].release()
                held[2].release()  # out of order: the second is the first that is still out
                self.wait_for(lambda: daemon.status("ids")["lane"][0]["slots_held"] == 1 and
                              daemon.status("ids")["lane"][0]["slots_ready"] == 3)
                entry, = self.audit(daemon)["entry"]
                self.assertEqual(
                    {k: entry[k] for k in ("start_row", "delivered_row", "released_row", "rows",
                                           "batches", "ended", "open", "effective_row")},
                    {"start_row": "0", "delivered_row": "60", "released_row": "10", "rows": "60",
                     "batches": "6", "ended": False, "open": True, "effective_row": "60"})
            self.wait_for(lambda: not daemon.status("ids").get("lane"))
            daemon.stoker("close", "ids")
            entry, = self.audit(daemon)["entry"]
            self.assertEqual((entry["open"], entry["released_row"]), (False, "10"))
            self.assertIn("rows 0 to 60 once", daemon.stoker("audit", "ids").stdout)
            self.refused(daemon.stoker("audit", "other", check=False), "no journal")
            self.refused(daemon.stoker("audit", "../ids", check=False), "not a stream's name")

    def test_bad_rows_are_counted_where_they_were_met(self):
        for policy, counts in (("DROP_ROW", ("2", "0")), ("REPLACE", ("0", "2"))):
            for path in self.data.iterdir():
                path.unlink()
            rows = [example({"id": [i]} if i not in (3, 17) else {"other": [i]})
                    for i in range(40)]
            write_records(self.data / "part-0", rows)
            spec = self.spec(SPEC.format(order="NONE repeat: 2", batch=10, remainder="",
                                         source=f"on_bad_record: SKIP bad_row: {policy}"))
            with self.daemon() as daemon:
                daemon.stoker("read", spec, "--digest")
                entries = self.audit(daemon)["entry"]
                self.assertEqual([(e["skipped"], e["replaced"]) for e in entries[-2:]],
                                 [counts, counts])

    def test_which_names_the_rows_that_are_read(self):
        for order in ("GLOBAL seed: 9 repeat: 2", "WINDOW seed: 9 window { rows: 50 } repeat: 2",
                      "NONE interleave { cycle: 2 block: 3 } repeat: 2"):
            spec = self.ids(order=order, batch=7)
            with self.daemon() as daemon:
                daemon.stoker("open", spec)
                with Trainer(daemon.run, "ids", rank=0, world_size=2):
                    rows = daemon.dump("ids", "--rank", 1, "--world-size", 2)
                batches = {}
                for row in rows:
                    batches.setdefault((row["epoch"], row["step"]), []).append(row)
                self.assertEqual(len(batches), 58)
                for epoch, step in [(0, 0), (0, 13), (0, 28), (1, 0), (1, 21)]:
                    said = json.loads(daemon.stoker(
                        "--json", "which", "ids", "--epoch", epoch, "--step", step, "--rank", 1,
                        "--world-size", 2).stdout)["row"]
                    read = batches[epoch, step]
                    self.assertEqual([int(r["row_id"]) for r in said],
                                     [r["row_id"] for r in read])
                    self.assertEqual([(r["shard"], int(r["record"])) for r in said],
                                     [(str(self.data / f"part-{r['shard']:05d}"), r["record"])
                                      for r in read])
                    for row in said:
                        # The record stands where it says: its header's length is that of its bytes.
                        data = pathlib.Path(row["shard"]).read_bytes()
                        at = 0
                        for _ in range(int(row["record"])):
                            at += struct.unpack_from("<Q", data, at)[0] + 16
                        self.assertEqual(int(row["offset"]), at)
                self.refused(daemon.stoker("which", "ids", "--epoch", 0, "--step", 99,
                                           check=False), "steps 0 to 29")
                self.refused(daemon.stoker("which", "ids", "--epoch", 2, "--step", 0,
                                           check=False), "2 epochs")

    def test_which_after_a_resume_with_another_world_counts_from_the_tokens_row(self):
        spec = self.ids(order="GLOBAL seed: 9 repeat: 1", batch=7)
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            with Trainer(daemon.run, "ids", world_size=2) as trainer:
                batch = trainer.next()
                token = batch.token()
                batch.release()
            rows = daemon.dump("ids", "--token", token)
            step = rows[70]["step"]
            said = json.loads(daemon.stoker("--json", "which", "ids", "--epoch", 0, "--step", step,
                                            "--origin", 14).stdout)["row"]
            self.assertEqual([int(r["row_id"]) for r in said],
                             [r["row_id"] for r in rows if r["step"] == step])

    def test_which_tells_each_rows_draws(self):
        write_records(self.data / "part-0", [
            example({"i": [tiny_jpeg(5)], "id": [n]}) for n in range(64)])
        spec = self.spec("""name: "ids" source { files: "part-*" }
            order { shuffle: GLOBAL seed: 81985529216486895 repeat: 2 }
            tensor { name: "id" dtype: INT64 }
            tensor { name: "i" dtype: UINT8 image { channels: 1 }
              op { resize { height: 8 width: 8 method: NEAREST } }
              op { random_flip_horizontal {} } op { random_crop { height: 8 width: 8 } } }
            batch { size: 16 }""")
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            rows = daemon.dump("ids")
            plain = None
            for epoch, step in [(0, 0), (1, 3)]:
                said = json.loads(daemon.stoker("--json", "which", "ids", "--epoch", epoch,
                                                "--step", step).stdout)["row"]
                read = [r for r in rows if (r["epoch"], r["step"]) == (epoch, step)]
                self.assertEqual(len(said), 16)
                for row, got in zip(said, read):
                    flip, crop = row["draw"]
                    self.assertEqual((flip["op"], flip["number"], crop["op"], crop["number"]),
                                     ("random_flip_horizontal", 1, "random_crop", 2))
                    words = philox(81985529216486895, int(row["row_id"]), epoch, 1)
                    self.assertEqual(flip["word"], words)
                    self.assertEqual(flip["applied"], (words[0] >> 8) / (1 << 24) < 0.5)
                    pixels = got["tensors"]["i"]
                    flat = json.dumps(pixels)
                    plain = plain or {flip["applied"]: flat}
                    self.assertEqual(plain.setdefault(flip["applied"], flat), flat)
            self.assertEqual(len(set(plain.values())), 2)


if __name__ == "__main__":
    main()
