"""How the trainer fares: counts over an interval, and a hook that logs them from any loop."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._stream import Stream


@dataclasses.dataclass(frozen=True)
class Stats:
    """How the trainer fares. `wait_share` near 1: it starves; near 0: it is the one waited for."""

    batches: int
    rows: int  # real ones: neither filler nor masked
    waited_seconds: float
    wait_share: float
    batches_per_second: float
    rows_per_second: float
    ready: int  # batches that lie ready now
    slots: int  # batches that can lie ready or be held at once
    reconnects: int


class Clock:
    """Turns the client's running counts into those of an interval."""

    def __init__(self) -> None:
        self._last = (time.monotonic(), 0, 0, 0.0)

    def read(self, info: dict[str, Any]) -> Stats:
        """Counts since the last call, or since this clock was made."""
        now = (time.monotonic(), info["batches"], info["rows"], info["waited_ns"] / 1e9)
        if now[1] < self._last[1]:  # the stream was put back: its counts began anew
            self._last = (self._last[0], 0, 0, 0.0)
        seconds, batches, rows, waited = (new - old for new, old in zip(now, self._last))
        self._last = now
        seconds = max(seconds, 1e-9)
        return Stats(batches=batches, rows=rows, waited_seconds=waited,
                     wait_share=min(1.0, waited / seconds),
                     batches_per_second=batches / seconds, rows_per_second=rows / seconds,
                     ready=min(info["ready"], info["slots"]), slots=info["slots"],
                     reconnects=info["reconnects"])


def _to_logging(tag: str, value: float, step: int) -> None:
    logging.getLogger("stoker").info("step %d: %s %.4g", step, tag, value)


class WaitLog:
    """Answers "is my accelerator starved?" from a plain loop.

        wait_log = stoker.WaitLog(stream, writer.add_scalar)
        for step, batch in enumerate(stream.epoch()):
            train(batch)
            wait_log(step)

    Every `every` steps it calls `log(tag, value, step)`, TensorBoard's way, for `stoker/wait_share`,
    `stoker/rows_per_second` and `stoker/ready`. Without `log` they go to logging, to the logger
    "stoker". It keeps a clock of its own: `stream.stats()` elsewhere takes nothing away from it.
    """

    def __init__(self, stream: Stream, log: Callable[[str, float, int], Any] = _to_logging,
                 every: int = 100) -> None:
        self._stream = stream
        self._log = log
        self._every = every
        self._calls = 0
        self._clock = Clock()
        self._clock.read(stream._native.info())

    def __call__(self, step: int | None = None) -> Stats | None:
        """To be called once a step; answers what it logged, if it did. `step` defaults to a count."""
        self._calls += 1
        if self._calls % self._every:
            return None
        stats = self._clock.read(self._stream._native.info())
        step = self._calls if step is None else step
        self._log("stoker/wait_share", stats.wait_share, step)
        self._log("stoker/rows_per_second", stats.rows_per_second, step)
        self._log("stoker/ready", float(stats.ready), step)
        return stats
