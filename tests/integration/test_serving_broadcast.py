"""BROADCAST to the end: who joins where, who is waited for, what a death or a restart costs."""

import json
import os
import pathlib
import subprocess
import sys
import threading
import time

from support import CLIENT_ENVIRONMENT, PATIENCE, Case, main, write_ids
from trainer import Trainer

SPEC = """
name: "ids" source {{ files: "part-*" }} order {{ shuffle: GLOBAL seed: 2 {order} }}
tensor {{ name: "id" dtype: INT64 }} batch {{ size: 10 }}
delivery {{ mode: BROADCAST {delivery} }}
"""


class Broadcast(Case):
    def ids(self, order="repeat: 1", delivery="slots: 4", rows=600):
        write_ids(self.data, [rows])
        return self.spec(SPEC.format(order=order, delivery=delivery))

    def whole(self, spec):
        """The stream's batches as one consumer sees them alone, with the token behind each."""
        seen = []
        with self.daemon() as daemon, Trainer(daemon.run, spec) as trainer:
            for batch in trainer:
                seen.append((batch.ids(), batch.token().encode()))
                batch.release()
        return seen

    def wait_for(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)

    def take(self, trainer, count):
        taken = []
        for _ in range(count):
            batch = trainer.next()
            taken.append(batch.ids())
            batch.release()
        return taken

    def rest(self, trainer):
        seen = []
        for batch in trainer:
            seen.append(batch.ids())
            batch.release()
        return seen

    def in_thread(self, work):
        """Runs `work` beside the test; join() gives its result or raises its error."""
        box = {}

        def run():
            try:
                box["result"] = work()
            except Exception as error:
                box["error"] = error

        thread = threading.Thread(target=run)
        thread.start()

        def join():
            thread.join(PATIENCE)
            self.assertFalse(thread.is_alive())
            if "error" in box:
                raise box["error"]
            return box["result"]

        return join

    def test_a_consumer_behind_by_token_gets_what_it_missed_and_the_others_nothing_twice(self):
        spec = self.ids(delivery="slots: 4 catch_up: 20")
        whole = self.whole(spec)
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            with Trainer(daemon.run, "ids") as first:
                seen = self.take(first, 30)
                position = int(daemon.status("ids")["lane"][0]["global_row"]) // 10
                late = Trainer(daemon.run, "ids", token=whole[position - 16][1])
                with late:
                    follow = self.in_thread(lambda: self.rest(late))
                    seen += self.rest(first)
                    followed = follow()
            self.assertEqual(seen, [ids for ids, _ in whole])
            self.assertEqual(followed, [ids for ids, _ in whole[position - 15:]])

    def test_a_consumer_too_far_behind_is_refused_with_both_positions(self):
        spec = self.ids(delivery="slots: 4 catch_up: 5")
        whole = self.whole(spec)
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            with Trainer(daemon.run, "ids") as first:
                self.take(first, 30)
                with self.assertRaisesRegex(OSError, r"is at epoch 0, row 3\d0 .* epoch 0, row 20,"
                                                     r" .*catch_up: 5 batches behind"):
                    Trainer(daemon.run, "ids", token=whole[1][1])
                # Within its slots nothing needs to be computed again.
                self.take(first, 1)

    def test_a_consumer_ahead_by_token_waits_for_the_lane(self):
        spec = self.ids()
        whole = self.whole(spec)
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            with Trainer(daemon.run, "ids") as first, \
                    Trainer(daemon.run, "ids", token=whole[39][1]) as ahead:
                self.assertEqual(self.take(first, 40), [ids for ids, _ in whole[:40]])
                follow = self.in_thread(lambda: self.rest(ahead))
                self.assertEqual(self.rest(first), [ids for ids, _ in whole[40:]])
                self.assertEqual(follow(), [ids for ids, _ in whole[40:]])

    def test_who_joins_late_begins_now_or_with_the_next_epoch(self):
        spec = self.ids(order="repeat: 2", rows=200)
        whole = [ids for ids, _ in self.whole(spec)]
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            with Trainer(daemon.run, "ids") as first:
                self.take(first, 3)
                self.wait_for(lambda: daemon.status("ids")["lane"][0]["slots_ready"] == 4)
                with Trainer(daemon.run, "ids") as now, \
                        Trainer(daemon.run, "ids", flags=1) as next_epoch:
                    both = [self.in_thread(lambda: self.rest(now)),
                            self.in_thread(lambda: self.rest(next_epoch))]
                    self.rest(first)
                    self.assertEqual(both[0](), whole[7:])
                    self.assertEqual(both[1](), whole[20:])

    def together(self, spec, count):
        """The stream's batches, and a daemon with so many consumers attached before the first."""
        whole = [ids for ids, _ in self.whole(self.spec(spec.read_text().replace(
            f"expect: {count}", ""), "alone"))]
        daemon = self.enterContext(self.daemon())
        daemon.stoker("open", spec)
        joins = [self.in_thread(lambda: Trainer(daemon.run, "ids")) for _ in range(count)]
        trainers = [join() for join in joins]
        for trainer in trainers:
            self.addCleanup(trainer.__exit__)
        return whole, daemon, trainers

    def restart(self, daemon):
        daemon.process.kill()
        daemon.process.wait()
        daemon.start()

    def test_after_a_kill_the_lane_begins_at_the_lowest_position_that_comes_back(self):
        whole, daemon, trainers = self.together(self.ids(delivery="slots: 6 expect: 3"), 3)
        seen = [[], [], []]

        def all_take(counts, order):
            """In threads; the first of `order` is on its way before the next begins."""
            joins = {i: self.in_thread(lambda i=i: self.take(trainers[i], counts[i]))
                     for i in order}
            for i, join in joins.items():
                seen[i] += join()

        all_take((9, 6, 11), (0, 1, 2))
        for _ in range(2):
            self.restart(daemon)
            # The one that is ahead comes first, and waits for the one behind.
            all_take((5, 5, 5), (2, 0, 1))
        rest = [self.in_thread(lambda t=t: self.rest(t)) for t in trainers]
        for taken, join in zip(seen, rest):
            taken += join()
            self.assertEqual(taken, whole)

    def test_after_a_kill_a_consumer_that_does_not_come_back_is_not_waited_for(self):
        whole, daemon, (stays, gone) = self.together(self.ids(delivery="slots: 4 expect: 2"), 2)
        seen = self.take(stays, 3)
        self.take(gone, 3)
        self.restart(daemon)  # `gone` never asks again
        self.assertEqual(seen + self.rest(stays), whole)

    def test_a_consumer_that_holds_up_the_others_is_evicted_with_a_word(self):
        whole, daemon, (quick, slow, other) = self.together(
            self.ids(delivery="slots: 3 expect: 3 max_lag_ms: 300"), 3)
        held = slow.next()
        follow = [self.in_thread(lambda t=t: self.rest(t)) for t in (quick, other)]
        self.assertEqual([join() for join in follow], [whole, whole])
        # What it holds is its own for as long as it holds it.
        self.assertEqual(held.ids(), whole[0])
        with self.assertRaisesRegex(OSError, "evicted.*max_lag_ms: 300"):
            for _ in range(10):
                slow.next().release()
        self.assertEqual(held.ids(), whole[0])
        held.release()

    def test_without_max_lag_a_slow_consumer_is_waited_for(self):
        whole, daemon, (quick, slow) = self.together(
            self.ids(delivery="slots: 3 expect: 2"), 2)
        held = [slow.next() for _ in range(3)]
        seen = self.take(quick, 3)
        with self.assertRaisesRegex(OSError, "no batch yet"):
            quick.next(timeout=1)
        for batch in held:
            batch.release()
        follow = self.in_thread(lambda: self.rest(slow))
        self.assertEqual(seen + self.rest(quick), whole)
        self.assertEqual(follow(), whole[3:])

    def test_a_killed_consumer_does_not_hold_up_the_others(self):
        spec = self.ids(order="repeat: 3", delivery="slots: 3")
        whole = [ids for ids, _ in self.whole(spec)]
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            with Trainer(daemon.run, "ids") as trainer:
                seen = []
                for _ in range(5):
                    holder = subprocess.Popen(
                        [sys.executable, "-B", "-c",
                         "import pathlib, sys, time\n"
                         "from trainer import Trainer\n"
                         "t = Trainer(pathlib.Path(sys.argv[1]), 'ids')\n"
                         "held = [t.next() for _ in range(3)]\n"
                         "print('held', flush=True)\n"
                         "sys.stdin.read()", str(daemon.run)],
                        cwd=pathlib.Path(__file__).parent, stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE, env=CLIENT_ENVIRONMENT)
                    follow = self.in_thread(holder.stdout.readline)
                    while True:
                        lanes = daemon.status("ids")["lane"][0]
                        if any(c["held"] == 3 and int(c["pid"]) == holder.pid
                               for c in lanes["consumer"]):
                            break
                        try:
                            batch = trainer.next(timeout=0.05)
                        except OSError:
                            continue
                        seen.append(batch.ids())
                        batch.release()
                    holder.kill()
                    holder.communicate()
                    follow()
                seen += self.rest(trainer)
            self.assertEqual(seen, whole)


