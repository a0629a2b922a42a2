"""Epochs as a job sees them: each in its own order, whole, the same for a seed, shared out over ranks."""

import itertools
import json

from support import Case, PATIENCE, example, main, write_ids, write_records

SPEC = """
name: "epochs"
source {{ files: "part-*" }}
order {{ shuffle: WINDOW window {{ rows: 100 }} interleave {{ cycle: 4 }} {seed} repeat: 5 }}
tensor {{ name: "id" dtype: INT64 }}
batch {{ size: 10 }}
"""


def ids_of(rows):
    return [row["tensors"]["id"] for row in rows]


class Epochs(Case):
    def ranks(self, daemon, name, world, *arguments):
        """What each of `world` readers that run side by side printed, a row a line."""
        readers = [daemon.spawn("read", name, "--rank", rank, "--world-size", world, "--dump",
                                *arguments) for rank in range(world)]
        printed = []
        for reader in readers:
            out, errors = reader.communicate(timeout=PATIENCE)
            self.assertEqual(reader.returncode, 0, errors)
            printed.append([json.loads(line) for line in out.splitlines()])
        return printed

    def whole_epochs(self, ranks, total, epochs):
        """The order of each epoch, after checking that its rows are each there once."""
        orders = []
        for epoch in epochs:
            steps = [{}, {}, {}, {}]
            for rank, rows in enumerate(ranks):
                for row in rows:
                    if row["epoch"] == epoch:
                        steps[rank].setdefault(row["step"], []).append(row["tensors"]["id"])
            # A step's rows lie one rank after the other.
            order = [i for step in sorted(steps[0]) for rank in steps for i in rank[step]]
            self.assertEqual(sorted(order), list(range(total)))
            orders.append(order)
        return orders

    def test_orders_are_new_each_epoch_and_the_same_for_a_seed(self):
        total = write_ids(self.data, [190, 10, 95, 105, 1, 199, 150, 50, 120, 80])
        spec = self.spec(SPEC.format(seed="seed: 7"))
        seen = []
        for _ in range(2):
            with self.daemon(workers=2) as daemon:
                daemon.stoker("open", spec)
                seen.append(self.whole_epochs(self.ranks(daemon, "epochs", 4), total, range(5)))
        self.assertEqual(seen[0], seen[1])
        for a, b in itertools.combinations(seen[0], 2):
            self.assertNotEqual(a, b)
            self.assertLess(sum(x == y for x, y in zip(a, b)), 100)

        with self.daemon() as daemon:
            done = daemon.stoker("read", spec, "--epochs", 2, "--print-token")
            token = next(word for word in (done.stdout + done.stderr).split()
                         if word.startswith("stoker1:"))
            rows = daemon.dump(spec, "--token", token)
        self.assertEqual({row["epoch"] for row in rows}, {2, 3, 4})
        self.assertEqual(ids_of(r for r in rows if r["epoch"] == 2), seen[0][2])

    def test_a_drawn_seed_is_reported_and_replays(self):
        total = write_ids(self.data, [300, 100])
        with self.daemon() as daemon:
            daemon.stoker("open", self.spec(SPEC.format(seed="")))
            drawn = self.ranks(daemon, "epochs", 1)[0]
            status = daemon.status("epochs")
            self.assertTrue(status["seed_drawn"])
            again = daemon.dump(self.spec(SPEC.format(seed=f"seed: {status['seed']}")
                                          .replace('"epochs"', '"replay"'), "replay"))
        self.assertEqual(ids_of(drawn), ids_of(again))
        self.assertEqual(len(drawn), 5 * total)

    def test_more_ranks_than_shards_share_the_records_evenly(self):
        for shards, world in (([64], 2), ([64] * 3, 8)):
            with self.subTest(world=world):
                for old in self.data.glob("part-*"):
                    old.unlink()
                total = write_ids(self.data, shards)
                spec = self.spec("""
                    name: "few" source { files: "part-*" }
                    order { shuffle: GLOBAL seed: 1 repeat: 1 }
                    tensor { name: "id" dtype: INT64 } batch { size: 4 }""")
                with self.daemon() as daemon:
                    daemon.stoker("open", spec)
                    ranks = self.ranks(daemon, "few", world)
                    daemon.stoker("close", "few")
                self.assertEqual(sorted(i for rows in ranks for i in ids_of(rows)),
                                 list(range(total)))
                self.assertEqual({len(rows) for rows in ranks}, {total // world})

    def test_a_count_that_varies_is_named_at_its_record(self):
        write_records(self.data / "part-00000", [
            example({"x": [0.5, 1.5, 2.5]}), example({"x": [0.5, 1.5, 2.5]}),
            example({"x": [0.5, 1.5, 2.5, 3.5]})])
        for shape, words in (("shape: 3", ("record 2", "expected 3", "has 4")),
                             ("", ("record 0", "expected 1", "has 3"))):
            spec = self.spec(f"""
                name: "x" source {{ files: "part-*" }} order {{ repeat: 1 }}
                tensor {{ name: "x" dtype: FLOAT32 {shape} }} batch {{ size: 3 }}""")
            with self.daemon() as daemon:
                self.refused(daemon.stoker("read", spec, "--dump", check=False),
                             "feature-count", *words)


if __name__ == "__main__":
    main()
