"""Damaged, cut, mis-declared, hidden, empty and changing shards: what a user is told, and that
nothing else is lost."""

import gzip
import json
import os
import shutil
import threading
import unittest
import zlib

from support import PATIENCE, Case, example, feature, field, frame, main, write_ids, write_records

RAW = """
name: "{name}" source {{ files: "{files}" {source} }} order {{ repeat: 1 {order} }}
tensor {{ name: "b" dtype: BYTES }} batch {{ size: 1 }}
"""


def padded(size, fill):
    """An Example of exactly `size` bytes with a bytes feature `b`."""
    if size == 10:  # too small for a key of its own and a value: the empty Example and padding
        return field(9, bytes([fill]) * 8)
    base = example({"b": [b""]})
    return example({"b": [bytes([fill]) * (size - len(base))]})


class Damage(Case):
    """S01: three shards of three records of 10, 20 and 30 bytes, headers at 0, 26 and 62."""

    SPEC = """
        name: "s01" source {{ files: "?" {policy} }} order {{ repeat: 1 }}
        tensor {{ name: "b" dtype: BYTES ragged {{}} }} batch {{ size: 1 }}"""

    def write(self):
        for name in "ABC":
            payloads = [padded(n, ord(name)) for n in (10, 20, 30)]
            self.assertEqual([len(p) for p in payloads], [10, 20, 30])
            write_records(self.data / name, payloads)
            self.assertEqual((self.data / name).stat().st_size, 108)

    def flip(self, name, offset):
        path = self.data / name
        data = bytearray(path.read_bytes())
        data[offset] ^= 1
        path.write_bytes(data)

    def test_one_damaged_payload_is_told_with_its_place_and_can_be_skipped(self):
        self.write()
        self.flip("B", 43)
        fail = self.spec(self.SPEC.format(policy=""), "fail")
        skip = self.spec(self.SPEC.format(policy="on_bad_record: SKIP max_bad_records: 1"), "skip")
        with self.daemon() as daemon:
            done = daemon.stoker("read", fail, "--dump", check=False)
            self.refused(done, self.data / "B", "record 1", "offset 26", "payload-crc-mismatch")
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual([(r["shard"], r["record"]) for r in rows],
                             [(0, 0), (0, 1), (0, 2), (1, 0)])

            rows = daemon.dump(skip)
            self.assertEqual([(r["shard"], r["record"]) for r in rows],
                             [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)])
            status = daemon.status("s01")
            self.assertEqual(status["counters"]["bad_records"], "1")
            bad = status["bad_record"][0]
            self.assertEqual((bad["shard"], bad["record"], bad["offset"], bad["fault"]),
                             (str(self.data / "B"), "1", "26", "payload-crc-mismatch"))

    def test_the_second_bad_record_is_over_a_limit_of_one_and_both_are_named(self):
        self.write()
        self.flip("B", 43)
        self.flip("C", 90)
        skip = self.spec(self.SPEC.format(policy="on_bad_record: SKIP max_bad_records: 1"))
        with self.daemon() as daemon:
            self.refused(daemon.stoker("read", skip, check=False), self.data / "B",
                         self.data / "C", "max_bad_records is 1", "record 1", "record 2")
            daemon.stoker("list")

    def test_mask_and_replace_keep_the_shape(self):
        self.write()
        self.flip("B", 43)
        for policy, ids in (("MASK", 8), ("REPLACE", 9)):
            spec = self.spec(f"""
                name: "s01" source {{ files: "?" on_bad_record: SKIP bad_row: {policy} }}
                order {{ repeat: 1 seed: 4 }}
                tensor {{ name: "b" dtype: BYTES ragged {{}} }} batch {{ size: 9 }}""")
            with self.daemon() as daemon:
                rows = daemon.dump(spec)
                self.assertEqual(len(rows), 9)
                self.assertEqual(sum(r["row_id"] >= 0 for r in rows), ids)
                if policy == "MASK":
                    self.assertEqual((rows[4]["row_id"], rows[4]["tensors"]["b"]), (-1, []))
                else:
                    self.assertEqual(daemon.status("s01")["counters"]["replaced"], "1")


