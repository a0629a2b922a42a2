"""A private daemon that lives as long as the process that asked for it."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

from . import _errors

# Waits for the daemon's end or for ours: the pipe on its input closes with this process, however
# that ends.
_KEEPER = """
exec 3<&0
"$@" 3<&- </dev/null & daemon=$!
{ read -r _; kill -TERM "$daemon"; } <&3 2>/dev/null & watch=$!
exec 3<&-
wait "$daemon"; status=$?
kill "$watch" 2>/dev/null
exit "$status"
"""


def find_daemon() -> str:
    """$STOKERD, or `stokerd` on the path."""
    named = os.environ.get("STOKERD")
    found = named or shutil.which("stokerd")
    if not found:
        raise _errors.NotFound("no stokerd on the path; install it or set STOKERD to its place")
    return found


class Daemon:
    """A private `stokerd`, with sockets and state of its own. Indexes go to the user's cache.

    It ends with `close()`, with the `with` block, or with this process, whichever comes first.
    """

    def __init__(self, *arguments: str, executable: str | None = None,
                 timeout: float = 60.0) -> None:
        """Starts it and waits until it serves. `arguments` are stokerd's own flags."""
        self._owner = os.getpid()
        self._folder = tempfile.TemporaryDirectory(prefix="stoker-", ignore_cleanup_errors=True)
        self.runtime_dir = os.path.join(self._folder.name, "run")
        self.log = os.path.join(self._folder.name, "stokerd.log")
        command = [executable or find_daemon(), "--runtime-dir", self.runtime_dir,
                   "--state-dir", os.path.join(self._folder.name, "state"), *arguments]
        ready_path = os.path.join(self._folder.name, "ready")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, open(self.log, "wb") as log:
            ready.bind(ready_path)
            # A session of its own: Ctrl-C is for the trainer.
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _KEEPER, "stoker-keeper", *command], stdin=subprocess.PIPE,
                stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "NOTIFY_SOCKET": ready_path})
            try:
                self._await(ready, timeout)
            except BaseException:
                self.close()
                raise
        atexit.register(self.close)

    def _await(self, ready: socket.socket, timeout: float) -> None:
        ready.settimeout(0.05)
        deadline = time.monotonic() + timeout
        while True:
            try:
                if b"READY=1" in ready.recv(4096):
                    return
            except TimeoutError:
                pass
            if self._process.poll() is not None:
                raise _errors.Unavailable("stokerd did not start:\n" + self.read_log())
            if time.monotonic() > deadline:
                raise _errors.DeadlineExceeded(f"stokerd was not ready within {timeout} s:\n"
                                               + self.read_log())

    def read_log(self) -> str:
        """What the daemon has said."""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    @property
    def socket(self) -> str:
        """The attach socket: what `socket=` of open and attach takes."""
        return os.path.join(self.runtime_dir, "attach.sock")

    def close(self) -> None:
        """Stops the daemon; batches that are held stay readable. In a fork it does nothing."""
        if os.getpid() != self._owner or self._process.stdin.closed:
            return
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()
        atexit.unregister(self.close)

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def launch(*arguments: str, executable: str | None = None, timeout: float = 60.0) -> Daemon:
    """Starts a private daemon tied to this process; see Daemon."""
    return Daemon(*arguments, executable=executable, timeout=timeout)


_lock = threading.Lock()
_shared: Daemon | None = None


def shared() -> Daemon:
    """The process's one daemon behind `launch=True`, started at first use."""
    global _shared
    with _lock:
        gone = _shared is None or _shared._owner != os.getpid() or _shared._process.stdin.closed
        if gone or _shared._process.poll() is not None:
            _shared = Daemon()
        return _shared
