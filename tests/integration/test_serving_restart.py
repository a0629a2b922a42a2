"""What a daemon's death costs its trainers: nothing. Real daemons, killed and stopped."""

import json
import subprocess
import threading
import time

from support import PATIENCE, Case, main, write_ids
from trainer import Trainer

SPEC = """
name: "ids" source {{ files: "part-*" }} order {{ shuffle: GLOBAL {order} }}
tensor {{ name: "id" dtype: INT64 }} batch {{ size: {batch} }} delivery {{ {delivery} }}
"""


def read_all(trainer, out, each=lambda number: None):
    """Every batch's ids, in order; `each` is called after a batch was given back."""
    for number, batch in enumerate(trainer):
        out.append(batch.ids())
        batch.release()
        each(number)


class Restart(Case):
    def ids(self, order="seed: 1 repeat: 3", batch=10, delivery="slots: 4", sizes=(300, 200, 100)):
        self.rows = write_ids(self.data, sizes)
        return self.spec(SPEC.format(order=order, batch=batch, delivery=delivery))

    def undisturbed(self, spec, world_size=1):
        out = [[] for _ in range(world_size)]
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            self.read_ranks(daemon, out)
            daemon.stoker("close", "ids")
        return out

    def read_ranks(self, daemon, out, each=lambda rank, number: None):
        """All ranks in threads, by the stream's name; returns when all have ended."""
        failures = []
        everyone = threading.Barrier(len(out))

        def run(rank):
            try:
                with Trainer(daemon.run, "ids", rank=rank, world_size=len(out)) as trainer:
                    everyone.wait(PATIENCE)
                    read_all(trainer, out[rank], lambda number: each(rank, number))
                    everyone.wait(PATIENCE)
            except Exception as error:  # told by the test's own thread
                failures.append(error)
                everyone.abort()

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(out))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(failures, [])

    def wait_for(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def kill(self, daemon):
        daemon.process.kill()
        daemon.process.wait()

    def test_a_killed_daemon_goes_on_and_a_trainer_by_name_notices_nothing(self):
        spec = self.ids()
        whole = self.undisturbed(spec)
        out, kept = [[]], []
        with self.daemon() as daemon:
            daemon.stoker("open", spec)

            def each(_, number):
                if number in (7, 80, 121, 150):
                    self.kill(daemon)
                    daemon.start()

            self.read_ranks(daemon, out, each)
            kept.append(daemon.status("ids"))
        self.assertEqual(out, whole)
        self.assertEqual(sorted(sum(out[0], [])), sorted(list(range(600)) * 3))
        self.assertEqual(kept[0]["opened_by_attach"], False)

    def test_four_ranks_over_an_epochs_end_notice_nothing(self):
        spec = self.ids(order="seed: 3 repeat: 4", batch=4, sizes=(103,))
        whole = self.undisturbed(spec, world_size=4)
        out = [[] for _ in range(4)]
        with self.daemon() as daemon:
            daemon.stoker("open", spec)

            def each(rank, number):
                # An epoch has 7 steps: the kill after step 6 finds ranks on both sides of its end.
                if rank == 2 and number in (3, 6, 13, 20):
                    self.kill(daemon)
                    daemon.start()

            self.read_ranks(daemon, out, each)
        self.assertEqual(out, whole)

    def test_a_drawn_seed_and_the_list_of_shards_outlive_a_kill(self):
        spec = self.ids(order="repeat: 2")
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            before = daemon.status("ids")
            with Trainer(daemon.run, "ids") as trainer:
                first = trainer.next()
                ids = first.ids()
                self.kill(daemon)
                # Neither a new shard nor bytes that are appended belong to what was opened.
                whole = (self.data / "part-00000").read_bytes()
                (self.data / "part-00009").write_bytes(whole)
                with open(self.data / "part-00001", "ab") as shard:
                    shard.write(whole)
                daemon.start()
                seen = [ids]
                first.release()
                read_all(trainer, seen)
            after = daemon.status("ids")
            self.assertEqual(after["seed_drawn"], True)
            for fact in ("seed", "shards", "records", "plan_id"):
                self.assertEqual(after[fact], before[fact], fact)
        self.assertEqual(sorted(sum(seen, [])), sorted(list(range(600)) * 2))

    def test_a_shard_that_changed_while_the_daemon_was_dead_is_named(self):
        spec = self.ids()
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            self.kill(daemon)
            shard = self.data / "part-00001"
            shard.write_bytes((self.data / "part-00000").read_bytes())
            daemon.start()
            done = daemon.stoker("status", "ids", check=False)
            self.refused(done, "shard-changed", "since the restart")
            shard.write_bytes(b"")
            self.kill(daemon)
            daemon.start()
            done = daemon.stoker("read", "ids", "--batches", 1, check=False)
            self.refused(done, "shard-changed", shard)

    def test_who_continues_begins_at_the_first_batch_that_was_not_given_back(self):
        spec = self.ids()
        whole = self.undisturbed(spec)[0]
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            with Trainer(daemon.run, "ids") as trainer:
                for _ in range(5):
                    trainer.next().release()
                held = trainer.next()
                trainer.next().release()  # out of order: the held one is the first
                # A daemon that dies before it has seen a batch come back counts it as held.
                self.wait_for(lambda: json.loads(daemon.stoker("--json", "audit", "ids").stdout)
                              ["entry"][-1]["released_row"] == "50")
                self.kill(daemon)
                self.assertEqual(held.ids(), whole[5])
            daemon.start()
            with Trainer(daemon.run, "ids", start=2) as trainer:
                batch = trainer.next()
                self.assertEqual(batch.ids(), whole[5])
                batch.release()

    def test_a_closed_stream_stays_closed_over_a_kill(self):
        spec = self.ids()
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            daemon.stoker("close", "ids")
            self.kill(daemon)
            daemon.start()
            self.refused(daemon.stoker("status", "ids", check=False), "no stream")

    def test_a_torn_state_file_is_left_alone_and_said(self):
        spec = self.ids()
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            stored = daemon.folder / "state" / "streams" / "ids.stream"
            whole = stored.read_bytes()
            for bytes_, words in ((whole[:-1], "cut short"), (whole[:9], "cut short"),
                                  (whole[:40] + bytes([whole[40] ^ 1]) + whole[41:], "checksum"),
                                  (b"x" * 100, "not a stream's state"), (b"", "cut short")):
                self.kill(daemon)
                stored.write_bytes(bytes_)
                began = len(daemon.log.read_text())
                daemon.start()
                self.assertIn(words, daemon.log.read_text()[began:])
                self.refused(daemon.stoker("status", "ids", check=False), "no stream")
            daemon.stoker("open", spec)
            self.assertNotEqual(stored.read_bytes(), b"")
            self.assertEqual(stored.stat().st_mode & 0o777, 0o600)
            self.assertEqual(stored.parent.stat().st_mode & 0o777, 0o700)

    def test_a_planned_stop_hands_out_what_is_ready_and_then_goes(self):
        spec = self.ids(delivery="slots: 8")
        whole = self.undisturbed(spec)[0]
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            with Trainer(daemon.run, "ids") as trainer:
                seen = []
                for _ in range(3):
                    batch = trainer.next()
                    seen.append(batch.ids())
                    batch.release()
                stopping = threading.Thread(target=daemon.stop)
                stopping.start()
                stopping.join(PATIENCE)
                daemon.start()
                read_all(trainer, seen)
            self.assertEqual(seen, whole)

    def test_batches_that_were_ready_can_be_taken_when_the_daemon_has_gone(self):
        spec = self.ids(delivery="slots: 4")
        whole = self.undisturbed(spec)[0]
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            with Trainer(daemon.run, "ids", reconnect=-1) as trainer:
                self.wait_for(lambda: daemon.status("ids")["lane"][0]["slots_ready"] == 4)
                status, _ = daemon.stop()
                self.assertEqual(status, 0)
                for ids in whole[:4]:
                    batch = trainer.next()
                    self.assertEqual(batch.ids(), ids)
                    batch.release()
                with self.assertRaisesRegex(OSError, "gone"):
                    trainer.next()

    def test_two_daemons_do_not_share_a_state_folder(self):
        with self.daemon() as daemon:
            command = [str(self.folder / "run2") if word == str(daemon.run) else word
                       for word in daemon.command()]
            log = open(self.folder / "second.log", "w+b")
            second = subprocess.Popen(command, stderr=log)
            try:
                self.wait_for(lambda: b"stokerd ready" in (self.folder / "second.log").read_bytes())
                self.assertIn("another daemon keeps its state",
                              (self.folder / "second.log").read_text())
            finally:
                second.terminate()
                self.assertEqual(second.wait(PATIENCE), 0)
                log.close()


if __name__ == "__main__":
    main()