class Cuts(Case):
    """S03."""

    def test_a_file_cut_anywhere_gives_the_whole_records_before_the_cut(self):
        payloads = [padded(n, 65) for n in (10, 20, 30)]
        whole = b"".join(frame(p) for p in payloads)
        outcomes = {"clean": 0, "truncated-header": 0, "truncated-payload": 0, "zero-records": 0}
        with self.daemon() as daemon:
            for cut in range(109):
                (self.data / "F").write_bytes(whole[:cut])
                spec = self.spec(RAW.format(name=f"cut{cut}", files="F", source="", order="").replace(
                    "dtype: BYTES", "dtype: BYTES ragged {}"))
                done = daemon.stoker("read", spec, "--dump", check=False)
                records = sum(cut >= end for end in (26, 62, 108))
                if done.returncode == 0:
                    outcomes["clean"] += 1
                    self.assertIn(cut, (26, 62, 108))
                else:
                    name = next(o for o in outcomes if o in done.stderr)
                    outcomes[name] += 1
                if records:
                    self.assertEqual(len(done.stdout.splitlines()), records, f"cut at {cut}")
        self.assertEqual(outcomes, {"clean": 3, "truncated-header": 33, "truncated-payload": 72,
                                    "zero-records": 1})

    def test_a_wrong_compression_is_named_and_auto_reads_all(self):
        payloads = [example({"b": [bytes([i])]}) for i in range(3)]
        plain = b"".join(frame(p) for p in payloads)
        (self.data / "plain").write_bytes(plain)
        (self.data / "gzip").write_bytes(gzip.compress(plain))
        (self.data / "zlib").write_bytes(zlib.compress(plain))
        with self.daemon() as daemon:
            for file, setting, seen in (("gzip", "PLAIN", "GZIP"), ("plain", "GZIP", "PLAIN"),
                                        ("zlib", "GZIP", "ZLIB")):
                spec = self.spec(RAW.format(name=file, files=file, order="",
                                            source=f"compression: {setting}"))
                done = daemon.stoker("read", spec, "--dump", check=False)
                self.refused(done, "compression-mismatch", setting, seen)
                self.assertEqual(done.stdout, "")
            for file in ("plain", "gzip", "zlib"):
                spec = self.spec(RAW.format(name=file, files=file, source="", order=""))
                self.assertEqual(len(daemon.dump(spec)), 3)

    def test_concatenated_members_are_all_read_and_records_may_span_them(self):
        payloads = [example({"b": [bytes([i % 256]) * 50]}) for i in range(1000)]
        plain = b"".join(frame(p) for p in payloads)
        (self.data / "two").write_bytes(gzip.compress(plain[:200]) + gzip.compress(plain[200:]))
        (self.data / "many").write_bytes(b"".join(gzip.compress(frame(p)) for p in payloads))
        (self.data / "empty-first").write_bytes(gzip.compress(b"") + gzip.compress(plain))
        with self.daemon() as daemon:
            for file in ("two", "many", "empty-first"):
                spec = self.spec(RAW.format(name=file, files=file, source="", order=""))
                self.assertEqual(len(daemon.dump(spec)), 1000, file)

    def test_compressed_damage_comes_after_the_whole_records_before_it(self):
        payloads = [example({"b": [os.urandom(300)]}) for _ in range(200)]
        packed = gzip.compress(b"".join(frame(p) for p in payloads))
        cases = {"cut": (packed[:-4], "compressed-truncated"),
                 "junk": (packed + b"junk", "compressed-corrupt"),
                 "half": (packed[:len(packed) // 2], "compressed-truncated")}
        with self.daemon() as daemon:
            for name, (data, fault) in cases.items():
                (self.data / name).write_bytes(data)
                spec = self.spec(RAW.format(name=name, files=name, source="", order=""))
                done = daemon.stoker("read", spec, "--dump", check=False)
                self.refused(done, fault)
                rows = len(done.stdout.splitlines())
                self.assertEqual(rows, 200) if name != "half" else self.assertGreater(rows, 50)


class Folders(Case):
    """S05 and the naming of shards."""

    def test_hidden_and_empty_files(self):
        write_ids(self.data, [10, 10, 0, 10])
        for name in ("_SUCCESS", ".part-00000.crc", ".DS_Store"):
            (self.data / name).write_bytes(b"")
        (self.data / ".part-00000.crc").write_bytes(b"this is no TFRecord at all")
        text = """name: "s05" source {{ files: "{files}" }} order {{ repeat: 1 }}
                  tensor {{ name: "id" dtype: INT64 }} batch {{ size: 7 }}"""
        only = self.folder / "specs"
        only.mkdir()
        def spec(files):
            path = only / "s.textproto"
            path.write_text(text.format(files=files))
            return path
        with self.daemon() as daemon:
            self.assertEqual(len(daemon.dump(spec(self.data / "*"))), 30)
            status = daemon.status("s05")
            self.assertEqual(status["empty_shards"], "1")
            notes = " ".join(status["note"])
            self.assertIn("3 names", notes)
            self.assertIn("part-00002", notes)
            self.refused(daemon.stoker("open", spec(self.data / "nope-*"), check=False),
                         "nope-*", self.data)
            self.refused(daemon.stoker("open", spec(self.data / ".part-00000.crc"), check=False),
                         "not-a-tfrecord", ".part-00000.crc")
            for shard in self.data.glob("part-*"):
                shard.write_bytes(b"")
            self.refused(daemon.stoker("open", spec(self.data / "part-*"), check=False),
                         "zero-records")

    def test_a_missing_shard_of_a_set_is_named(self):
        for shard in (0, 1, 3):
            write_records(self.data / f"x-{shard:05d}-of-00004", [example({"id": [shard]})])
        text = """name: "set" source {{ files: "{files}" }} order {{ repeat: 1 }}
                  tensor {{ name: "id" dtype: INT64 }} batch {{ size: 1 }}"""
        with self.daemon() as daemon:
            for files in ("x-?????-of-00004", "x@4"):
                self.refused(daemon.stoker("open", self.spec(text.format(files=files)), check=False),
                             "x-00002-of-00004")
            write_records(self.data / "x-00002-of-00004", [example({"id": [2]})])
            for files in ("x-?????-of-00004", "x@4"):
                ids = [r["tensors"]["id"] for r in daemon.dump(self.spec(text.format(files=files)))]
                self.assertEqual(ids, [0, 1, 2, 3])

    @unittest.skipIf(os.geteuid() != 0, "only root can start a daemon as another user")
    def test_a_shard_that_may_not_be_read_is_told_with_user_and_reason(self):
        write_ids(self.data, [3])
        (self.data / "part-00000").chmod(0o600)
        for folder in (self.folder, self.data):
            folder.chmod(0o777)
        spec = self.spec("""name: "rd22" source { files: "part-*" } order { repeat: 1 }
                            tensor { name: "id" dtype: INT64 } batch { size: 1 }""")
        with self.daemon(user=65534) as daemon:
            self.refused(daemon.stoker("open", spec, check=False), "part-00000",
                         "Permission denied", "uid 65534")

    def test_a_stale_or_damaged_index_is_built_anew(self):
        write_ids(self.data, [20])
        spec = self.spec("""name: "idx" source { files: "part-*" } order { repeat: 1 }
                            tensor { name: "id" dtype: INT64 } batch { size: 100 }""")
        with self.daemon() as daemon:
            self.assertEqual(len(daemon.dump(spec)), 20)
            daemon.stoker("close", "idx")  # a stream that stays open keeps its list
        sidecars = list((self.folder / "cache").glob("*.sidx"))
        self.assertEqual(len(sidecars), 1)
        self.assertEqual(sidecars[0].stat().st_mode & 0o777, 0o600)
        with open(self.data / "part-00000", "ab") as shard:
            for i in range(5):
                shard.write(frame(example({"id": [20 + i]})))
        with self.daemon() as daemon:
            self.assertEqual(len(daemon.dump(spec)), 25)
            self.assertIn("changed", " ".join(daemon.status("idx")["note"]))
            daemon.stoker("close", "idx")
        sidecars[0].write_bytes(b"")
        with self.daemon() as daemon:
            self.assertEqual(len(daemon.dump(spec)), 25)
            daemon.stoker("close", "idx")
        with self.daemon() as daemon:
            self.assertEqual(len(daemon.dump(spec)), 25)
            self.assertEqual(daemon.status("idx")["note"], [])


class Changes(Case):
    """S04: a shard changes under a running epoch."""

    def start(self, daemon, refresh="NEVER", repeat=1):
        write_records(self.data / "big", [example({"b": [os.urandom(65536)]}) for _ in range(1024)])
        spec = self.spec(f"""name: "s04" source {{ files: "big" refresh: {refresh} }}
            order {{ repeat: {repeat} }}
            tensor {{ name: "b" dtype: BYTES }} batch {{ size: 8 }}
            delivery {{ slots: 2 }}""")
        reader = daemon.spawn("read", spec, "--dump")
        return reader, reader.stdout.readline()

    def finish(self, reader):
        # Lines are long; a thread drains them.
        lines = []
        thread = threading.Thread(target=lambda: lines.extend(reader.stdout))
        thread.start()
        status = reader.wait(PATIENCE)
        thread.join()
        errors = reader.stderr.read()
        reader.stdout.close()
        reader.stderr.close()
        return status, len(lines) + 1, errors

    def test_truncation_is_an_error_that_names_both_sizes(self):
        with self.daemon() as daemon:
            reader, _ = self.start(daemon)
            os.truncate(self.data / "big", 0)
            status, rows, errors = self.finish(reader)
            self.assertNotEqual(status, 0)
            self.assertIn("shard-changed", errors)
            self.assertIn(" 0 now", errors)
            self.assertLess(rows, 1024)
            self.assertIsNone(daemon.process.poll())

    def test_a_file_renamed_over_it_does_not_mix_in(self):
        with self.daemon() as daemon:
            reader, _ = self.start(daemon)
            write_records(self.folder / "new", [example({"b": [b"new"]}) for _ in range(2000)])
            shutil.move(self.folder / "new", self.data / "big")
            status, rows, errors = self.finish(reader)
            self.assertEqual((status, rows), (0, 1024), errors)

    def test_an_appended_record_is_seen_by_the_next_epoch_if_it_looks_again(self):
        for refresh, expected in (("NEVER", 2048), ("EPOCH", 2049)):
            with self.daemon() as daemon:
                reader, _ = self.start(daemon, refresh, 2)
                with open(self.data / "big", "ab") as shard:
                    shard.write(frame(example({"b": [b"one more"]})))
                status, rows, errors = self.finish(reader)
                self.assertEqual((status, rows), (0, expected), errors)


class Features(Case):
    """S06 and the parsing rows: exact messages, no coercion."""

    SPEC = """name: "s06" source {{ files: "part-*" {source} }} order {{ repeat: 1 }}
        tensor {{ name: "label" dtype: INT64 }}
        tensor {{ name: "w" dtype: FLOAT32 {default} }}
        tensor {{ name: "shape" dtype: INT64 shape: 3 }} batch {{ size: 10 }}"""

    def write(self, wrong_type=True, missing=True, short=True):
        rows = []
        for i in range(10):
            row = {"label": [i], "w": [i / 4], "shape": [1, 2, 3]}
            if i == 7 and wrong_type:
                row["label"] = [1.0]
            if i == 4 and missing:
                del row["w"]
            if i == 2 and short:
                row["shape"] = [1, 2]
            rows.append(example(row))
        write_records(self.data / "part-00000", rows)

    def test_each_problem_is_named_exactly(self):
        cases = [(dict(missing=False, short=False),
                  ["feature-kind", '"label"', "int64_list", "float_list", "record 7"]),
                 (dict(wrong_type=False, short=False),
                  ["feature-missing", '"w"', "record 4", '"label"', '"shape"']),
                 (dict(wrong_type=False, missing=False),
                  ["feature-count", '"shape"', "2 values", "expected 3", "record 2"])]
        for faults, words in cases:
            self.write(**faults)
            with self.daemon() as daemon:
                self.refused(daemon.stoker("read", self.spec(self.SPEC.format(source="", default="")),
                                           check=False), self.data / "part-00000", *words)

    def test_skipping_counts_each_class_and_a_default_changes_one_record(self):
        self.write()
        with self.daemon() as daemon:
            rows = daemon.dump(self.spec(self.SPEC.format(
                source="on_bad_record: SKIP max_bad_records: 5", default="")))
            self.assertEqual(len(rows), 7)
            self.assertEqual(daemon.status("s06")["counters"]["bad_by_class"],
                             {"feature-kind": "1", "feature-missing": "1", "feature-count": "1"})
        self.write(wrong_type=False, short=False)
        with self.daemon() as daemon:
            rows = daemon.dump(self.spec(self.SPEC.format(
                source="", default="default_value { float_value: 0.5 }")))
            self.assertEqual([r["tensors"]["w"] for r in rows],
                             [0.0, 0.25, 0.5, 0.75, 0.5, 1.25, 1.5, 1.75, 2.0, 2.25])
            self.assertEqual(daemon.status("s06")["counters"]["defaulted"], "1")

    def test_ragged_and_padded(self):
        write_records(self.data / "part-00000",
                      [example({"t": t} if t else {"t": []}) for t in ([1, 2], [], [3, 4, 5, 6, 7])])
        spec = """name: "px06" source {{ files: "part-*" }} order {{ repeat: 1 }}
            tensor {{ name: "t" dtype: INT64 {form} }} batch {{ size: 3 }}"""
        with self.daemon() as daemon:
            def rows(form):
                return [r["tensors"]["t"] for r in daemon.dump(self.spec(spec.format(form=form)))]
            self.assertEqual(rows("ragged {}"), [[1, 2], [], [3, 4, 5, 6, 7]])
            self.assertEqual(rows("padded {}"), [[1, 2], [], [3, 4, 5, 6, 7]])
            self.assertEqual(rows("padded { length: 4 truncate: true value: -1 }"),
                             [[1, 2], [], [3, 4, 5, 6]])
            self.refused(daemon.stoker("read", self.spec(spec.format(form="padded { length: 4 }")),
                                       check=False), "feature-count", "record 2", "5")
            self.refused(daemon.stoker("read", self.spec(spec.format(form="ragged { max_values: 4 }")),
                                       check=False), "batch-overflow")

    def test_a_scalar_and_a_vector_of_one_are_told_apart(self):
        write_records(self.data / "part-00000", [example({"v": [i]}) for i in range(8)])
        spec = self.spec("""name: "px05" source { files: "part-*" } order { repeat: 1 }
            tensor { name: "scalar" feature: "v" dtype: INT64 }
            tensor { name: "vector" feature: "v" dtype: INT64 shape: 1 } batch { size: 8 }""")
        with self.daemon() as daemon:
            out = json.loads(daemon.stoker("--json", "explain", spec).stdout)
            shapes = {t["name"]: t["shape"] for t in out["tensor"]}
            self.assertEqual((shapes["scalar"], shapes["vector"]), (["8"], ["8", "1"]))
            rows = daemon.dump(spec)
            self.assertEqual([(r["tensors"]["scalar"], r["tensors"]["vector"]) for r in rows],
                             [(i, [i]) for i in range(8)])

    def test_a_sequence_example_is_named(self):
        sequence = field(1, b"") + field(2, field(1, field(1, b"t") + field(2, field(1, feature([1])))))
        write_records(self.data / "part-00000", [sequence])
        spec = self.spec("""name: "d8" source { files: "part-*" } order { repeat: 1 }
            tensor { name: "t" dtype: INT64 ragged {} } batch { size: 1 }""")
        with self.daemon() as daemon:
            self.refused(daemon.stoker("read", spec, check=False), "SequenceExample",
                         "malformed-example")

    def test_bytes_become_arrays_of_exactly_their_length_in_either_order(self):
        text = """name: "raw" source {{ files: "{0}" }} order {{ repeat: 1 }}
            tensor {{ name: "r" dtype: INT64 shape: 2
                     decode_raw {{ dtype: INT16 {1} }} op {{ cast {{ dtype: INT64 }} }} }}
            batch {{ size: 1 }}"""
        write_records(self.data / "good", [example({"r": [b"\x01\x02\xff\xff"]})])
        write_records(self.data / "long", [example({"r": [b"\x01\x02\xff\xff\x00"]})])
        with self.daemon() as daemon:
            for order, want in (("", [513, -1]), ("byte_order: BIG", [258, -1])):
                rows = daemon.dump(self.spec(text.format("good", order), "raw"))
                self.assertEqual([r["tensors"]["r"] for r in rows], [want])
                daemon.stoker("close", "raw")
            self.refused(daemon.stoker("read", self.spec(text.format("long", "")), check=False),
                         self.data / "long", "feature-count", "expects 4 bytes, got 5")

    def test_an_empty_list_is_there_whatever_the_default_says(self):
        write_records(self.data / "f", [example({"w": [], "id": [1]})])
        text = """name: "{0}" source {{ files: "f" }} order {{ repeat: 1 }}
            tensor {{ name: "w" dtype: INT64 {1} }} batch {{ size: 1 }}"""
        with self.daemon() as daemon:
            fixed = self.spec(text.format("fixed", "default_value { int64_value: 7 }"), "fixed")
            self.refused(daemon.stoker("read", fixed, check=False), self.data / "f",
                         "feature-count", "0 values", "expected 1")
            rows = daemon.dump(self.spec(text.format("any", "ragged {}"), "any"))
            self.assertEqual([r["tensors"]["w"] for r in rows], [[]])

    def test_float64_of_a_float_list_is_a_cast_and_nothing_else(self):
        write_records(self.data / "part-00000", [example({"f": [0.1, 16777217.0]})])
        spec = """name: "px09" source {{ files: "part-*" }} order {{ repeat: 1 }}
            tensor {{ name: "f" dtype: FLOAT64 shape: 2 {more} }} batch {{ size: 1 }}"""
        with self.daemon() as daemon:
            self.refused(daemon.stoker("open", self.spec(spec.format(more="")), check=False), "cast")
            rows = daemon.dump(self.spec(spec.format(
                more="kind: KIND_FLOAT op { cast { dtype: FLOAT64 } }")))
            self.assertEqual(rows[0]["tensors"]["f"], [0.10000000149011612, 16777216.0])


if __name__ == "__main__":
    main()
