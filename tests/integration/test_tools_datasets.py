"""reshard and pack: datasets made whole, of records that are exactly those that went in."""

import base64
import json
import os
import random
import subprocess
import zlib

from jpeg import tiny_jpeg
from support import BIN, Case, frame, main, stoker, write_records


def records_of(path, compression="none"):
    data = path.read_bytes()
    if compression != "none":
        data = zlib.decompress(data, 47 if compression == "gzip" else 15)
    at, out = 0, []
    while at < len(data):
        length = int.from_bytes(data[at:at + 8], "little")
        out.append(data[at + 12:at + 12 + length])
        at += 16 + length
    return out


def shards(folder):
    return sorted(p for p in folder.iterdir() if "-of-" in p.name)


class Reshard(Case):
    def inputs(self, count=100, longest=2000):
        rng = random.Random(5)
        payloads = [rng.randbytes(rng.randrange(longest)) for _ in range(count)]
        third = count // 3
        return payloads, [
            write_records(self.folder / "a", payloads[:third]),
            write_records(self.folder / "b", payloads[third:2 * third], "gzip"),
            write_records(self.folder / "c", payloads[2 * third:], "zlib")]

    def reshard(self, *arguments, **options):
        return json.loads(stoker("--json", "reshard", *arguments, **options).stdout)

    def test_by_count_the_order_stays_and_shards_differ_by_one_record_at_most(self):
        payloads, files = self.inputs()
        for compression in ("none", "gzip", "zlib"):
            out = self.folder / f"out-{compression}"
            told = self.reshard(*files, "--out", out, "--shards", 7, "--compression", compression,
                                "--name", "train")
            self.assertEqual(told, {"files": f"{out}/train-*-of-00007", "shards": 7,
                                    "records": 100})
            names = [p.name for p in sorted(out.iterdir())]
            self.assertEqual(names, [f"train-{i:05d}-of-00007" for i in range(7)])
            found = [records_of(p, compression) for p in shards(out)]
            self.assertEqual([len(f) for f in found], [14, 14, 14, 15, 14, 14, 15])
            self.assertEqual(sum(found, []), payloads)
            stoker("verify", *shards(out))

    def test_by_size_no_shard_is_larger_but_for_one_record(self):
        payloads = [b"x" * 84] * 50 + [b"y" * 5000] + [b"z" * 84] * 5
        write_records(self.folder / "in", payloads)
        out = self.folder / "out"
        self.reshard(self.folder / "in", "--out", out, "--shard-bytes", "1kb")
        sizes = [p.stat().st_size for p in shards(out)]
        self.assertEqual(sizes, [1000] * 5 + [5016, 500])
        self.assertEqual(sum(map(records_of, shards(out)), []), payloads)

    def test_a_shuffle_is_drawn_from_the_seed_and_not_from_the_memory(self):
        payloads, files = self.inputs(300)
        orders = {}
        for name, seed, memory in (("a", 1, "1gb"), ("b", 1, "20kb"), ("c", 1, "1"), ("d", 2, "1gb")):
            out = self.folder / f"out-{name}"
            self.reshard(*files, "--out", out, "--shards", 3, "--shuffle", "--seed", seed,
                         "--memory", memory)
            self.assertEqual(len(list(out.iterdir())), 3)
            orders[name] = sum(map(records_of, shards(out)), [])
            self.assertEqual(sorted(orders[name]), sorted(payloads))
        self.assertEqual(orders["a"], orders["b"])
        self.assertEqual(orders["a"], orders["c"])
        self.assertNotEqual(orders["a"], payloads)
        self.assertNotEqual(orders["a"], orders["d"])
        # Neighbours are parted: of 299 pairs about one stays.
        place = {p: i for i, p in enumerate(orders["a"])}
        together = sum(place[b] == place[a] + 1 for a, b in zip(payloads, payloads[1:]))
        self.assertLess(together, 10)

    def peak(self, *arguments):
        """Most resident KiB of one run."""
        environment = dict(os.environ)
        # A sanitizer keeps freed memory for a while; that is not the tool's.
        environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"
        process = subprocess.Popen([str(BIN / "stoker"), *map(str, arguments)], env=environment,
                                   stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        return usage.ru_maxrss

    def test_memory_is_bounded_whatever_the_size(self):
        stoker("synth", self.folder / "t", "--kind", "tabular", "--rows", 500000, "--shards", 1)
        source = self.folder / "t" / "data-00000-of-00001"
        shuffle = lambda name, memory: self.peak(
            "reshard", source, "--out", self.folder / name, "--shards", 1, "--shuffle", "--memory",
            memory)
        large, small = shuffle("large", "1gb"), shuffle("small", "8mb")
        # 89 MB of records: held at once, or a few at a time.
        self.assertGreater(large - small, 50 << 10)
        read = lambda name: (self.folder / name / "data-00000-of-00001").read_bytes()
        self.assertEqual(zlib.crc32(read("large")), zlib.crc32(read("small")))

    def test_what_cannot_be_done_is_refused_and_leaves_nothing(self):
        good = write_records(self.folder / "good", [b"one", b"two"])
        bad = self.folder / "bad"
        data = bytearray(b"".join(map(frame, [b"one", b"two", b"three"])))
        data[19 + 12] ^= 1
        bad.write_bytes(data)
        out = self.folder / "out"
        refuse = lambda *a: stoker("reshard", *a, check=False)
        for extra in ((), ("--shuffle",)):
            self.refused(refuse(good, bad, "--out", out, "--shards", 1, *extra), f"{bad}: record 1",
                         "offset 19", "payload-crc-mismatch", "stoker repair")
            self.refused(refuse(good, "--out", out, "--shards", 3, *extra), "3 shards of 2 records")
        self.refused(refuse(good, self.folder / "none", "--out", out, "--shards", 1), "none")
        self.refused(refuse(good, "--out", self.data, "--shards", 1), "is there already")
        self.assertEqual(refuse(good, "--out", out).returncode, 2)
        self.assertEqual(refuse(good, "--out", out, "--shards", 1, "--shard-bytes", 5).returncode, 2)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["bad", "data", "good"])
        self.assertEqual(list(self.data.iterdir()), [])


