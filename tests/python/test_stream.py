"""What a trainer written in Python sees: a real daemon, the installed package, NumPy."""

import gc
import multiprocessing
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from support import BIN, PATIENCE, Case, example, main, write_ids, write_records  # noqa: E402

import numpy  # noqa: E402

import stoker  # noqa: E402

os.environ["STOKERD"] = str(BIN / "stokerd")


def spec(data, batch=4, more="", delivery="slots: 4"):
    return (f'name: "ids" source {{ files: "{data}/part-*" }} order {{ seed: 7 repeat: 2 }} '
            f'tensor {{ name: "id" dtype: INT64 }} {more} batch {{ size: {batch} }} '
            f'delivery {{ {delivery} }}')


def ids(batch):
    return numpy.asarray(batch["id"]).tolist()


# What a trainer may make of a tensor and keep.
FORMS = [numpy.asarray, numpy.from_dlpack, memoryview,
         lambda t: numpy.asarray(t)[1:][::-1],
         lambda t: numpy.from_dlpack(t)[:2],
         lambda t: memoryview(t)[1:2],
         lambda t: t.__dlpack__(),
         lambda t: t.__dlpack__(max_version=(1, 0)),
         lambda t: t.__dlpack__(max_version=(1, 0), copy=True)]


def in_child(parameters, queue):
    """A spawned child's whole program."""
    with parameters.attach() as stream:
        queue.put([ids(b) for b in stream.epoch()])


class StreamCase(Case):
    def setUp(self):
        super().setUp()
        write_ids(self.data, [6, 4], extra=lambda i: {"x": [i + 0.5, -float(i)]})
        self.server = self.enterContext(self.daemon(workers=2))

    def open(self, text=None, **options):
        stream = stoker.open(text or spec(self.data), socket=self.server.run / "attach.sock",
                             **options)
        self.addCleanup(stream.close)
        return stream


