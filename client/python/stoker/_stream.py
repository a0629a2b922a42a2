"""Streams and batches."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
import warnings
from collections.abc import Iterator
from typing import Any

from . import _errors, _launch, _native, _progress, _spec

_RANK_VARIABLES = (  # torchrun, Slurm, OpenMPI: rank, world size, ranks on this host
    ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"))
_RANK_TAKEN_SECONDS = 5.0
_STARTS = {"default": 0, "begin": 1, "continue": 2}


def _from_environment() -> tuple[int, int, int]:
    for rank, world, local in _RANK_VARIABLES:
        if rank in os.environ and world in os.environ:
            size = int(os.environ[world])
            return int(os.environ[rank]), size, int(os.environ.get(local, size))
    raise _errors.InvalidArgument('rank="env", but neither torchrun, Slurm nor OpenMPI set one')


@dataclasses.dataclass(frozen=True)
class Parameters:
    """All that an attach needs. Pickles: hand it to spawned children, and attach there."""

    name: str = ""
    spec: str = ""
    rank: int = 0
    world_size: int = 1
    local_world_size: int = 0
    token: str = ""
    start: str = "default"
    join_next_epoch: bool = False
    socket: str = ""
    timeout: float = 600.0
    reconnect_timeout: float = 120.0

    def attach(self, **changes: Any) -> Stream:
        """A new stream of these parameters, with `changes`, such as rank or token."""
        return Stream(dataclasses.replace(self, **changes))


class Batch:
    """Rows of every tensor, in shared memory.

    `batch["image"]` is a Tensor: `numpy.asarray(...)`, `torch.from_dlpack(...)` and their like take
    it without a copy. The slot is given back when the batch and all that was made of it are gone.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.Batch) -> None:
        self._native = native

    def __getitem__(self, name: str) -> _native.Tensor:
        return self._native.find(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._native.has(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._native.names())

    def __len__(self) -> int:
        return len(self._native.names())

    def keys(self) -> list[str]:
        """Names of the tensors, in the spec's order, with those that Stoker adds."""
        return self._native.names()

    def items(self) -> list[tuple[str, _native.Tensor]]:
        """Name and tensor of each."""
        return [(name, self[name]) for name in self.keys()]

    def numpy(self) -> dict[str, Any]:
        """All tensors as NumPy arrays over the slot; read-only where others read it too."""
        import numpy
        return {name: numpy.asarray(tensor) for name, tensor in self.items()}

    def strings(self, name: str) -> list[bytes]:
        """The byte strings of a BYTES tensor, copied, one after the other over all rows."""
        data = bytes(memoryview(self[name]).cast("B"))
        ends = memoryview(self[name + "/byte_splits"]).tolist()
        return [data[a:b] for a, b in zip(ends, ends[1:])]

    @property
    def rows(self) -> int:
        """Rows of dense tensors."""
        return self._native.rows

    @property
    def real_rows(self) -> int:
        """Rows that are neither filler nor masked."""
        return self._native.real_rows

    @property
    def skipped_rows(self) -> int:
        """Rows left out because they were bad."""
        return self._native.skipped_rows

    @property
    def epoch(self) -> int:
        """The epoch, from 0."""
        return self._native.epoch

    @property
    def step(self) -> int:
        """The batch's number in its epoch."""
        return self._native.step

    @property
    def first_row(self) -> int:
        """Global row of the first row."""
        return self._native.first_row

    @property
    def token(self) -> str:
        """The position after this batch: goes into the checkpoint."""
        return self._native.token()

    def release(self) -> None:
        """Lets go of the slot now; tensors and arrays made before keep it."""
        self._native.release()

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        if self._native.released:
            return "<stoker.Batch, released>"
        return f"<stoker.Batch epoch {self.epoch} step {self.step}: {', '.join(self.keys())}>"


class Stream:
    """One rank's batches, in order. Made by `open` or `attach`; use it in a `with` block.

    One thread at a time takes batches. A fork must attach anew; `parameters` pickles.
    """

    def __init__(self, parameters: Parameters, daemon: _launch.Daemon | None = None) -> None:
        p = parameters
        if p.start not in _STARTS:
            raise _errors.InvalidArgument(f"start is {p.start!r}, not one of {list(_STARTS)}")
        self._native = _native.attach(
            socket=p.socket, name=p.name, spec=p.spec, token=p.token, rank=p.rank,
            world_size=p.world_size, local_world_size=p.local_world_size,
            flags=1 if p.join_next_epoch else 0, start=_STARTS[p.start], timeout=p.timeout,
            reconnect_timeout=p.reconnect_timeout)
        self._parameters = p
        self._daemon = daemon
        self._end_is_due = False  # an epoch's last batch was taken, its end not yet
        self._clock = _progress.Clock()
        self._warned: set[str] = set()
        self._reconnects = 0

    @property
    def parameters(self) -> Parameters:
        """How this stream was attached, for another process or another attach."""
        return self._parameters

    def next(self, timeout: float | None = None) -> Batch | None:
        """The next batch, or None at an epoch's end: see `ended` for whether it was the last.

        Waits `timeout` seconds, then raises DeadlineExceeded; None waits for ever. Other Python
        threads run meanwhile, and Ctrl-C leaves the stream as it was.
        """
        native = self._native.next(-1.0 if timeout is None else timeout)
        if native is None:
            self._end_is_due = False
            return None
        self._end_is_due = self._native.epoch > native.epoch
        if native.skipped_rows:
            self._warn("bad rows", f"{native.skipped_rows} bad rows of epoch {native.epoch} step "
                       f"{native.step} were left out or masked; `stoker why` lists such rows")
        if self._native.reconnects > self._reconnects:
            self._reconnects = self._native.reconnects
            self._warn("reconnect", "the daemon went away; the stream goes on where it was, "
                       "without a gap")
        return Batch(native)

    def _warn(self, kind: str, text: str) -> None:
        """Says a kind of thing once for this stream."""
        if kind not in self._warned:
            self._warned.add(kind)
            name = self._native.info()["name"]
            warnings.warn(f"stream {name!r}: {text}", _errors.StokerWarning, stacklevel=3)

    def epoch(self, number: int | None = None) -> Iterator[Batch]:
        """The batches up to the epoch's end: all of it, or what is left after a resume or a break.

        Gives nothing once the last epoch has ended. `number` demands that it is that epoch.
        """
        if self._end_is_due:
            self.next()
        if number is not None and self.position[0] != number:
            raise _errors.FailedPrecondition(
                f"the stream is in epoch {self.position[0]}, not {number}")
        while (batch := self.next()) is not None:
            yield batch
            # The consumer's own name keeps the batch as long as it wants it.
            del batch

    def __iter__(self) -> Iterator[Batch]:
        """All batches of all epochs."""
        while not self.ended:
            yield from self.epoch()

    def __len__(self) -> int:
        """Steps of an epoch."""
        steps = self._native.info()["steps_per_epoch"]
        if steps == 0:
            raise TypeError("no length yet: the files are still being indexed")
        return steps

    def __getattr__(self, name: str) -> Any:
        if name in _INFO:
            return self._native.info()[name]
        raise AttributeError(f"a Stream has no {name}")

    @property
    def position(self) -> tuple[int, int]:
        """Epoch and global row after the last batch taken."""
        info = self._native.info()
        return info["epoch"], info["row"]

    @property
    def token(self) -> str:
        """The position after the last batch taken, as text that `token=` takes."""
        return self._native.token()

    def state_dict(self) -> dict[str, str]:
        """The position, as a checkpoint keeps it."""
        return {"token": self.token}

    def load_state_dict(self, state: dict[str, str]) -> None:
        """Goes on where `state` was taken. Batches that are held stay valid."""
        parameters = dataclasses.replace(self._parameters, token=state["token"], start="default")
        warned = self._warned
        self._native.close()
        deadline = time.monotonic() + _RANK_TAKEN_SECONDS
        while True:
            try:
                self.__init__(parameters, self._daemon)
                self._warned = warned
                return
            except _errors.FailedPrecondition as e:
                # The daemon may not have seen yet that our own attachment ended.
                if f"pid {os.getpid()}" not in str(e) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def stats(self) -> _progress.Stats:
        """Counts since the last call, or since the attach."""
        return self._clock.read(self._native.info())

    def close(self) -> None:
        """Ends the attachment. Batches that are held stay valid."""
        self._native.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Stream belongs to its process; pass stream.parameters and attach there")

    def __repr__(self) -> str:
        if self._native.closed:
            return "<stoker.Stream, closed>"
        info = self._native.info()
        return f"<stoker.Stream {info['name']!r} rank {info['rank']} of {info['world_size']}>"


_INFO = frozenset(("name", "rank", "world_size", "slots", "exclusive", "ended", "steps_per_epoch",
                   "rows_per_epoch", "repeat", "seed", "plan_id", "reconnects"))


def _stream(parameters: Parameters, rank: int | str, launch: bool | _launch.Daemon) -> Stream:
    if rank == "env":
        rank, world_size, local = _from_environment()
        parameters = dataclasses.replace(parameters, world_size=world_size, local_world_size=local)
    elif isinstance(rank, str):
        raise _errors.InvalidArgument(f'rank is {rank!r}, neither a number nor "env"')
    daemon = _launch.shared() if launch is True else (launch or None)
    if daemon is not None:
        parameters = dataclasses.replace(parameters, socket=daemon.socket)
    return Stream(dataclasses.replace(parameters, rank=rank), daemon)


def _spec_text(spec: str | os.PathLike | _spec.Spec) -> str:
    if isinstance(spec, _spec.Spec):
        return _spec.absolute(spec.text(), os.getcwd())
    if isinstance(spec, str) and ("{" in spec or "\n" in spec):
        return _spec.absolute(spec, os.getcwd())
    path = pathlib.Path(spec)
    return _spec.absolute(path.read_text(encoding="utf-8"), path.parent)


def open(spec: str | os.PathLike | _spec.Spec, *, rank: int | str = 0, world_size: int = 1,
         local_world_size: int = 0, token: str = "", start: str = "default",
         join_next_epoch: bool = False, socket: str | os.PathLike = "",
         launch: bool | _launch.Daemon = False, timeout: float = 600.0,
         reconnect_timeout: float = 120.0) -> Stream:
    """Opens the stream of a spec and attaches to it.

    spec: a path, the text itself, or a Spec. Relative files count from the spec's folder, or from
      the working directory where there is none.
    rank, world_size: as in torch.distributed; rank="env" reads torchrun's, Slurm's or OpenMPI's.
    token: where to go on, from `batch.token` or `stream.token`.
    start: without a token: "default", "begin" or "continue".
    launch: True starts a private daemon for this process; or a Daemon of `launch()`.
    timeout: of the attach; indexing a new dataset takes as long as reading it. Seconds.
    reconnect_timeout: how long to wait for a daemon that went away; 0 raises Unavailable at once.
    """
    return _stream(Parameters(
        spec=_spec_text(spec), world_size=world_size, local_world_size=local_world_size,
        token=token, start=start, join_next_epoch=join_next_epoch, socket=os.fspath(socket),
        timeout=timeout, reconnect_timeout=reconnect_timeout), rank, launch)


def attach(name: str, *, rank: int | str = 0, world_size: int = 1, local_world_size: int = 0,
           token: str = "", start: str = "default", join_next_epoch: bool = False,
           socket: str | os.PathLike = "", launch: bool | _launch.Daemon = False,
           timeout: float = 600.0, reconnect_timeout: float = 120.0) -> Stream:
    """Attaches to a stream that is open, by its name. The rest is as in `open`."""
    return _stream(Parameters(
        name=name, world_size=world_size, local_world_size=local_world_size, token=token,
        start=start, join_next_epoch=join_next_epoch, socket=os.fspath(socket), timeout=timeout,
        reconnect_timeout=reconnect_timeout), rank, launch)
