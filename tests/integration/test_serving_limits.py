"""What one user, or one broken client, can take from the others: a share that has a name."""

import os
import shutil
import socket
import struct
import subprocess
import time
import unittest

from support import BIN, PATIENCE, Case, main, write_ids
from trainer import Trainer

SPEC = """
name: "{name}" source {{ files: "part-*" }} order {{ shuffle: GLOBAL seed: 1 }}
tensor {{ name: "id" dtype: INT64 }} batch {{ size: 10 }} delivery {{ slots: 4 {delivery} }}
"""


class Limits(Case):
    def setUp(self):
        super().setUp()
        write_ids(self.data, [200])

    def ids(self, name="ids", delivery=""):
        return self.spec(SPEC.format(name=name, delivery=delivery), name)

    def limited(self, limits, more=""):
        config = self.folder / "stokerd.textproto"
        config.write_text(f"limits {{ {limits} }} {more}")
        return self.daemon(arguments=["--config", config])

    def connect(self, daemon):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(peer.close)
        peer.settimeout(PATIENCE)
        peer.connect(str(daemon.run / "attach.sock"))
        return peer

    def refusal(self, peer):
        """The text of the Refused message that the daemon sends."""
        message = peer.recv(65536)
        self.assertEqual(struct.unpack_from("<IH", message), (0x48415453, 3))
        return message[24:].decode()

    def test_streams_of_one_user_are_limited_by_name(self):
        with self.limited("streams_per_user: 2") as daemon:
            daemon.stoker("open", self.ids("a"))
            with Trainer(daemon.run, self.ids("b")) as trainer:
                trainer.next().release()
                for refused in (daemon.stoker("open", self.ids("c"), check=False),
                                daemon.stoker("read", self.ids("c"), check=False)):
                    self.refused(refused, "limits.streams_per_user", f"uid {os.getuid()}",
                                 "has 2 streams", "may have 2")
                trainer.next().release()
            # The same stream again is not another one, and a closed one no longer counts.
            daemon.stoker("open", self.ids("a"))
            daemon.stoker("close", "a")
            daemon.stoker("open", self.ids("c"))
            # A restart does not forget who has what.
            daemon.process.kill()
            daemon.process.wait()
            daemon.start()
            daemon.stoker("status", "c")
            self.refused(daemon.stoker("open", self.ids("d"), check=False), "streams_per_user")

    def test_slots_and_bytes_of_one_user_are_limited_by_name(self):
        for limits, words in (("slots_per_user: 7", ("slots_per_user", "has 4 slots",
                                                     "4 more", "may have 7")),
                              ("bytes_per_user: 20000", ("bytes_per_user", "bytes of arenas",
                                                         "may have 20000"))):
            with self.limited(limits) as daemon:
                daemon.stoker("open", self.ids())
                with Trainer(daemon.run, "ids", rank=0, world_size=2) as trainer:
                    trainer.next().release()
                    with self.assertRaises(OSError) as refused:
                        Trainer(daemon.run, "ids", rank=1, world_size=2)
                    for word in words:
                        self.assertIn(word, str(refused.exception))
                    trainer.next().release()
                # What the first had is given back.
                for _ in range(3):
                    with Trainer(daemon.run, "ids", start=1) as trainer:
                        trainer.next().release()

    def test_a_broadcast_lane_counts_once_however_many_read_it(self):
        with self.limited("slots_per_user: 4") as daemon:
            daemon.stoker("open", self.ids(delivery="mode: BROADCAST"))
            with Trainer(daemon.run, "ids") as first, Trainer(daemon.run, "ids") as second:
                ids = first.next().ids()
                self.assertEqual(len(ids), 10)
                self.assertIsNotNone(second)

    def test_silent_connections_take_a_users_share_for_five_seconds_and_no_more(self):
        with self.limited("consumers_per_user: 8") as daemon:
            daemon.stoker("open", self.ids())
            with Trainer(daemon.run, "ids") as trainer:
                silent = [self.connect(daemon) for _ in range(7)]
                for _ in range(100):
                    with self.connect(daemon) as refused:
                        self.assertIn("limits.consumers_per_user", self.refusal(refused))
                    batch = trainer.next()
                    if batch is not None:
                        batch.release()
                for peer in silent:
                    self.assertIn("no Attach message came within 5 s", self.refusal(peer))
                    self.assertEqual(peer.recv(1), b"")
                self.refused(daemon.stoker("read", "ids", "--batches", 1, check=False),
                             "rank 0 is taken")

    def test_a_flood_of_connections_leaves_no_descriptor_and_no_trainer_behind(self):
        with self.limited("consumers_per_user: 16") as daemon:
            daemon.stoker("open", self.ids())

            def descriptors():
                return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))

            with Trainer(daemon.run, "ids") as trainer:
                trainer.next().release()
                before = descriptors()
                for number in range(2000):
                    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                    try:
                        peer.connect(str(daemon.run / "attach.sock"))
                        if number % 2:
                            peer.send(b"x" * (number % 64))
                    except OSError:
                        pass  # refused already
                    peer.close()
                    if number % 20 == 0:
                        batch = trainer.next()
                        if batch is not None:
                            batch.release()
                # The daemon sees them go in its own time.
                deadline = time.monotonic() + PATIENCE
                while descriptors() != before:
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.02)

    @unittest.skipUnless(os.getuid() == 0, "another user is needed")
    def test_one_users_share_is_not_anothers(self):
        other = 65534
        for folder in (self.folder, self.data):
            folder.chmod(0o755)
        binary = self.folder / "stoker"
        shutil.copy(BIN / "stoker", binary)
        with self.limited("streams_per_user: 1 slots_per_user: 4 consumers_per_user: 4",
                          f'data_root: "{self.data}" access {{ allow_user: "{other}" '
                          f'socket_mode: 660 }}') as daemon:
            daemon.run.chmod(0o755)
            for name in ("attach.sock", "control.sock"):
                os.chown(daemon.run / name, 0, other)

            def as_other(*arguments):
                return subprocess.run([str(binary), "--runtime-dir", str(daemon.run), *arguments],
                                      capture_output=True, text=True, timeout=PATIENCE,
                                      user=other, group=other, extra_groups=[])

            with Trainer(daemon.run, self.ids("mine")) as trainer:
                silent = [self.connect(daemon) for _ in range(3)]
                self.refused(daemon.stoker("read", self.ids("more"), check=False),
                             "limits.consumers_per_user: uid 0")
                done = as_other("read", str(self.ids("theirs")), "--batches", "2", "--digest")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.refused(as_other("open", str(self.ids("second"))),
                             f"limits.streams_per_user: uid {other}")
                trainer.next().release()
                del silent


if __name__ == "__main__":
    main()
