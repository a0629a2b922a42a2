"""bench: figures that hang together, from a stream that disturbs no other."""

import json

from support import Case, main, stoker


class Bench(Case):
    def bench(self, daemon, *arguments):
        return json.loads(daemon.stoker("--json", "bench", "--seconds", 0.2, *arguments).stdout)

    def whole(self, out, consumers, rows_a_batch):
        self.assertEqual(out["consumers"], consumers)
        self.assertGreaterEqual(out["seconds"], 0.2)
        self.assertGreater(out["rows"], 0)
        self.assertEqual(out["rows"], out["batches"] * rows_a_batch)
        self.assertAlmostEqual(out["rows_per_second"] * out["seconds"], out["rows"], delta=1)
        self.assertGreaterEqual(out["handover_samples"], 1)
        self.assertGreater(out["handover_p50_seconds"], 0)
        self.assertLessEqual(out["handover_p50_seconds"], out["handover_p99_seconds"])
        if out["woken_samples"]:
            self.assertGreater(out["woken_p50_seconds"], 0)
            self.assertLessEqual(out["woken_p50_seconds"], out["woken_p99_seconds"])
        self.assertTrue(0 <= out["wait_share"] <= 1.01, out["wait_share"])
        self.assertGreaterEqual(out["daemon_cpu_seconds"], 0)
        self.assertAlmostEqual(out["daemon_cpu_seconds_per_row"] * out["rows"],
                               out["daemon_cpu_seconds"])
        self.assertEqual(len(out["ceilings"]), 7)
        for name, value in out["ceilings"].items():
            self.assertGreater(value, 0, name)
        self.assertEqual(out["notes"], [])

    def test_ranks_are_measured_together(self):
        stoker("synth", self.folder / "t", "--kind", "tabular", "--rows", 4096)
        spec = self.folder / "t" / "spec.textproto"
        with self.daemon() as daemon:
            for consumers in (1, 2):
                out = self.bench(daemon, spec, "--consumers", consumers)
                self.whole(out, consumers, 256)
                self.assertEqual(out["stream"], "tabular")
                # 32 floats, a label and a row id each.
                self.assertAlmostEqual(out["tensor_bytes_per_second"] / out["rows_per_second"], 144)
                self.assertEqual(out["daemon_pid"], daemon.process.pid)
            self.assertEqual(json.loads(daemon.stoker("--json", "list").stdout)["stream"], [])

    def test_every_consumer_of_a_broadcast_counts(self):
        stoker("synth", self.folder / "t", "--kind", "tabular", "--rows", 4096, "--compression",
               "gzip")
        spec = self.folder / "t" / "spec.textproto"
        spec.write_text(spec.read_text() + "delivery { mode: BROADCAST }\n")
        with self.daemon() as daemon:
            self.whole(self.bench(daemon, spec, "--consumers", 3), 3, 256)

    def test_a_running_stream_is_measured_by_name_and_not_disturbed(self):
        stoker("synth", self.folder / "t", "--kind", "tabular", "--rows", 1024)
        with self.daemon() as daemon:
            reader = daemon.spawn("read", self.folder / "t" / "spec.textproto", "--dump")
            reader.stdout.readline()
            text = daemon.stoker("bench", "tabular", "--seconds", 0.1).stdout
            for words in ("tabular: 1 consumers", "bare parse loop", "memcpy", "bare pread",
                          "futex round trip", "CRC32C, from memory", "CRC32C, from the cache",
                          "daemon CPU a row", "time consumers waited"):
                self.assertIn(words, text)
            rest = reader.stdout.read().splitlines()
            reader.communicate()
            self.assertEqual((reader.returncode, len(rest) + 1), (0, 3 * 1024))

    def test_a_stream_that_fails_says_where_and_leaves_nothing(self):
        stoker("synth", self.folder / "t", "--kind", "tabular", "--rows", 1024, "--shards", 1)
        shard = self.folder / "t" / "data-00000-of-00001"
        data = bytearray(shard.read_bytes())
        data[500 * 178 + 100] ^= 1
        self.assertEqual(len(data), 1024 * 178)
        shard.write_bytes(data)
        with self.daemon() as daemon:
            self.refused(daemon.stoker("bench", self.folder / "t" / "spec.textproto", "--seconds", 1,
                                       check=False), "record 500", "payload-crc-mismatch")
            self.refused(daemon.stoker("bench", "nobody", check=False), "nobody")
            self.assertEqual(json.loads(daemon.stoker("--json", "list").stdout)["stream"], [])


if __name__ == "__main__":
    main()