class Reading(StreamCase):
    def test_epochs_come_one_by_one_and_end(self):
        stream = self.open()
        self.assertEqual(len(stream), 3)
        for epoch in range(2):
            got = [(b.epoch, b.step, ids(b)) for b in stream.epoch(epoch)]
            self.assertEqual(got, [(epoch, 0, [0, 1, 2, 3]), (epoch, 1, [4, 5, 6, 7]),
                                   (epoch, 2, [8, 9])])
        self.assertTrue(stream.ended)
        self.assertEqual(list(stream.epoch()), [])

    def test_a_loop_left_after_the_last_batch_goes_on_with_the_next_epoch(self):
        stream = self.open()
        for batch in stream.epoch():
            if batch.step == 2:
                break
        self.assertEqual([b.epoch for b in stream.epoch()], [1, 1, 1])

    def test_a_path_counts_relative_files_from_its_folder(self):
        path = self.spec(spec(".").replace("./part", "part") + "# \"files: }\n")
        for way in (path, str(path)):
            with stoker.open(way, socket=self.server.run / "attach.sock") as stream:
                self.assertEqual(ids(stream.next()), [0, 1, 2, 3])

    def test_a_spec_is_built_in_python(self):
        built = (stoker.Spec("built", files=self.data / "part-*").order(repeat=1)
                 .tensor("x", dtype="FLOAT32", shape=2, op=[{"scale": {"factor": 2.0}}])
                 .batch(3, remainder="DROP"))
        batch = self.open(built).next()
        self.assertEqual(numpy.asarray(batch["x"]).tolist(), [[1.0, 0.0], [3.0, -2.0], [5.0, -4.0]])

    def test_ranks_share_each_step(self):
        streams = [self.open(rank=r, world_size=2) for r in range(2)]
        got = [ids(b) for s in streams for b in s.epoch()]
        self.assertEqual(got, [[0, 1, 2, 3], [8], [4, 5, 6, 7], [9]])

    def test_a_token_resumes_after_its_batch(self):
        stream = self.open()
        token = [b.token for _, b in zip(range(2), stream.epoch())][0]
        stream.close()
        resumed = self.open(token=token)
        self.assertEqual(resumed.position, (0, 4))
        self.assertEqual([ids(b) for b in resumed.epoch()], [[4, 5, 6, 7], [8, 9]])

    def test_a_state_dict_goes_back_in_place(self):
        stream = self.open()
        stream.next()
        state = stream.state_dict()
        kept = stream.next()
        stream.load_state_dict(state)
        self.assertEqual(ids(stream.next()), [4, 5, 6, 7])
        self.assertEqual(ids(kept), [4, 5, 6, 7])

    def test_a_resume_at_any_point_gives_what_was_still_to_come(self):
        text = spec(self.data).replace("order { ", "order { shuffle: GLOBAL ")
        stream = self.open(text)
        whole, tokens = [], [stream.token]
        for batch in stream:
            whole.append((batch.epoch, batch.step, ids(batch)))
            tokens.append(batch.token)
        stream.close()
        self.assertEqual(sorted(i for e, _, part in whole if e == 1 for i in part),
                         list(range(10)))
        for taken, token in enumerate(tokens):
            with self.open(text, token=token) as resumed:
                self.assertEqual([(b.epoch, b.step, ids(b)) for b in resumed], whole[taken:])

    def test_the_last_batch_is_partial_or_dropped_as_the_spec_says(self):
        for remainder, sizes in ("PARTIAL", [4, 4, 2]), ("DROP", [4, 4]):
            text = spec(self.data).replace("size: 4", f"size: 4 remainder: {remainder}")
            with self.open(text) as stream:
                got = [(b.rows, b.real_rows, len(ids(b))) for b in stream.epoch()]
                self.assertEqual(got, [(n, n, n) for n in sizes])
                self.assertEqual(len(stream), len(sizes))

    def test_byte_strings_and_their_names(self):
        write_records(self.data / "text-0", [example({"t": [b"ab"]}), example({"t": [b""]})])
        text = spec(self.data).replace("part-*", "text-*").replace('"id" dtype: INT64',
                                                                   '"t" dtype: BYTES')
        batch = self.open(text).next()
        self.assertEqual(batch.strings("t"), [b"ab", b""])
        self.assertEqual(batch.keys()[:2], ["t", "t/byte_splits"])
        self.assertIn("row_ids", batch)
        self.assertNotIn("id", batch)

    def test_errors_are_typed_and_say_where(self):
        batch = self.open().next()
        with self.assertRaisesRegex(KeyError, "absent: the batch has id, row_ids"):
            batch["absent"]
        with self.assertRaisesRegex(ValueError, "sizee") as caught:
            self.open(spec(self.data).replace("size:", "sizee:"))
        self.assertEqual(caught.exception.code, stoker.Code.INVALID_ARGUMENT)
        with self.assertRaises(stoker.NotFound):
            stoker.attach("nowhere", socket=self.server.run / "attach.sock")
        with self.assertRaises(ConnectionError):
            stoker.attach("x", socket=self.folder / "no.sock", timeout=0.2)
        same = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((type(same), str(same)), (stoker.InvalidArgument, str(caught.exception)))

    def test_a_bad_record_is_named_with_file_record_and_offset(self):
        stream = self.open(spec(self.data).replace('"id" dtype', '"absent" dtype'))
        with self.assertRaisesRegex(stoker.InvalidArgument,
                                    'part-00000, record 0, offset 0 .* "absent"') as caught:
            stream.next()
        self.assertEqual(caught.exception.code, 3)

    def test_left_out_rows_are_warned_of_once(self):
        write_records(self.data / "part-00002", [example({"other": [1]}), example({"other": [2]})])
        stream = self.open(spec(self.data, batch=1).replace("source {",
                                                            "source { on_bad_record: SKIP"))
        with self.assertWarnsRegex(stoker.StokerWarning, "bad rows of epoch 0 step 10") as warned:
            rows = [b.real_rows for b in stream]
        self.assertEqual(sum(rows), 20)
        self.assertEqual(len(warned.warnings), 1)

    def test_stats_count_since_the_last_look(self):
        stream = self.open()
        for _ in range(3):
            stream.next()
        stats = stream.stats()
        self.assertEqual((stats.batches, stats.rows, stats.slots), (3, 10, 4))
        self.assertTrue(0 <= stats.wait_share <= 1)
        again = stream.stats()
        self.assertEqual((again.batches, again.rows, again.rows_per_second), (0, 0, 0))

    def test_stats_say_how_many_batches_lie_ready(self):
        stream = self.open(spec(self.data, batch=1, delivery="slots: 3"))
        held = stream.next()
        deadline = time.monotonic() + PATIENCE
        while stream.stats().ready < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(stream.stats().ready, 2)  # the third slot is held
        del held

    def test_stats_go_on_where_the_stream_was_put_back(self):
        stream = self.open()
        stream.next()
        state = stream.state_dict()
        stream.next()
        stream.stats()
        stream.load_state_dict(state)
        stream.next()
        self.assertEqual((stream.stats().batches, ids(stream.next())), (1, [8, 9]))

    def test_a_plain_loop_logs_its_wait_share_every_so_many_steps(self):
        stream = self.open()
        logged = []
        wait_log = stoker.WaitLog(stream, lambda *a: logged.append(a), every=2)
        for step, batch in enumerate(stream):
            stream.stats()  # takes nothing from the log
            wait_log(step)
        self.assertEqual([(tag, step) for tag, _, step in logged],
                         [(tag, step) for step in (1, 3, 5) for tag in
                          ("stoker/wait_share", "stoker/rows_per_second", "stoker/ready")])
        self.assertTrue(all(0 <= v <= 1 for tag, v, _ in logged if tag == "stoker/wait_share"))
        self.assertTrue(all(v > 0 for tag, v, _ in logged if tag == "stoker/rows_per_second"))

    def test_without_a_logger_of_its_own_the_wait_share_goes_to_logging(self):
        stream = self.open()
        wait_log = stoker.WaitLog(stream, every=1)
        stream.next()
        with self.assertLogs("stoker", "INFO") as logs:
            stats = wait_log()
        self.assertEqual(stats.batches, 1)
        self.assertRegex(logs.output[0], r"step 1: stoker/wait_share [0-9.e-]+")


