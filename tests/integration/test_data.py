"""Real files of other projects, against an oracle that is not ours (the shared test data)."""

import base64
import hashlib
import json
import struct
import sys

from support import DATA, Case, main, stoker

KINDS = {"Example": "Example", "SequenceExample": "SequenceExample"}


class RealFiles(Case):
    @classmethod
    def setUpClass(cls):
        cls.expected = json.loads((DATA / "expected.json").read_text())

    def test_inspect_agrees_on_every_file(self):
        paths = sorted(self.expected)
        done = stoker("--json", "inspect", *(DATA / p for p in paths), check=False)
        self.assertEqual(done.returncode, 1)  # one of them is not a TFRecord
        found = json.loads(done.stdout)["files"]
        self.assertEqual(len(found), 124)
        for path, file in zip(paths, found):
            want = self.expected[path]
            with self.subTest(path):
                self.assertEqual(file["compression"], want["compression"])
                self.assertEqual(file["records"], want["records"])
                self.assertEqual(file["records_sha256"], want["records_sha256"])
                if "first_error" in want:
                    self.assertIn("not-a-tfrecord", file["error"])
                    continue
                self.assertIsNone(file["error"])
                if want["kind"] in KINDS:
                    self.assertEqual(file["kind"], want["kind"])
                elif want["records"] == 0:
                    self.assertEqual(file["kind"], "empty")
                else:
                    self.assertEqual(file["kind"], "other")
                if "features" not in want:
                    continue
                self.assertEqual(sorted(file["features"]), sorted(want["features"]))
                for name, feature in want["features"].items():
                    ours = file["features"][name]
                    for key in ("records_with_value", "records_with_no_kind"):
                        self.assertEqual(ours[key], feature[key], (name, key))
                    for key in ("kind", "min_count", "max_count"):
                        self.assertEqual(ours[key], feature[key], (name, key))

    def test_verify_finds_every_file_whole(self):
        paths = sorted(self.expected)
        done = stoker("--json", "verify", *(DATA / p for p in paths), check=False)
        files = json.loads(done.stdout)["files"]
        self.assertEqual(len(files), 124)
        for path, file in zip(paths, files):
            with self.subTest(path):
                self.assertEqual(file["records"], self.expected[path]["records"])
                self.assertEqual(file["damage"], [])
                refused = "first_error" in self.expected[path]
                self.assertEqual("not-a-tfrecord" in (file["error"] or ""), refused)

    def test_real_photos_are_packed_and_delivered(self):
        out = self.folder / "photos"
        told = json.loads(stoker("--json", "pack", DATA / "jpeg" / "photo", out, "--shards", 3).stdout)
        self.assertEqual((told["images"], told["left_out"]), (28, []))
        classes = (out / "classes.txt").read_text().splitlines()
        self.assertEqual(len(classes), len(told["classes"]))
        self.assertIn("dali_cat", classes)
        with self.daemon() as daemon:
            digests = daemon.digests(out / "spec.textproto", "--epochs", 1)
        self.assertEqual(digests[0]["rows"], 28)

    def test_resharding_keeps_every_record_of_a_real_set(self):
        names = sorted(p for p in self.expected if "iris_splits" in p)
        out = self.folder / "iris"
        stoker("reshard", *(DATA / p for p in names), "--out", out, "--shards", 2)
        files = sorted(out.iterdir())
        done = json.loads(stoker("--json", "inspect", *files).stdout)["files"]
        want = [self.expected[p] for p in names]
        self.assertEqual(sum(f["records"] for f in done), sum(f["records"] for f in want))
        self.assertEqual(sorted(done[0]["features"]), sorted(want[0]["features"]))

    def feature_digest(self, rows, name, kind, present):
        """The oracle's digest of one feature over dumped rows."""
        digest = hashlib.sha256()
        for index, row in enumerate(rows):
            values = row["tensors"][name]
            if not values and not present:
                continue
            digest.update(struct.pack("<QI", index, len(values)))
            for value in values:
                if kind == "int64":
                    digest.update(struct.pack("<q", value))
                elif kind == "float":
                    digest.update(struct.pack("<f", float(value)))
                else:
                    data = base64.b64decode(value)
                    digest.update(struct.pack("<I", len(data)) + data)
        return digest.hexdigest()

    def test_reading_reproduces_the_features_of_many_files(self):
        read = 0
        with self.daemon() as daemon:
            for path, want in sorted(self.expected.items()):
                features = {n: f for n, f in want.get("features", {}).items()
                            if f["records_with_value"]}
                small = (DATA / path).stat().st_size < 400_000 and want["records"] <= 2000
                if want["kind"] != "Example" or not small or not features:
                    continue
                tensors, names = [], {}
                for i, (name, feature) in enumerate(features.items()):
                    names[name] = f"t{i}"
                    dtype = {"int64": "INT64", "float": "FLOAT32", "bytes": "BYTES"}[feature["kind"]]
                    quoted = json.dumps(name)
                    tensors.append(f'tensor {{ name: "t{i}" feature: {quoted} dtype: {dtype} ragged {{}} }}')
                spec = self.spec(f"""name: "real{read}" source {{ files: {json.dumps(str(DATA / path))} }}
                    order {{ repeat: 1 }} {" ".join(tensors)} batch {{ size: 64 }}""")
                rows = daemon.dump(spec)
                with self.subTest(path):
                    self.assertEqual(len(rows), want["records"])
                    self.assertEqual([r["record"] for r in rows], list(range(want["records"])))
                    for name, feature in features.items():
                        # A ragged tensor does not tell a missing feature from an empty list:
                        # compare where none is missing, or none is empty.
                        everywhere = feature["records_with_value"] == want["records"]
                        if not everywhere and feature["min_count"] == 0:
                            continue
                        self.assertEqual(
                            self.feature_digest(rows, names[name], feature["kind"], everywhere),
                            feature["sha256"], name)
                daemon.stoker("close", f"real{read}")
                read += 1
        self.assertGreaterEqual(read, 20)

    def test_what_is_no_example_is_refused_by_name(self):
        refusals = {"NOT a TFRecord": "not-a-tfrecord", "empty file": "zero-records"}
        seen = 0
        with self.daemon() as daemon:
            for path, want in sorted(self.expected.items()):
                if want["kind"] == "Example" or want["records"] > 2000:
                    continue
                spec = self.spec(f"""name: "no" source {{ files: {json.dumps(str(DATA / path))} }}
                    order {{ repeat: 1 }}
                    tensor {{ name: "nowhere" dtype: INT64 }} batch {{ size: 1 }}""")
                done = daemon.stoker("read", spec, "--dump", check=False)
                word = next((w for k, w in refusals.items() if want["kind"].startswith(k)), None)
                with self.subTest(path):
                    self.assertNotEqual(done.returncode, 0)
                    self.assertEqual(done.stdout, "")
                    known = [word] if word else ["malformed-example", "ambiguous-example",
                                                 "feature-missing"]
                    self.assertTrue(any(k in done.stderr for k in known), done.stderr)
                daemon.stoker("close", "no", check=False)
                seen += 1
        self.assertGreater(seen, 20)

    def test_a_suggested_spec_reads_its_files(self):
        suggested = 0
        with self.daemon() as daemon:
            for path, want in sorted(self.expected.items()):
                if want["kind"] != "Example" or not 0 < want["records"] <= 2000:
                    continue
                text = stoker("inspect", "--suggest", DATA / path, check=False)
                if text.returncode != 0:
                    continue
                out = daemon.stoker("--json", "read", self.spec(text.stdout))
                with self.subTest(path):
                    self.assertEqual(json.loads(out.stdout)["rows"], want["records"])
                daemon.stoker("close", "suggested")
                suggested += 1
        self.assertGreater(suggested, 40)


if __name__ == "__main__":
    if not DATA.exists():
        print(f"skipped: no test data at {DATA} (set STOKER_TEST_DATA)")
        sys.exit(77)
    main()