class ShuffleCheck(Case):
    def test_each_order_gets_its_verdict(self):
        stoker("synth", self.folder / "t", "--kind", "tabular", "--rows", 20000, "--shards", 4)
        base = (self.folder / "t" / "spec.textproto").read_text()
        cases = {"global": ("shuffle: GLOBAL seed: 3 repeat: 1", "shuffled", 0),
                 "drawn": ("shuffle: GLOBAL", "shuffled", 0),
                 "none": ("shuffle: NONE", "not-shuffled", 1),
                 "fixed": ("shuffle: GLOBAL seed: 3 reshuffle: false", "same-every-epoch", 1),
                 "window": ("shuffle: WINDOW seed: 3 window { rows: 500 } interleave { cycle: 1 }",
                            "weakly-shuffled", 1)}
        with self.daemon() as daemon:
            for name, (order, verdict, code) in cases.items():
                spec = self.folder / "t" / f"{name}.textproto"
                spec.write_text(base.replace("shuffle: GLOBAL seed: 7 repeat: 3", order))
                done = daemon.stoker("--json", "shuffle-check", spec, "--rows", 2000, check=False)
                out = json.loads(done.stdout)
                with self.subTest(name):
                    self.assertEqual((out["verdict"], done.returncode), (verdict, code), out)
                    self.assertEqual((out["rows_per_epoch"], out["rows_compared"]), (20000, 2000))
                    self.assertEqual(out["overlap_by_chance"], 200.0)
            self.assertEqual(json.loads(daemon.stoker("--json", "list").stdout)["stream"], [])

    def test_overlap_and_correlation_are_those_of_the_delivered_rows(self):
        stoker("synth", self.folder / "t", "--kind", "tabular", "--rows", 3000)
        spec = self.folder / "t" / "spec.textproto"
        with self.daemon() as daemon:
            out = json.loads(daemon.stoker("--json", "shuffle-check", spec, "--rows", 600).stdout)
            ids = {e: [] for e in range(2)}
            for row in daemon.dump(spec, "--epochs", 2):
                ids[row["epoch"]].append(row["row_id"])
        first, second = ids[0][:600], ids[1][:600]
        self.assertEqual(out["overlap"], len(set(first) & set(second)))
        ranks = lambda values: [sorted(values).index(v) for v in values]
        squares = sum((a - b) ** 2 for a, b in enumerate(ranks(first)))
        self.assertAlmostEqual(out["first_epoch"]["rank_correlation"],
                               1 - 6 * squares / (600 * (600 ** 2 - 1)))
        both = [r for r in first if r in second]
        squares = sum((a - b) ** 2 for a, b in enumerate(ranks([second.index(r) for r in both])))
        self.assertAlmostEqual(out["rank_correlation"],
                               1 - 6 * squares / (len(both) * (len(both) ** 2 - 1)))

    def test_a_running_stream_is_checked_by_name_and_not_disturbed(self):
        stoker("synth", self.folder / "t", "--kind", "tabular", "--rows", 1024)
        with self.daemon() as daemon:
            reader = daemon.spawn("read", self.folder / "t" / "spec.textproto", "--dump")
            reader.stdout.readline()
            out = json.loads(daemon.stoker("--json", "shuffle-check", "tabular").stdout)
            self.assertEqual((out["stream"], out["verdict"], out["rows_compared"]),
                             ("tabular", "shuffled", 1024))
            lane = daemon.status("tabular")["lane"]
            self.assertEqual([c["pid"] for c in lane[0]["consumer"]], [str(reader.pid)])
            rest = reader.stdout.read().splitlines()
            reader.communicate()
            self.assertEqual((reader.returncode, len(rest) + 1), (0, 3 * 1024))
            self.refused(daemon.stoker("shuffle-check", "nobody", check=False), "nobody")