class Memory(StreamCase):
    def test_an_array_is_the_slot_itself_and_may_be_written(self):
        batch = self.open().next()
        one, two = numpy.asarray(batch["id"]), numpy.from_dlpack(batch["id"])
        self.assertEqual(one.dtype, numpy.int64)
        self.assertTrue(numpy.shares_memory(one, two))
        one[0] = 77
        self.assertEqual(two[0], 77)
        copy = numpy.from_dlpack(batch["id"], copy=True)
        self.assertFalse(numpy.shares_memory(one, copy))

    def test_a_shared_slot_is_read_only(self):
        batch = self.open(spec(self.data, delivery="mode: BROADCAST")).next()
        self.assertFalse(numpy.asarray(batch["id"]).flags.writeable)
        self.assertFalse(numpy.from_dlpack(batch["id"]).flags.writeable)
        with self.assertRaises(BufferError):
            batch["id"].__dlpack__()
        self.assertIn("dltensor", repr(batch["id"].__dlpack__(copy=True)))

    def test_views_outlive_batch_and_stream(self):
        stream = self.open()
        view = numpy.from_dlpack(stream.next()["id"])[1:3]
        other = memoryview(stream.next()["id"])
        stream.close()
        del stream
        gc.collect()
        self.assertEqual(view.tolist(), [1, 2])
        self.assertEqual(other.tolist(), [4, 5, 6, 7])

    def test_a_slot_comes_back_with_the_last_view(self):
        stream = self.open(spec(self.data, batch=1, delivery="slots: 2"))
        kept = [numpy.asarray(stream.next()["id"]), stream.next()["id"].__dlpack__()]
        with self.assertRaisesRegex(stoker.ResourceExhausted, "all 2 slots"):
            stream.next()
        kept.pop()
        self.assertEqual(ids(stream.next()), [2])
        self.assertEqual(kept[0].tolist(), [0])

    def test_views_held_over_an_epochs_end_never_change(self):
        stream = self.open(spec(self.data).replace("repeat: 2", ""))
        held = [stream.next()["id"] for _ in range(3)]
        want = [memoryview(t).tolist() for t in held]
        for _ in range(60):  # ten times the ring and more, with the one slot that is left
            stream.next()
        self.assertEqual([memoryview(t).tolist() for t in held], want)
        self.assertEqual(want, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]])

    def test_a_released_batch_gives_nothing_more(self):
        with self.open().next() as batch:
            array = numpy.asarray(batch["id"])
        with self.assertRaisesRegex(stoker.FailedPrecondition, "released"):
            batch["id"]
        self.assertEqual(array.tolist(), [0, 1, 2, 3])

    def test_ten_thousand_batches_in_any_form_leave_nothing_behind(self):
        stream = self.open(spec(self.data, delivery="slots: 12").replace("repeat: 2", ""))
        random_order = random.Random(7)
        kept = []

        def take(count):
            for number, batch in zip(range(count), stream):
                tensor = batch["id"]
                kept.append((ids(batch), random_order.choice(FORMS)(tensor)))
                del tensor, batch
                while len(kept) > random_order.randrange(10):
                    numbers, form = kept.pop(random_order.randrange(len(kept)))
                    if hasattr(form, "tolist"):  # a capsule has not
                        self.assertLessEqual(set(form.tolist()), set(numbers))
                    del form

        take(100)
        kept.clear()
        gc.collect()
        descriptors = len(os.listdir("/proc/self/fd"))
        blocks = sys.getallocatedblocks()
        take(10000)
        self.assertGreaterEqual(stream.stats().batches, 10000)
        kept.clear()
        gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), descriptors)
        self.assertLess(sys.getallocatedblocks() - blocks, 1000)
        held = []
        while len(held) < 12:  # every slot is there again
            held.append(stream.next())
            if held[-1] is None:
                held.pop()
        self.assertEqual(len({numpy.asarray(b["id"]).ctypes.data for b in held}), 12)