# A trainer without our library, whose forked child keeps the socket when it is killed.
RAW_TRAINER = """
import os, socket, struct, sys
name = b"ids"
body = struct.pack("<6IqQq4I", 0, 1, 1, 0, 0, 0, 60000, 0, os.getpid(), len(name), 0, 0, 0)
message = struct.pack("<IHHII", 0x48415453, 1, 1, 16 + len(body) + len(name), 0) + body + name
peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
peer.connect(sys.argv[1])
peer.send(message)
data, fds, _, _ = socket.recv_fds(peer, 65536, 8)
kind = struct.unpack_from("<IH", data)[1]
child = os.fork()
if child:
    print(kind, child, flush=True)
sys.stdin.read()
"""


class TakeOver(Case):
    SPEC = """
        name: "ids" source { files: "part-*" } order { shuffle: GLOBAL seed: 1 }
        tensor { name: "id" dtype: INT64 } batch { size: 10 }"""

    def test_a_killed_trainer_whose_children_live_on_gives_its_rank_up_at_once(self):
        write_ids(self.data, [200])
        spec = self.spec(self.SPEC)
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            for _ in range(10):
                trainer = subprocess.Popen(
                    [sys.executable, "-c", RAW_TRAINER, str(daemon.run / "attach.sock")],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                kind, child = map(int, trainer.stdout.readline().split())
                self.assertEqual(kind, 2)  # Attached
                try:
                    # A live duplicate is told who holds the rank.
                    with self.assertRaisesRegex(OSError, f"pid {trainer.pid}, uid {os.getuid()}"):
                        Trainer(daemon.run, "ids")
                    trainer.kill()
                    trainer.wait()
                    # No second attempt: the very first attach after the death is let in.
                    with Trainer(daemon.run, "ids") as taken:
                        self.assertEqual(len(taken.next().ids()), 10)
                    os.kill(child, 0)  # it lives
                finally:
                    trainer.stdin.close()
                    trainer.stdout.close()
                    os.kill(child, 9)


class OldArenas(Case):
    MEMORY = 60 << 20  # an arena of 32 MiB and half of another, not two

    def free(self, daemon, spec):
        return int(json.loads(daemon.stoker("--json", "explain", spec).stdout)["budget_free_bytes"])

    def test_what_trainers_still_read_counts_and_the_lane_grows_when_they_let_go(self):
        write_ids(self.data, [4000])
        spec = self.spec("""name: "big" source { files: "part-*" } order { shuffle: GLOBAL seed: 1 }
            tensor { name: "id" dtype: INT64 }
            tensor { name: "hot" feature: "id" dtype: FLOAT32 kind: KIND_INT64
              op { one_hot { depth: 4096 } } }
            batch { size: 512 } delivery { slots: 4 }""")
        with self.daemon(arguments=["--memory", str(self.MEMORY)]) as daemon:
            daemon.stoker("open", spec)
            with Trainer(daemon.run, "big") as trainer:
                held = trainer.next()
                ids = held.ids()
                arena = int(daemon.status("big")["arena_bytes"])
                self.assertGreater(arena, 32 << 20)
                daemon.process.kill()
                daemon.process.wait()
                daemon.start()
                while trainer.reconnects() == 0:  # the old mailbox's words come first
                    batch = trainer.next()
                    if batch is not None:
                        batch.release()
                # The old arena, and two slots of the new one.
                self.assertLess(self.free(daemon, spec), self.MEMORY - arena - arena // 2 + 1)
                self.assertGreater(self.free(daemon, spec), 0)
                for _ in range(20):
                    batch = trainer.next()
                    if batch is not None:
                        batch.release()
                self.assertEqual(held.ids(), ids)
                held.release()
                deadline = time.monotonic() + PATIENCE
                while daemon.status("big")["lane"][0]["slots_ready"] != 4:
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.02)
                # One arena, and what workers and slots hold beside it.
                self.assertGreater(self.free(daemon, spec), self.MEMORY - arena - (2 << 20))


if __name__ == "__main__":
    main()
