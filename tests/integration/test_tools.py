"""The command line as a newcomer meets it: synth, samples, explain, sheet, errors."""

import json
import shutil
import struct
import subprocess

from support import BIN, SOURCE, Case, example, main, stoker, write_records


class Tools(Case):
    SAMPLES = {"tabular": ("tabular", "none", 2000, 2000 // 256 * 256),
               "image": ("image", "none", 100, 100), "text": ("text", "none", 500, 500),
               "window-gzip": ("text", "gzip", 3000, 3000)}

    def test_each_sample_spec_runs_on_its_data(self):
        self.assertEqual(sorted(p.stem for p in (SOURCE / "config" / "samples").glob("*.textproto")),
                         sorted(self.SAMPLES))
        with self.daemon() as daemon:
            for sample, (kind, compression, rows, delivered) in self.SAMPLES.items():
                folder = self.folder / sample
                stoker("synth", folder, "--kind", kind, "--rows", rows, "--compression", compression)
                shutil.copy(SOURCE / "config" / "samples" / f"{sample}.textproto", folder)
                digests = daemon.digests(folder / f"{sample}.textproto")
                self.assertEqual([d["rows"] for d in digests], [delivered] * 3, sample)
                self.assertEqual(len({d["digest"] for d in digests}), 3, sample)

    def test_synth_is_the_same_for_the_same_seed(self):
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            stoker("synth", self.folder / name, "--rows", 20, "--shards", 2, "--seed", seed)
        read = lambda name: (self.folder / name / "data-00001-of-00002").read_bytes()
        self.assertEqual(read("a"), read("b"))
        self.assertNotEqual(read("a"), read("c"))

    def test_explain_tells_the_numbers_without_running(self):
        stoker("synth", self.folder / "t", "--kind", "tabular", "--rows", 1000)
        with self.daemon() as daemon:
            out = json.loads(daemon.stoker("--json", "explain", self.folder / "t" / "spec.textproto",
                                           "--world-size", 2).stdout)
            self.assertEqual((out["records"], out["steps_per_epoch"], out["dropped_rows_per_epoch"]),
                             ("1000", "1", "488"))
            shapes = {t["name"]: t["shape"] for t in out["tensor"]}
            self.assertEqual(shapes, {"x": ["256", "32"], "label": ["256"], "row_ids": ["256"]})
            self.assertEqual(json.loads(daemon.stoker("--json", "list").stdout)["stream"], [])
            self.refused(daemon.stoker("explain", self.folder / "t" / "spec.textproto",
                                       "--world-size", 4, check=True) and
                         daemon.stoker("read", self.folder / "t" / "spec.textproto",
                                       "--world-size", 4, check=False),
                         "0 batches", "1000 records", "4 ranks", "256")

    def test_what_cannot_be_written_is_no_success(self):
        stoker("synth", self.folder / "t", "--kind", "tabular", "--rows", 100, "--shards", 1)
        with open("/dev/full", "w") as full:
            done = subprocess.run([BIN / "stoker", "inspect", self.folder / "t" / "data-00000-of-00001"],
                                  stdout=full, stderr=subprocess.PIPE, text=True)
        self.refused(done, "stdout")

    def test_a_smaller_set_in_a_used_folder_is_read_alone(self):
        stoker("synth", self.folder / "t", "--kind", "tabular", "--rows", 1000, "--shards", 4)
        stoker("synth", self.folder / "t", "--kind", "tabular", "--rows", 600, "--shards", 2)
        with self.daemon() as daemon:
            out = daemon.stoker("--json", "explain", self.folder / "t" / "spec.textproto").stdout
            self.assertEqual(json.loads(out)["records"], "600")

    def test_relative_files_follow_a_linked_folder(self):
        stoker("synth", self.folder / "real" / "data", "--kind", "tabular", "--rows", 600)
        (self.folder / "real" / "specs").mkdir()
        text = (SOURCE / "config" / "samples" / "tabular.textproto").read_text()
        (self.folder / "real" / "specs" / "s.textproto").write_text(
            text.replace('"data-*', '"../data/data-*'))
        (self.folder / "link").symlink_to(self.folder / "real" / "specs")
        with self.daemon() as daemon:
            daemon.stoker("read", self.folder / "link" / "s.textproto")

    def test_features_that_look_alike_are_suggested_apart(self):
        write_records(self.folder / "f", [example({"a b": [1], "a_b": [2], "a.b": [3]})])
        with self.daemon() as daemon:
            rows = daemon.dump(self.spec(stoker("inspect", "--suggest", self.folder / "f").stdout))
        self.assertEqual(sorted(rows[0]["tensors"].values()), [1, 2, 3])

    def test_an_epoch_that_gave_the_reader_nothing_counts(self):
        stoker("synth", self.folder / "t", "--kind", "tabular", "--rows", 1000)
        text = (self.folder / "t" / "spec.textproto").read_text()
        small = self.folder / "t" / "small.textproto"
        small.write_text(text.replace("remainder: DROP", ""))
        large = self.folder / "t" / "large.textproto"
        large.write_text(text.replace("size: 256", "size: 512"))
        with self.daemon() as daemon:
            token = daemon.stoker("read", small, "--batches", 3, "--print-token").stdout.strip()
            # 232 rows are left of the epoch: no whole step of 512.
            ends = daemon.digests(large, "--token", token, "--epochs", 2)
            self.assertEqual([(d["epoch"], d["batches"], d["rows"]) for d in ends],
                             [(0, 0, 0), (1, 1, 512)])
            self.assertEqual(daemon.digests(large, "--token", token, "--epochs", 1), ends[:1])

    def test_a_running_stream_wins_over_a_file_of_its_name(self):
        stoker("synth", self.folder / "t", "--kind", "tabular", "--rows", 1000)
        (self.folder / "tabular").write_text("no spec")
        spec = (self.folder / "t" / "spec.textproto").read_text()
        (self.folder / "t" / "other").write_text(spec.replace('"tabular"', '"other"'))
        read = lambda *a, **o: subprocess.run(
            [BIN / "stoker", "--runtime-dir", self.folder / "run", "--json", "read", "--batches",
             "1", *a], capture_output=True, text=True, **o)
        with self.daemon() as daemon:
            daemon.stoker("open", self.folder / "t" / "spec.textproto")
            done = read("tabular", cwd=self.folder)
            self.assertEqual(json.loads(done.stdout)["stream"], "tabular", done.stderr)
            # A path is a file, whatever runs.
            self.refused(read("./tabular", cwd=self.folder), "./tabular:1:")
            self.refused(read("gone.textproto", cwd=self.folder), "gone.textproto", "cannot be read")
            # No such stream, but a file: that file.
            done = read("other", cwd=self.folder / "t")
            self.assertEqual(json.loads(done.stdout)["stream"], "other", done.stderr)

    def test_sheet_draws_a_png_of_the_first_batch(self):
        stoker("synth", self.folder / "i", "--rows", 40)
        with self.daemon() as daemon:
            daemon.stoker("sheet", self.folder / "i" / "spec.textproto", "--rows", 10, "--out",
                          self.folder / "sheet.png")
        png = (self.folder / "sheet.png").read_bytes()
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", png[16:24])
        self.assertEqual((width, height), (6 + 8 * 230, 6 + 2 * (224 + 14 + 6)))

    def test_a_wrong_spec_is_told_with_line_and_remedy(self):
        cases = [('name: "x"\nsorce { }', ["spec.textproto:2:", "sorce"]),
                 ('name: "x" source { files: "f" } tensor { name: "t" dtype: INT64 } batch { size: 0 }',
                  ["batch.size"]),
                 ('name: "x y" batch { size: 1 }', ["name"]),
                 ('name: "x" source { files: "f" } order { window { rows: 5 } } '
                  'tensor { name: "t" dtype: INT64 } batch { size: 1 }', ["order.window", "WINDOW"])]
        with self.daemon() as daemon:
            for text, words in cases:
                self.refused(daemon.stoker("open", self.spec(text), check=False), *words)
            self.refused(daemon.stoker("status", "nobody", check=False), "nobody")
        self.refused(stoker("--runtime-dir", self.folder / "run", "list", check=False),
                     "no daemon", "stokerd")
        self.assertEqual(stoker("frobnicate", check=False).returncode, 2)

    def test_opening_again_is_the_same_stream_and_another_spec_is_refused_while_it_is_read(self):
        stoker("synth", self.folder / "t", "--kind", "tabular", "--rows", 1000)
        spec = self.folder / "t" / "spec.textproto"
        with self.daemon() as daemon:
            self.assertIn("opened", daemon.stoker("open", spec).stdout)
            self.assertIn("runs already", daemon.stoker("open", spec).stdout)
            reader = daemon.spawn("read", "tabular", "--dump")
            reader.stdout.readline()
            other = self.folder / "t" / "other.textproto"
            other.write_text(spec.read_text().replace("size: 256", "size: 128"))
            self.refused(daemon.stoker("open", other, check=False), "batch.size", "256", "128",
                         str(reader.pid))
            reader.kill()
            reader.communicate()
            daemon.stoker("close", "tabular")
            self.assertIn("opened", daemon.stoker("open", other).stdout)


if __name__ == "__main__":
    main()