class Pack(Case):
    SPEC = ('name: "p" source {{ files: "{out}/data-*" }} batch {{ size: 10 }} order {{ repeat: 1 }} '
            'tensor {{ name: "label" feature: "image/class/label" dtype: INT64 }} '
            'tensor {{ name: "text" feature: "image/class/text" dtype: BYTES }} '
            'tensor {{ name: "bytes" feature: "image/encoded" dtype: BYTES }} '
            'tensor {{ name: "file" feature: "image/filename" dtype: BYTES }} '
            'tensor {{ name: "format" feature: "image/format" dtype: BYTES }} '
            'tensor {{ name: "height" feature: "image/height" dtype: INT64 }} '
            'tensor {{ name: "width" feature: "image/width" dtype: INT64 }}')

    def rows(self, out):
        """Of each image what its record says, by file."""
        plain = lambda v: base64.b64decode(v[0]) if isinstance(v, list) else v
        with self.daemon() as daemon:
            rows = [{k: plain(v) for k, v in row["tensors"].items()}
                    for row in daemon.dump(self.spec(self.SPEC.format(out=out)))]
            ends = daemon.digests(out / "spec.textproto", "--epochs", 1)
            self.assertEqual(ends[0]["rows"], len(rows))
        self.order = [r["file"].decode() for r in rows]
        return {r["file"].decode(): r for r in rows}

    def images(self, names):
        for i, name in enumerate(names):
            path = self.folder / "images" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(tiny_jpeg(i))
        return self.folder / "images"

    def check(self, out, names, classes):
        labels = sorted(set(classes))
        self.assertEqual((out / "classes.txt").read_text().splitlines(), labels)
        rows = self.rows(out)
        self.assertEqual(sorted(rows), sorted(names))
        for i, (name, label) in enumerate(zip(names, classes)):
            self.assertEqual(rows[name], {
                "label": labels.index(label), "text": label.encode(), "bytes": tiny_jpeg(i),
                "file": name.encode(), "format": b"jpeg", "height": 16, "width": 16})

    def test_folders_are_classes(self):
        names = [f"{c}/{i}.jpg" for c in ("zebra", "ant", "red panda") for i in range(9)]
        folder = self.images(names)
        (folder / "ant" / ".DS_Store").write_text("junk")
        out = self.folder / "out"
        told = json.loads(stoker("--json", "pack", folder, out, "--shards", 4).stdout)
        self.assertEqual((told["images"], told["shards"], told["hidden_skipped"], told["left_out"]),
                         (27, 4, 1, []))
        self.assertEqual(told["classes"], [{"label": i, "name": n, "images": 9}
                                           for i, n in enumerate(["ant", "red panda", "zebra"])])
        self.assertEqual(len(shards(out)), 4)
        self.check(out, names, [n.split("/")[0] for n in names])
        self.assertNotEqual(self.order, sorted(names))

    def test_prefixes_are_classes(self):
        names = ["cat_001.jpg", "cat_002.jpg", "red-panda 7.jpg", "sea12-b.jpg", "owl.jpg"]
        folder = self.images(names)
        out = self.folder / "out"
        stoker("pack", folder, out, "--as-stored")
        self.check(out, names, ["cat", "cat", "red-panda", "sea", "owl"])
        self.assertEqual(self.order, sorted(names))

    def test_the_same_seed_packs_the_same_bytes_on_any_threads(self):
        folder = self.images([f"{c}/{i}.jpg" for c in "abc" for i in range(20)])
        read = {}
        for name, seed, threads in (("x", 1, 1), ("y", 1, 4), ("z", 2, 2)):
            stoker("pack", folder, self.folder / name, "--shards", 5, "--seed", seed, "--threads",
                   threads, "--compression", "gzip")
            read[name] = [p.read_bytes() for p in shards(self.folder / name)]
        self.assertEqual(read["x"], read["y"])
        self.assertNotEqual(read["x"], read["z"])

    def test_what_is_no_image_is_refused_or_left_out_by_name(self):
        folder = self.images(["a/1.jpg", "a/2.jpg", "b/3.jpg"])
        (folder / "b" / "notes.txt").write_text("about b")
        (folder / "b" / "cut.jpg").write_bytes(tiny_jpeg(1)[:-2])
        out = self.folder / "out"
        self.refused(stoker("pack", folder, out, check=False), f"{folder}/b/", "--skip-bad")
        self.assertFalse(out.exists())
        told = json.loads(stoker("--json", "pack", folder, out, "--skip-bad").stdout)
        self.assertEqual([l["path"] for l in told["left_out"]], ["b/cut.jpg", "b/notes.txt"])
        self.assertIn("bad-image", told["left_out"][0]["why"])
        self.assertIn("unsupported-image-format", told["left_out"][1]["why"])
        self.assertEqual([c["images"] for c in told["classes"]], [2, 1])

    def test_what_cannot_be_told_apart_is_refused_and_leaves_nothing(self):
        refuse = lambda *a: stoker("pack", *a, check=False)
        folder = self.images(["a/1.jpg", "b2.jpg"])
        out = self.folder / "out"
        self.refused(refuse(folder, out), "--classes")
        self.refused(refuse(folder, out, "--classes", "folders"), f"{folder}/b2.jpg", "no class")
        self.refused(refuse(folder, out, "--classes", "prefixes"), f"{folder}/a/1.jpg", "letters")
        self.refused(refuse(folder / "a", out, "--classes", "folders"), "1.jpg")
        self.refused(refuse(self.data, out), "no files")
        self.refused(refuse(folder / "gone", out), "gone")
        (folder / "b2.jpg").unlink()
        self.refused(refuse(folder, self.data), f"{self.data} is there already")
        self.refused(refuse(folder, out, "--shards", 2), "2 shards of 1 images")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["data", "images"])


if __name__ == "__main__":
    main()