class Processes(StreamCase):
    def test_other_threads_run_while_one_waits_and_close_ends_the_wait(self):
        stream = self.open(spec(self.data, delivery="mode: BROADCAST expect: 2"))
        failed = []

        def wait():
            try:
                stream.next()
            except stoker.FailedPrecondition as e:
                failed.append(str(e))

        waiting = threading.Thread(target=wait)
        waiting.start()
        stream.close()
        waiting.join()
        self.assertEqual(len(failed), 1)

    def test_a_wait_ends_at_its_timeout(self):
        stream = self.open(spec(self.data, delivery="mode: BROADCAST expect: 2"))
        with self.assertRaises(TimeoutError):
            stream.next(timeout=0.01)

    def test_ctrl_c_ends_a_wait_and_leaves_the_stream_usable(self):
        text = spec(self.data, delivery="mode: BROADCAST expect: 2")
        stream = self.open(text)
        previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGALRM, previous)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with self.assertRaises(KeyboardInterrupt):
            stream.next()
        second = self.open(text, rank=0)
        self.assertEqual(ids(stream.next()), ids(second.next()))

    def test_a_fork_reads_held_memory_and_must_attach_anew(self):
        stream = self.open()
        batch = stream.next()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                stream.next()
            except stoker.FailedPrecondition:
                status = 0 if ids(batch) == [0, 1, 2, 3] else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(ids(stream.next()), [4, 5, 6, 7])

    def test_forks_beside_a_stream_that_is_read_take_nothing_from_it(self):
        text = spec(self.data, delivery="mode: BROADCAST slots: 4").replace("repeat: 2", "")
        stream = self.open(text)
        taken = []
        stop = threading.Event()

        def read():
            while not stop.is_set():
                batch = stream.next()
                if batch is not None:
                    taken.append((batch.epoch, batch.step))

        def child():
            try:
                stream.next()
            except stoker.FailedPrecondition:
                other = spec(self.data, batch=2).replace('"ids"', f'"of-{os.getpid()}"')
                with stream.parameters.attach(spec=other) as mine:
                    return 0 if [ids(mine.next()) for _ in range(2)] == [[0, 1], [2, 3]] else 2
            return 1

        reader = threading.Thread(target=read)
        reader.start()
        descriptors = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            children = []
            for _ in range(4):
                children.append(os.fork())
                if children[-1] == 0:
                    status = 3
                    try:
                        status = child()
                    finally:
                        os._exit(status)
            self.assertEqual([os.waitstatus_to_exitcode(os.waitpid(c, 0)[1]) for c in children],
                             [0] * 4)
        self.assertEqual(len(os.listdir("/proc/self/fd")), descriptors)
        stop.set()
        reader.join()
        self.assertEqual(taken, [(i // 3, i % 3) for i in range(len(taken))])
        self.assertGreater(len(taken), 3)

    def test_a_process_ends_though_the_daemon_ended_first(self):
        program = ("import os, stoker, sys\n"
                   "s = stoker.open(sys.argv[1], socket=sys.argv[2])\n"
                   "print(sum(b.rows for b in s), flush=True)\n"
                   "sys.stdin.readline()\n")
        with subprocess.Popen([sys.executable, "-c", program, spec(self.data),
                               self.server.run / "attach.sock"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as trainer:
            self.assertEqual(trainer.stdout.readline(), "20\n")
            self.server.stop()
            trainer.stdin.write("go\n")
            trainer.stdin.flush()
            self.assertEqual(trainer.wait(PATIENCE), 0)

    def test_parameters_go_to_a_spawned_child_and_a_stream_does_not(self):
        stream = self.open()
        with self.assertRaisesRegex(TypeError, "parameters"):
            pickle.dumps(stream)
        stream.close()
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        child = context.Process(target=in_child, args=(stream.parameters, queue))
        child.start()
        self.assertEqual(queue.get(), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]])
        child.join()

    def test_rank_comes_from_torchruns_environment(self):
        with unittest.mock.patch.dict(os.environ, RANK="1", WORLD_SIZE="2"):
            stream = self.open(rank="env")
        self.assertEqual((stream.rank, stream.world_size), (1, 2))

    def test_a_stream_kept_in_a_global_does_not_disturb_the_end(self):
        program = ("import stoker, sys, numpy\n"
                   "s = stoker.open(sys.argv[1], socket=sys.argv[2])\n"
                   "b = s.next(); a = numpy.asarray(b['id']); c = b['id'].__dlpack__()\n")
        done = subprocess.run([sys.executable, "-c", program, spec(self.data),
                               self.server.run / "attach.sock"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_views_kept_in_globals_do_not_disturb_the_end(self):
        program = ("import itertools, numpy, random, stoker, sys\n"
                   "s = stoker.open(sys.argv[1], socket=sys.argv[2])\n"
                   "kept = []\n"
                   "for b in itertools.islice(s, 1000):\n"
                   "    t = b['id']\n"
                   "    kept += [numpy.from_dlpack(t)[1:], memoryview(t)[:1], t.__dlpack__(),\n"
                   "             t.__dlpack__(max_version=(1, 0)), numpy.asarray(t)]\n"
                   "    random.shuffle(kept)\n"
                   "    del kept[8:]\n"
                   "cycle = [kept, b]; cycle.append(cycle)\n")
        text = spec(self.data, delivery="slots: 12").replace("repeat: 2", "")
        done = subprocess.run([sys.executable, "-c", program, text,
                               self.server.run / "attach.sock"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_thread_that_waits_does_not_disturb_the_end(self):
        # The interpreter takes its time to end, so that the thread's wait ends within that time.
        program = ("import stoker, sys, threading, time\n"
                   "class Slow:\n"
                   "    def __del__(self, sleep=time.sleep): sleep(0.3)\n"
                   "slow = Slow()\n"
                   "s = stoker.open(sys.argv[1], socket=sys.argv[2])\n"
                   "threading.Thread(target=s.next, daemon=True).start()\n"
                   "time.sleep(0.15)\n"
                   "sys.exit(3)\n")
        text = spec(self.data, delivery="mode: BROADCAST expect: 2")
        done = subprocess.run([sys.executable, "-c", program, text,
                               self.server.run / "attach.sock"], capture_output=True, text=True,
                              timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (3, ""))

    def test_a_stream_may_be_closed_while_the_interpreter_ends_and_a_thread_waits(self):
        program = ("import atexit, sys, threading, time\n"
                   "closing = []\n"
                   "atexit.register(lambda: closing[0].close())  # runs last\n"
                   "import stoker\n"
                   "s = stoker.open(sys.argv[1], socket=sys.argv[2])\n"
                   "closing.append(s)\n"
                   "threading.Thread(target=s.next, daemon=True).start()\n"
                   "time.sleep(0.15)\n")
        text = spec(self.data, delivery="mode: BROADCAST expect: 2")
        done = subprocess.run([sys.executable, "-c", program, text,
                               self.server.run / "attach.sock"], capture_output=True, text=True,
                              timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Launching(Case):
    def setUp(self):
        super().setUp()
        write_ids(self.data, [4])
        cache = unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"))
        cache.start()
        self.addCleanup(cache.stop)

    def test_a_private_daemon_serves_and_ends(self):
        with stoker.launch("--workers", "1") as daemon:
            with stoker.open(spec(self.data), launch=daemon) as stream:
                self.assertEqual(ids(stream.next()), [0, 1, 2, 3])
            folder = daemon.runtime_dir
        self.assertFalse(os.path.exists(folder))

    def test_a_private_daemon_dies_with_a_killed_process(self):
        program = ("import os, stoker, sys\n"
                   "d = stoker.launch('--workers', '1')\n"
                   "print(d._process.pid, flush=True)\n"
                   "os.kill(os.getpid(), 9)\n")
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as trainer:
            keeper = os.pidfd_open(int(trainer.stdout.readline()))
            import select
            select.select([keeper], [], [])  # readable at its end
            os.close(keeper)

    def test_a_daemon_that_cannot_start_says_why(self):
        with self.assertRaisesRegex(stoker.Unavailable, "no-such-flag"):
            stoker.launch("--no-such-flag")

    def test_open_launches_one_daemon_for_the_process(self):
        program = ("import stoker, sys, numpy\n"
                   "for _ in range(2):\n"
                   "    with stoker.open(sys.argv[1], launch=True) as s:\n"
                   "        print(s.parameters.socket, numpy.asarray(s.next()['id']).tolist())\n")
        done = subprocess.run([sys.executable, "-c", program, spec(self.data)],
                              capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        first, second = done.stdout.splitlines()
        self.assertEqual(first, second)
        self.assertIn("[0, 1, 2, 3]", first)


if __name__ == "__main__":
    main()
