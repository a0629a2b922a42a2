"""The daemon as a citizen: start, stop, sockets, leases, what a client may and may not do."""

import os
import signal
import socket
import stat
import struct
import subprocess
import time

from support import PATIENCE, Case, Daemon, main, write_ids
from trainer import Trainer

SPEC = """
name: "ids" source {{ files: "part-*" }} order {{ shuffle: GLOBAL seed: 1 {order} }}
tensor {{ name: "id" dtype: INT64 }} tensor {{ name: "pay" dtype: INT64 feature: "id" shape: 1 }}
batch {{ size: 10 }} delivery {{ slots: {slots} }}
"""


class Serving(Case):
    def ids(self, order="repeat: 1", slots=4, rows=120):
        write_ids(self.data, [rows])
        return self.spec(SPEC.format(order=order, slots=slots))

    def test_a_held_batch_is_never_overwritten(self):
        spec = self.ids(order="repeat: 5")
        with self.daemon() as daemon, Trainer(daemon.run, spec) as trainer:
            held, numbers = {}, 0
            while True:
                batch = trainer.next()
                if batch is None:
                    if trainer.ended():
                        break
                    continue
                if numbers in (2, 7, 11):
                    held[numbers] = (batch, batch.ids())
                else:
                    batch.release()
                numbers += 1
                for kept, ids in held.values():
                    self.assertEqual(kept.ids(), ids)
            self.assertEqual(numbers, 60)
            for kept, ids in held.values():
                self.assertEqual(kept.ids(), ids)
                kept.release()

    def test_holding_all_slots_is_told_and_one_release_goes_on(self):
        spec = self.ids()
        with self.daemon() as daemon, Trainer(daemon.run, spec) as trainer:
            held = [trainer.next() for _ in range(4)]
            with self.assertRaisesRegex(OSError, "holds all 4 slots"):
                trainer.next(timeout=20)
            lane = daemon.status("ids")["lane"][0]
            self.assertEqual(lane["slots_held"], 4)
            held.pop(0).release()
            self.assertEqual(len(trainer.next().ids()), 10)

    def test_ready_batches_outlive_the_daemon_and_the_client_goes_on_by_itself(self):
        spec = self.ids(rows=2000)
        undisturbed = []
        with self.daemon() as daemon, Trainer(daemon.run, spec) as trainer:
            for batch in trainer:
                undisturbed.append(batch.ids())
                batch.release()
        with self.daemon() as daemon, Trainer(daemon.run, spec) as trainer:
            seen, kept = [], None
            for number, batch in enumerate(trainer):
                seen.append(batch.ids())
                if number == 20:
                    kept = batch
                    daemon.process.kill()
                    daemon.process.wait()
                    self.assertEqual(kept.ids(), undisturbed[20])
                    daemon.start()
                else:
                    batch.release()
            self.assertEqual(seen, undisturbed)
            self.assertEqual(kept.ids(), undisturbed[20])
            kept.release()

    def test_without_reconnecting_a_dead_daemon_is_told_at_once(self):
        spec = self.ids(order="")
        with self.daemon() as daemon, Trainer(daemon.run, spec, reconnect=-1) as trainer:
            trainer.next().release()
            daemon.process.kill()
            daemon.process.wait()
            began = time.monotonic()
            with self.assertRaisesRegex(OSError, "gone"):
                while True:
                    trainer.next(timeout=PATIENCE).release()
            self.assertLess(time.monotonic() - began, 50)

    def test_a_killed_trainer_frees_its_rank_and_a_live_duplicate_is_refused(self):
        spec = self.ids(order="")
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            with Trainer(daemon.run, "ids") as trainer:
                trainer.next().release()
                done = daemon.stoker("read", "ids", "--batches", 1, check=False)
                self.refused(done, "rank 0 is taken", str(os.getpid()))
            child = daemon.spawn("read", "ids")
            self.wait_for(lambda: daemon.status("ids").get("lane"))
            child.kill()
            child.communicate()
            self.wait_for(lambda: not daemon.status("ids").get("lane"))
            daemon.stoker("read", "ids", "--batches", 1)

    def wait_for(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_a_fork_must_attach_anew(self):
        spec = self.ids(order="", rows=2000)
        with self.daemon() as daemon, Trainer(daemon.run, spec) as trainer:
            batch = trainer.next()
            ids = batch.ids()
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    assert batch.ids() == ids
                    try:
                        trainer.next(timeout=5)
                    except OSError as error:
                        status = 0 if "fork" in str(error) else 2
                finally:
                    os._exit(status)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            self.assertEqual(batch.ids(), ids)
            batch.release()
            for _ in range(20):
                trainer.next().release()

    def test_stopping_takes_little_time_with_clients_attached(self):
        spec = self.ids(order="", slots=4)
        with self.daemon() as daemon:
            readers = [daemon.spawn("read", spec)]
            self.wait_for(lambda: daemon.stoker("status", "ids", check=False).returncode == 0)
            with Trainer(daemon.run, "ids", rank=0, check=False):
                status, seconds = daemon.stop()
            for reader in readers:
                reader.kill()
                reader.communicate()
            self.assertEqual(status, 0)
            self.assertLess(seconds, 20)
            self.assertFalse((daemon.run / "attach.sock").exists())
            self.assertFalse((daemon.run / "control.sock").exists())

    def test_stopping_does_not_wait_for_a_stopped_client(self):
        spec = self.ids(order="")
        with self.daemon() as daemon:
            reader = daemon.spawn("read", spec)
            self.wait_for(lambda: daemon.stoker("status", "ids", check=False).returncode == 0 and
                          daemon.status("ids").get("lane"))
            reader.send_signal(signal.SIGSTOP)
            status, seconds = daemon.stop()
            reader.kill()
            reader.communicate()
            self.assertEqual(status, 0)
            self.assertLess(seconds, 20)

    def test_a_second_daemon_is_refused_and_a_stale_socket_replaced(self):
        with self.daemon() as daemon:
            second = subprocess.run(daemon.command(), capture_output=True, text=True,
                                    timeout=PATIENCE)
            self.assertNotEqual(second.returncode, 0)
            self.assertIn(str(daemon.process.pid), second.stderr)
            daemon.stoker("list")
            daemon.process.kill()
            daemon.process.wait()
            self.assertTrue((daemon.run / "attach.sock").exists())
            daemon.start()
            daemon.stoker("list")

    def test_of_two_daemons_started_at_once_one_runs(self):
        daemon = Daemon(self.folder)
        both = [subprocess.Popen(daemon.command(), stderr=subprocess.DEVNULL) for _ in range(2)]
        self.wait_for(lambda: any(p.poll() is not None for p in both))
        running = [p for p in both if p.poll() is None]
        self.assertEqual(len(running), 1)
        self.wait_for(lambda: (daemon.run / "control.sock").exists())
        self.wait_for(lambda: daemon.stoker("list", check=False).returncode == 0)
        running[0].terminate()
        self.assertEqual(running[0].wait(PATIENCE), 0)

    def test_a_file_at_the_sockets_place_is_left_alone(self):
        (self.folder / "run").mkdir()
        (self.folder / "run" / "attach.sock").write_text("mine")
        daemon = Daemon(self.folder)
        done = subprocess.run(daemon.command(), capture_output=True, text=True, timeout=PATIENCE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("attach.sock", done.stderr)
        self.assertEqual((self.folder / "run" / "attach.sock").read_text(), "mine")

    def test_nothing_of_ours_is_open_to_others(self):
        spec = self.ids(order="")
        before = set(os.listdir("/dev/shm"))
        with self.daemon() as daemon, Trainer(daemon.run, spec) as trainer:
            trainer.next().release()
            for path in [daemon.run, *daemon.run.iterdir()]:
                self.assertEqual(path.lstat().st_mode & stat.S_IRWXO, 0, path)
            self.assertEqual(set(os.listdir("/dev/shm")), before)

    def test_a_stream_over_the_budget_is_refused_with_the_numbers(self):
        write_ids(self.data, [100])
        spec = self.spec("""name: "big" source { files: "part-*" } order {}
            tensor { name: "id" dtype: FLOAT32 kind: KIND_INT64 op { one_hot { depth: 1048576 } } }
            batch { size: 64 }""")
        with self.daemon(arguments=["--memory", str(64 << 20)]) as daemon:
            done = daemon.stoker("read", spec, "--batches", 1, check=False)
            self.refused(done, "memory_bytes", str(64 << 20), "needs")
            daemon.stoker("list")

    def test_broken_messages_end_their_connection_and_nothing_else(self):
        spec = self.ids(order="")
        header = lambda kind, size, version=1, magic=0x48415453: struct.pack(
            "<IHHII", magic, kind, version, size, 0)
        messages = [b"", b"x", header(1, 16), header(1, 17), header(9, 16), header(1, 16, 99),
                    header(1, 16, 1, 7), header(1, 80) + b"\xff" * 64, b"\0" * 200000,
                    header(2, 16), header(7, 16)]
        with self.daemon() as daemon, Trainer(daemon.run, spec) as trainer:
            trainer.next().release()
            for message in messages:
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
                    peer.settimeout(PATIENCE)
                    peer.connect(str(daemon.run / "attach.sock"))
                    try:
                        peer.send(message)
                        while peer.recv(65536):
                            pass
                    except (ConnectionError, OSError):
                        pass
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
                peer.settimeout(PATIENCE)
                peer.connect(str(daemon.run / "attach.sock"))
                read, write = os.pipe()
                socket.send_fds(peer, [header(7, 16)], [read, write])
                os.close(read)
                os.close(write)
                while peer.recv(65536):
                    pass
            trainer.next().release()

    def test_descriptors_stay_as_many(self):
        spec = self.ids(order="", rows=50)
        with self.daemon() as daemon:
            daemon.stoker("open", spec)
            def count(pid):
                return len(os.listdir(f"/proc/{pid}/fd"))
            with Trainer(daemon.run, "ids") as trainer:
                trainer.next().release()
                mine, theirs = count("self"), count(daemon.process.pid)
                for _ in range(2000):
                    batch = trainer.next()
                    if batch is not None:
                        batch.release()
                self.assertEqual((count("self"), count(daemon.process.pid)), (mine, theirs))
            for _ in range(20):
                with Trainer(daemon.run, "ids") as trainer:
                    trainer.next().release()
            self.wait_for(lambda: count(daemon.process.pid) < theirs)


if __name__ == "__main__":
    main()
