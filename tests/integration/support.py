"""What the integration tests share: a daemon of our own, TFRecords written from the specification,
and the command line as a user calls it.

Everything here is written a second time, from the formats' pages and not from the code under test.
"""

import contextlib
import gzip
import hashlib
import json
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import zlib

# What a sanitizer asks of an interpreter that loads the client is not for the programs it starts,
# other such interpreters aside: those are started with CLIENT_ENVIRONMENT.
CLIENT_ENVIRONMENT = dict(os.environ)
if os.environ.pop("LD_PRELOAD", None):
    os.environ.pop("ASAN_OPTIONS", None)

BIN = pathlib.Path(os.environ["STOKER_BIN"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("STOKER_TEST_DATA", SOURCE.parent / "shared" / "data"))
# A promise of seconds is given ten times its time here, to catch a hang and nothing else.
PATIENCE = 120

_TABLE = []
for _i in range(256):
    _crc = _i
    for _ in range(8):
        _crc = (_crc >> 1) ^ (0x82F63B78 if _crc & 1 else 0)
    _TABLE.append(_crc)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(crc):
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(payload):
    length = struct.pack("<Q", len(payload))
    return (length + struct.pack("<I", masked(crc32c(length))) + payload +
            struct.pack("<I", masked(crc32c(payload))))


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(value):
    """ints, floats or bytes, in a list."""
    if value and isinstance(value[0], float):
        return field(2, field(1, struct.pack(f"<{len(value)}f", *value)))
    if value and isinstance(value[0], bytes):
        return field(1, b"".join(field(1, v) for v in value))
    return field(3, field(1, b"".join(varint(v) for v in value)))


def example(features):
    entries = b"".join(
        field(1, field(1, key.encode()) + field(2, feature(value)))
        for key, value in features.items())
    return field(1, entries)


def write_records(path, payloads, compression=None):
    data = b"".join(frame(p) for p in payloads)
    if compression == "gzip":
        data = gzip.compress(data)
    elif compression == "zlib":
        data = zlib.compress(data)
    pathlib.Path(path).write_bytes(data)
    return path


def write_ids(folder, sizes, compression=None, extra=lambda i: {}):
    """Shards of Examples with an `id` that counts on across them."""
    number = 0
    for shard, size in enumerate(sizes):
        rows = []
        for _ in range(size):
            rows.append(example({"id": [number], **extra(number)}))
            number += 1
        write_records(folder / f"part-{shard:05d}", rows, compression)
    return number


class Daemon(contextlib.AbstractContextManager):
    """stokerd on a folder of its own."""

    def __init__(self, folder, workers=None, environment=None, arguments=(), user=None):
        self.folder = pathlib.Path(folder)
        self.run = self.folder / "run"
        self.log = self.folder / "stokerd.log"
        self.workers = workers
        self.environment = {**os.environ, **(environment or {})}
        self.arguments = list(arguments)
        self.process = None
        self.user = user  # a number: the daemon runs as that user

    def __enter__(self):
        self.start()
        return self

    def command(self):
        command = [BIN / "stokerd", "--runtime-dir", self.run, "--cache-dir", self.folder / "cache",
                   "--state-dir", self.folder / "state", *self.arguments]
        if self.workers:
            command += ["--workers", str(self.workers)]
        return [str(c) for c in command]

    def start(self):
        log = open(self.log, "ab")
        began = log.tell()
        self.process = subprocess.Popen(self.command(), stdout=log, stderr=log,
                                        env=self.environment, user=self.user)
        log.close()
        deadline = time.monotonic() + PATIENCE
        while b"stokerd ready" not in self.log.read_bytes()[began:]:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("stokerd did not start:\n" + self.log.read_text())
            time.sleep(0.02)

    def stop(self):
        """SIGTERM; returns exit status and seconds."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        return status, time.monotonic() - began

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            status, _ = self.stop()
            if status != 0:
                raise AssertionError(f"stokerd ended with {status}:\n" + self.log.read_text())

    def stoker(self, *arguments, check=True, timeout=PATIENCE):
        return stoker("--runtime-dir", self.run, *arguments, check=check, timeout=timeout)

    def dump(self, spec, *arguments):
        out = self.stoker("read", spec, "--dump", *arguments).stdout
        return [json.loads(line) for line in out.splitlines()]

    def digests(self, spec, *arguments):
        out = self.stoker("read", spec, "--digest", *arguments).stdout
        return [json.loads(line) for line in out.splitlines()]

    def explain(self, spec):
        return json.loads(self.stoker("explain", spec, "--json").stdout)

    def status(self, name):
        return json.loads(self.stoker("--json", "status", name).stdout)["stream"]

    def spawn(self, *arguments, **options):
        return subprocess.Popen(
            [str(BIN / "stoker"), "--runtime-dir", str(self.run), *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def stoker(*arguments, check=True, timeout=PATIENCE):
    done = subprocess.run([str(BIN / "stoker"), *map(str, arguments)], capture_output=True,
                          text=True, timeout=timeout)
    if check and done.returncode != 0:
        raise AssertionError(f"stoker {' '.join(map(str, arguments))}: {done.stderr}")
    return done


class Case(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="stoker-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.data = self.folder / "data"
        self.data.mkdir()

    def daemon(self, **options):
        return Daemon(self.folder, **options)

    def spec(self, text, name="spec"):
        path = self.data / f"{name}.textproto"
        path.write_text(text)
        return path

    def refused(self, done, *words):
        self.assertNotEqual(done.returncode, 0, done.stdout)
        for word in words:
            self.assertIn(str(word), done.stderr)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def main():
    unittest.main(verbosity=2)
