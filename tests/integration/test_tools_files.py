"""verify, index, repair: damage of every sort, told with its place and cut out."""

import json
import os
import pty
import random
import signal
import subprocess
import threading
import time

from support import BIN, PATIENCE, Case, example, frame, main, stoker, write_records

# Three records of 10, 20 and 30 bytes: at 0, 26 and 62 of 108 bytes.
PAYLOADS = [bytes([65 + i]) * (10 * (i + 1)) for i in range(3)]
STARTS = [0, 26, 62, 108]


def read_back(path):
    """The records of a good plain file, by hand."""
    data, at, out = path.read_bytes(), 0, []
    while at < len(data):
        length = int.from_bytes(data[at:at + 8], "little")
        out.append(data[at + 12:at + 12 + length])
        assert frame(out[-1]) == data[at:at + 16 + length]
        at += 16 + length
    return out


class FileTools(Case):
    def verify(self, *paths, threads=2):
        done = stoker("--json", "verify", "--threads", threads, *paths, check=False)
        out = json.loads(done.stdout)
        bad = [f for f in out["files"] if f["damage"] or f["error"]]
        self.assertEqual(done.returncode, 1 if bad else 0)
        self.assertEqual(out["damaged_files"], len(bad))
        return out["files"]

    def places(self, file):
        return [(d["record"], d["offset"], d["class"]) for d in file["damage"]]

    def damaged(self, name, data, flips):
        data = bytearray(data)
        for at in flips:
            data[at] ^= 1
        path = self.folder / name
        path.write_bytes(data)
        return path

    def test_every_cut_is_told_by_its_class_and_place(self):
        whole = b"".join(map(frame, PAYLOADS))
        paths = []
        for n in range(109):
            paths.append(self.folder / f"cut-{n:03d}")
            paths[-1].write_bytes(whole[:n])
        for n, file in enumerate(self.verify(*paths)):
            records = sum(n >= end for end in STARTS[1:])
            left = n - STARTS[records]
            with self.subTest(n):
                self.assertEqual((file["bytes"], file["records"]), (n, records))
                want = [] if left == 0 else [
                    (records, STARTS[records],
                     "truncated-header" if left < 12 else "truncated-payload")]
                self.assertEqual(self.places(file), want)

    def test_every_flipped_bit_is_found_and_costs_one_record_at_most(self):
        whole = b"".join(map(frame, PAYLOADS))
        paths = [self.damaged(f"flip-{n:03d}", whole, [n]) for n in range(108)]
        for n, file in enumerate(self.verify(*paths)):
            record = sum(n >= end for end in STARTS[1:])
            inside = n - STARTS[record]
            with self.subTest(n):
                # Damage to the length's checksum alone leaves a good record.
                good = 3 if 8 <= inside < 12 else 2
                self.assertEqual(file["records"] + file["records_beyond_damage"], good)
                fault = ("payload-crc-mismatch" if inside >= 12 else
                         "not-a-tfrecord" if record == 0 else "header-crc-mismatch")
                self.assertEqual(self.places(file), [(record, STARTS[record], fault)])

    def test_repair_saves_what_lies_behind_a_broken_header(self):
        rng = random.Random(1)
        payloads = [rng.randbytes(rng.randrange(3000)) for _ in range(50)]
        starts = [0]
        for p in payloads:
            starts.append(starts[-1] + 16 + len(p))
        whole = b"".join(map(frame, payloads))
        cases = {"header": ([starts[7]], {7}), "first": ([0], {0}),
                 "payload": ([starts[9] + 12], {9}),
                 "two": ([starts[3] + 2, starts[4] + 3], {3, 4}),
                 "last": ([starts[49] + 1], {49}), "crc": ([starts[5] + 9], set()),
                 "footer": ([starts[11] - 1], {10})}
        for name, (flips, lost) in cases.items():
            with self.subTest(name):
                bad = self.damaged(name, whole, flips)
                out = self.folder / f"{name}.good"
                told = json.loads(stoker("--json", "repair", bad, out).stdout)
                kept = [p for i, p in enumerate(payloads) if i not in lost]
                self.assertEqual(read_back(out), kept)
                self.assertEqual(told["records"], len(kept))
                self.assertEqual(self.verify(out)[0]["records"], len(kept))
                self.assertTrue(told["lost"])

    def test_repair_finds_the_way_after_bytes_are_missing_or_too_many(self):
        payloads = [bytes([i]) * 500 for i in range(20)]
        frames = list(map(frame, payloads))
        # 100 bytes of record 4 are gone: its length leads into record 5.
        gone = b"".join(frames[:4]) + frames[4][:200] + frames[4][300:] + b"".join(frames[5:])
        junk = b"".join(frames[:8]) + b"x" * 77 + b"".join(frames[8:])
        torn = b"".join(frames[:12]) + frames[12][:250] + b"".join(frames[13:])
        for name, data, lost in (("gone", gone, {4}), ("junk", junk, set()), ("torn", torn, {12})):
            with self.subTest(name):
                (self.folder / name).write_bytes(data)
                stoker("repair", self.folder / name, self.folder / f"{name}.good")
                self.assertEqual(read_back(self.folder / f"{name}.good"),
                                 [p for i, p in enumerate(payloads) if i not in lost])

    def test_large_files_are_checked_in_pieces_by_any_number_of_threads(self):
        rng = random.Random(2)
        sizes = [rng.choice([0, 5, 174, 3000, 70000, 262144, 1500000]) for _ in range(60)]
        payloads = [rng.randbytes(n) for n in sizes]
        path = self.folder / "large"
        starts = [0]
        for p in payloads:
            starts.append(starts[-1] + 16 + len(p))
        whole = b"".join(map(frame, payloads))
        path.write_bytes(whole)
        for threads in (1, 2, 5):
            self.assertEqual(self.verify(path, threads=threads)[0]["records"], 60)
        hurt = [i for i in (3, 20, 21, 40, 59) if sizes[i] > 0]
        bad = self.damaged("bad", whole, [starts[i] + 12 + sizes[i] // 2 for i in hurt])
        for threads in (1, 2, 5):
            file = self.verify(bad, threads=threads)[0]
            self.assertEqual(self.places(file),
                             [(i, starts[i], "payload-crc-mismatch") for i in hurt])
            self.assertEqual(file["records"], 60 - len(hurt))
        late = next(i for i in range(40, 60) if sizes[i] > 100)
        broken = self.damaged("broken", whole, [starts[30] + 3, starts[late] + 12 + 16])
        for threads in (1, 2, 5):
            file = self.verify(broken, threads=threads)[0]
            self.assertEqual((file["records"], file["records_beyond_damage"]),
                             (30, 28))
            self.assertEqual(self.places(file)[0], (30, starts[30], "header-crc-mismatch"))

    def test_compressed_files_are_checked_to_their_trailer(self):
        rng = random.Random(3)
        payloads = [rng.randbytes(400) for _ in range(200)]
        for kind in ("gzip", "zlib"):
            path = write_records(self.folder / kind, payloads, kind)
            file = self.verify(path)[0]
            self.assertEqual((file["compression"], file["records"], file["damage"]), (kind, 200, []))
            data = path.read_bytes()
            cut = self.folder / f"{kind}-cut"
            cut.write_bytes(data[:-3])
            file = self.verify(cut)[0]
            self.assertEqual([d["class"] for d in file["damage"]], ["compressed-truncated"])
            self.assertEqual(file["records"], 200)
            # Repaired it is whole again, in the same coding.
            stoker("repair", cut, self.folder / f"{kind}-good")
            file = self.verify(self.folder / f"{kind}-good")[0]
            self.assertEqual((file["compression"], file["records"], file["damage"]), (kind, 200, []))

    def test_what_is_no_tfrecord_is_an_error_and_repairs_to_nothing(self):
        path = self.folder / "text"
        path.write_text("this is a text file and nothing else\n" * 100)
        file = self.verify(path)[0]
        self.assertIn("not-a-tfrecord", file["error"])
        self.assertEqual(file["records"], 0)
        self.refused(stoker("repair", path, self.folder / "out", check=False), "not-a-tfrecord")
        self.refused(stoker("repair", self.folder / "gone", self.folder / "out", check=False),
                     "gone", "No such file")
        self.assertIn("No such file", self.verify(self.folder / "gone")[0]["error"])
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["data", "text"])

    def test_an_output_that_is_there_is_never_replaced(self):
        source = write_records(self.folder / "in", PAYLOADS)
        out = self.folder / "out"
        out.write_text("mine")
        self.refused(stoker("repair", source, out, check=False), str(out), "is there already")
        self.refused(stoker("repair", source, source, check=False), str(source))
        self.assertEqual(out.read_text(), "mine")
        self.refused(stoker("repair", source, self.folder / "no" / "out", check=False),
                     "there is no folder")
        self.assertEqual(read_back(source), PAYLOADS)

    def test_an_interrupted_tool_leaves_nothing_behind(self):
        rng = random.Random(4)
        source = write_records(self.folder / "in", [rng.randbytes(2000)] * 15000)
        inside = self.folder / "into"
        inside.mkdir()
        process = subprocess.Popen([BIN / "stoker", "repair", source, inside / "out",
                                    "--compression", "gzip"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE
        while not any(inside.iterdir()) and process.poll() is None:
            self.assertLess(time.monotonic(), deadline)
        process.send_signal(signal.SIGINT)
        code = process.wait(PATIENCE)
        self.assertEqual([p.name for p in inside.iterdir()], ["out"] if code == 0 else [])

    def test_progress_is_for_terminals_alone(self):
        path = write_records(self.folder / "in", PAYLOADS * 100)
        self.assertEqual(stoker("verify", path).stderr, "")
        main_end, other_end = pty.openpty()
        seen = bytearray()

        def drain():
            try:
                while chunk := os.read(main_end, 4096):
                    seen.extend(chunk)
            except OSError:
                pass

        reader = threading.Thread(target=drain)
        reader.start()
        done = subprocess.run([BIN / "stoker", "verify", path], stdout=subprocess.PIPE,
                              stderr=other_end, text=True)
        quiet = subprocess.run([BIN / "stoker", "--json", "verify", path], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        os.close(other_end)
        reader.join(PATIENCE)
        os.close(main_end)
        self.assertIn(b"100 %", bytes(seen))
        self.assertIn("300 good records", done.stdout)
        self.assertEqual((quiet.returncode, quiet.stderr), (0, ""))

    def test_an_index_made_beforehand_is_the_one_that_the_daemon_uses(self):
        rows = [example({"id": [i]}) for i in range(1000)]
        for i in range(3):
            write_records(self.data / f"part-{i}", rows)
        spec = self.spec('name: "s" source { files: "part-*" } tensor { name: "id" dtype: INT64 } '
                         'batch { size: 10 } order { shuffle: GLOBAL seed: 1 repeat: 1 }')
        with self.daemon() as daemon:
            index = lambda: json.loads(daemon.stoker("--json", "index", self.data / "." / "part-*").stdout)
            out = index()
            self.assertEqual(out["cache_dir"], str(self.folder / "cache"))
            self.assertEqual(out["records"], 3000)
            self.assertEqual([f["origin"] for f in out["files"]], ["built"] * 3)
            self.assertEqual([f["origin"] for f in index()["files"]], ["there already"] * 3)
            stamps = lambda: {p.name: (p.stat().st_ino, p.stat().st_mtime_ns)
                              for p in (self.folder / "cache").glob("*.sidx")}
            before = stamps()
            self.assertEqual(len(before), 3)
            self.assertEqual(daemon.digests(spec)[0]["rows"], 3000)
            self.assertEqual(stamps(), before)
        (self.data / "part-1").write_bytes(b"".join(map(frame, rows))[:-1])
        done = stoker("--json", "index", "--cache-dir", self.folder / "cache",
                      *sorted(self.data.glob("part-*")), check=False)
        self.assertEqual(done.returncode, 1)
        files = json.loads(done.stdout)["files"]
        self.assertEqual([f["origin"] for f in files], ["there already", "built", "there already"])
        self.assertIn("record 999", files[1]["error"])
        self.assertIn("truncated-payload", files[1]["error"])


if __name__ == "__main__":
    main()
