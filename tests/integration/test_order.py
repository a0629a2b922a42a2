"""Order is planned, work is parallel, delivery is in order: seen from a trainer."""

import base64
import hashlib
import json
import random
import struct

from support import Case, PATIENCE, example, main, write_ids, write_records

SPEC = """
name: "order"
source {{ files: "part-*" on_bad_record: SKIP max_bad_records: 5 }}
order {{ shuffle: {shuffle} seed: 7 repeat: 2 {more} }}
tensor {{ name: "id" dtype: INT64 }}
tensor {{ name: "image" feature: "jpeg" dtype: UINT8 image {{}}
  op {{ random_resized_crop {{ height: 24 width: 24 }} }} op {{ random_flip_horizontal {{}} }} }}
tensor {{ name: "tokens" dtype: INT64 ragged {{}} }}
batch {{ size: 16 }}
"""


class Order(Case):
    def write(self):
        """240 rows with an image and ragged tokens, one of them damaged."""
        from jpeg import tiny_jpeg
        number = 0
        draw = random.Random(5)
        for shard, size in enumerate([70, 5, 90, 75]):
            rows = []
            for _ in range(size):
                rows.append(example({
                    "id": [number], "jpeg": [tiny_jpeg(number)],
                    "tokens": [draw.randrange(1 << 40) for _ in range(draw.randrange(30))]}))
                number += 1
            write_records(self.data / f"part-{shard:05d}", rows)
        path = self.data / "part-00002"
        damaged = bytearray(path.read_bytes())
        damaged[len(damaged) // 2] ^= 0x10
        path.write_bytes(damaged)
        return number

    def test_any_number_of_workers_gives_the_same_bytes(self):
        rows = self.write()
        for shuffle, more in (("GLOBAL", ""), ("WINDOW", "window { rows: 50 }")):
            spec = self.spec(SPEC.format(shuffle=shuffle, more=more))
            seen = []
            for workers in (1, 2, 5, 16):
                with self.daemon(workers=workers,
                                 environment={"STOKER_TEST_RUN_DELAY_US": "3000"}) as daemon:
                    reader = daemon.spawn("read", spec, "--digest")
                    out, _ = reader.communicate(timeout=PATIENCE)
                    seen.append([json.loads(line) for line in out.splitlines()])
                    status = daemon.status("order")
                    self.assertEqual(status["counters"]["bad_by_class"],
                                     {"payload-crc-mismatch": "2"})
            for other in seen[1:]:
                self.assertEqual(seen[0], other)
            first, second = seen[0]
            self.assertEqual(first["rows"], rows - 1)
            self.assertNotEqual(first["digest"], second["digest"])

    def test_what_is_kept_in_memory_changes_no_row(self):
        rows = self.write()
        digests = {}
        for shuffle in ("GLOBAL", "WINDOW", "NONE"):
            for cache in ("", "cache { tier: TIER_NONE }", "cache { tier: ENCODED }",
                          "cache { tier: ENCODED bytes: 60000 }"):
                spec = self.spec(SPEC.format(shuffle=shuffle, more="") + cache)
                with self.daemon(workers=2) as daemon:
                    digests.setdefault(shuffle, []).append(daemon.digests(spec))
                    kept = [note for note in daemon.explain(spec)["note"] if "kept in memory" in note]
                    automatic = cache == "" and shuffle == "GLOBAL"
                    self.assertEqual(len(kept), 1 if automatic or "ENCODED" in cache else 0)
                    if "60000" in cache:
                        self.assertNotIn("4 of 4 shards", kept[0])
        for same in digests.values():
            self.assertEqual(same[0][0]["rows"], rows - 1)
            for other in same[1:]:
                self.assertEqual(same[0], other)

    def test_compressed_shards_are_shuffled_globally_from_a_resident_copy(self):
        write_ids(self.data, [300, 50, 700], compression="gzip")
        text = """name: "gz" source { files: "part-*" } order { shuffle: GLOBAL seed: 3 repeat: 2 }
            tensor { name: "id" dtype: INT64 } batch { size: 10 } """
        with self.daemon(workers=2) as daemon:
            for cache in ("cache { tier: TIER_NONE }", "cache { tier: ENCODED bytes: 1000 }"):
                self.refused(daemon.stoker("read", self.spec(text + cache), check=False),
                             "GLOBAL needs uncompressed shards", "tier: ENCODED")
            rows = daemon.dump(self.spec(text + "cache { tier: ENCODED }"))
        ids = [row["tensors"]["id"] for row in rows]
        self.assertEqual(sorted(ids[:1050]), list(range(1050)))
        self.assertNotEqual(ids[:1050], list(range(1050)))
        self.assertNotEqual(ids[:1050], ids[1050:])

    def test_the_digest_is_what_its_definition_says_of_the_dumped_rows(self):
        write_records(self.data / "part-00000", [
            example({"id": [i], "t": list(range(i % 4)), "x": [i / 8, -1.0], "b": [b"s" * (i % 3)]})
            for i in range(50)])
        spec = self.spec("""
            name: "digest" source { files: "part-*" } order { shuffle: GLOBAL seed: 2 repeat: 1 }
            tensor { name: "id" dtype: INT64 } tensor { name: "t" dtype: INT64 ragged {} }
            tensor { name: "p" feature: "t" dtype: INT64 padded { length: 5 value: 9 } }
            tensor { name: "x" dtype: FLOAT32 shape: 2 } tensor { name: "b" dtype: BYTES }
            batch { size: 7 }""")
        with self.daemon() as daemon:
            rows, (line,) = daemon.dump(spec), daemon.digests(spec)
        whole = hashlib.sha256()
        for row in rows:
            tensors = row["tensors"]
            one = struct.pack("<q", tensors["id"])
            for name in ("t", "p"):
                one += struct.pack(f"<Q{len(tensors[name])}q", len(tensors[name]), *tensors[name])
            one += struct.pack("<2f", *tensors["x"])
            one += struct.pack("<Q", 1)
            for value in map(base64.b64decode, tensors["b"]):
                one += struct.pack("<Q", len(value)) + value
            whole.update(struct.pack("<q", row["row_id"]) + hashlib.sha256(one).digest())
        self.assertEqual((line["rows"], line["digest"]), (50, whole.hexdigest()))

    def test_work_is_done_out_of_order_and_delivered_in_order(self):
        write_ids(self.data, [4000])
        spec = self.spec("""
            name: "ids" source { files: "part-*" } order { repeat: 1 }
            tensor { name: "id" dtype: INT64 } batch { size: 8 } delivery { slots: 16 }""")
        with self.daemon(workers=8, environment={"STOKER_TEST_RUN_DELAY_US": "2000"}) as daemon:
            daemon.stoker("open", spec)
            reader = daemon.spawn("read", "ids", "--dump")
            ids, disorder = [], 0
            for line in reader.stdout:
                ids.append(json.loads(line)["tensors"]["id"])
                if len(ids) in (1000, 2000, 3000):
                    for lane in daemon.status("ids").get("lane", []):
                        disorder = max(disorder, int(lane.get("completed_out_of_order", 0)))
            self.assertEqual(reader.wait(PATIENCE), 0, reader.stderr.read())
            reader.stdout.close()
            reader.stderr.close()
            self.assertEqual(ids, list(range(4000)))
            self.assertGreater(disorder, 0)

    def test_each_epoch_is_a_permutation_and_each_is_another(self):
        total = write_ids(self.data, [100, 3, 0, 250, 147])
        for shuffle in ("GLOBAL", "WINDOW", "NONE"):
            spec = self.spec(f"""
                name: "ids" source {{ files: "part-*" }}
                order {{ shuffle: {shuffle} seed: 3 repeat: 3 }}
                tensor {{ name: "id" dtype: INT64 }} batch {{ size: 32 }}""")
            with self.daemon() as daemon:
                rows = daemon.dump(spec)
                again = daemon.dump(spec)
            self.assertEqual(rows, again)
            epochs = [[r["tensors"]["id"] for r in rows if r["epoch"] == e] for e in range(3)]
            for ids in epochs:
                self.assertEqual(sorted(ids), list(range(total)))
            if shuffle != "NONE":
                self.assertNotEqual(epochs[0], epochs[1])
                self.assertNotEqual(epochs[1], epochs[2])
                self.assertNotEqual(epochs[0], list(range(total)))

    def test_ranks_share_one_drawn_seed_and_every_row_comes_once(self):
        total = write_ids(self.data, [25] * 16)
        spec = self.spec("""
            name: "ids" source { files: "part-*" } order { shuffle: GLOBAL repeat: 1 }
            tensor { name: "id" dtype: INT64 } batch { size: 10 }""")
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            readers = [daemon.spawn("read", "ids", "--rank", r, "--world-size", 4, "--dump")
                       for r in range(4)]
            ids = []
            for reader in readers:
                out, errors = reader.communicate(timeout=PATIENCE)
                self.assertEqual(reader.returncode, 0, errors)
                ids += [json.loads(line)["tensors"]["id"] for line in out.splitlines()]
            self.assertTrue(daemon.status("ids")["seed_drawn"])
        self.assertEqual(sorted(ids), list(range(total)))

    def test_remainders_as_the_formula_says(self):
        write_ids(self.data, [50, 30, 20, 3])
        expected = {"DROP": ([24, 24, 24, 24], 96), "PARTIAL": ([25, 26, 26, 26], 103),
                    "PAD": ([32, 32, 32, 32], 103)}
        for remainder, (rows, real) in expected.items():
            spec = self.spec(f"""
                name: "ids" source {{ files: "part-*" }} order {{ seed: 1 repeat: 1 }}
                tensor {{ name: "id" dtype: INT64 }} batch {{ size: 8 remainder: {remainder} }}""")
            with self.daemon() as daemon:
                daemon.stoker("open", spec)
                readers = [daemon.spawn("read", "ids", "--rank", r, "--world-size", 4, "--dump")
                           for r in range(4)]
                counts, good, steps = [], 0, []
                for reader in readers:
                    out, errors = reader.communicate(timeout=PATIENCE)
                    self.assertEqual(reader.returncode, 0, errors)
                    lines = [json.loads(line) for line in out.splitlines()]
                    counts.append(len(lines))
                    good += sum(line["row_id"] >= 0 for line in lines)
                    steps.append({line["step"] for line in lines})
                self.assertEqual((counts, good), (rows, real), remainder)
                self.assertTrue(all(s == steps[0] for s in steps))

    def test_a_token_goes_on_where_it_was_taken_at_another_world_size(self):
        total = write_ids(self.data, [40, 24])
        spec = self.spec("""
            name: "ids" source { files: "part-*" } order { shuffle: GLOBAL seed: 1 repeat: 1 }
            tensor { name: "id" dtype: INT64 } batch { size: 4 }""")
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            before = daemon.dump("ids", "--batches", 5)
            token = daemon.stoker("read", "ids", "--batches", 5, "--print-token").stdout.strip()
            self.assertLess(len(token), 256)
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            rest = daemon.dump("ids", "--token", token)
            self.assertEqual(before + rest, daemon.dump("ids"))
            readers = [daemon.spawn("read", "ids", "--rank", r, "--world-size", 2, "--token", token,
                                    "--dump") for r in range(2)]
            ids = [row["tensors"]["id"] for row in before]
            for reader in readers:
                out, errors = reader.communicate(timeout=PATIENCE)
                self.assertEqual(reader.returncode, 0, errors)
                ids += [json.loads(line)["tensors"]["id"] for line in out.splitlines()]
            self.assertEqual(sorted(ids), list(range(total)))
            self.refused(daemon.stoker("read", "ids", "--token", token[:-1] + "0", check=False),
                         "token")
        other = self.spec(spec.read_text().replace("seed: 1", "seed: 2"))
        with self.daemon() as daemon:
            self.refused(daemon.stoker("read", other, "--token", token, check=False), "order")

    def test_broadcast_gives_every_consumer_every_batch(self):
        write_ids(self.data, [500])
        spec = self.spec("""
            name: "ids" source { files: "part-*" } order { shuffle: GLOBAL seed: 1 repeat: 2 }
            tensor { name: "id" dtype: INT64 } batch { size: 16 }
            delivery { mode: BROADCAST expect: 3 }""")
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            readers = [daemon.spawn("read", "ids", "--digest") for _ in range(3)]
            outs = []
            for reader in readers:
                out, errors = reader.communicate(timeout=PATIENCE)
                self.assertEqual(reader.returncode, 0, errors)
                outs.append(out)
            self.assertEqual(outs[0], outs[1])
            self.assertEqual(outs[0], outs[2])
            self.assertEqual(len(outs[0].splitlines()), 2)


if __name__ == "__main__":
    main()
