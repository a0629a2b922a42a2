"""Streams for Keras 3: what `model.fit`, `evaluate` and `predict` take as `x`.

    model.fit(stoker.keras.Data(stream, "image", "label"), epochs=90)

Works with the TensorFlow, JAX and torch backends; the number of steps is known where the stream
knows it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from ._progress import Clock
from ._stream import Batch, Stream

Names = str | Sequence[str] | None


class Data(DataAdapter):
    """Inputs, targets and weights of each batch, by the names of their tensors.

    One name gives an array, several a dict of arrays. Keras looks at a first batch before it
    trains; the stream is then put back, so that no row is missed. For the same reason an epoch that
    was left in its middle is begun again. (With the TensorFlow backend, which reads ahead, a first
    epoch of one or two batches may be used up by the look.)
    """

    def __init__(self, stream: Stream, x: Names, y: Names = None,
                 sample_weight: Names = None) -> None:
        self._stream = stream
        self._parts = [part for part in (x, y, sample_weight) if part is not None]
        self._begun: dict[str, str] | None = None  # where an epoch that has not ended began
        self._told = False    # Keras said that an epoch ended, after the last batch was given
        # TensorFlow may leave an iteration and let its thread run on: only the newest one reads.
        self._lock = threading.Lock()
        self._newest = 0

    def _pick(self, batch: Batch, copy: bool) -> tuple:
        def array(name: str) -> Any:
            return numpy.array(batch[name]) if copy else numpy.asarray(batch[name])

        return tuple(array(part) if isinstance(part, str) else {n: array(n) for n in part}
                     for part in self._parts)

    def _begin(self) -> int:
        with self._lock:
            self._newest += 1
            self._told = False
            if self._begun is not None:
                self._stream.load_state_dict(self._begun)
            self._begun = self._stream.state_dict()
            return self._newest

    def _next(self, mine: int, copy: bool, ends_alone: bool) -> tuple | None:
        with self._lock:
            batch = self._stream.next() if mine == self._newest else None
            if mine == self._newest and (batch is None or (ends_alone and self._whole())):
                self._begun = None
        return None if batch is None else self._pick(batch, copy)

    def _epoch(self, copy: bool, ends_alone: bool = False) -> Iterator[tuple]:
        if self._whole() and self._begun is None:
            self._stream.next()  # the end itself, which nobody asked for
        mine = self._begin()
        while (arrays := self._next(mine, copy, ends_alone)) is not None:
            yield arrays
            del arrays

    def _whole(self) -> bool:
        return self._stream._end_is_due

    def _settle(self) -> None:
        """Keras asks for the next iterator before it says that an epoch ended, and after a look the
        other way round."""
        if self._whole() and not self._told:
            self._begun = None

    def on_epoch_end(self) -> None:
        """Called by Keras after an epoch and after its first look."""
        self._told = True

    def get_numpy_iterator(self) -> Iterator[tuple]:
        """An epoch of NumPy arrays over the slots."""
        self._settle()
        return self._epoch(copy=False)

    def get_jax_iterator(self) -> Iterator[tuple]:
        """The same: JAX holds what it still has to read."""
        return self.get_numpy_iterator()

    def get_tf_dataset(self) -> Any:
        """A tf.data.Dataset of the same structure; each iteration is an epoch."""
        import tensorflow as tf

        from . import tf as adapter
        look = self._epoch(copy=True)
        first = next(look)
        look.close()
        signature = keras.tree.map_structure(
            lambda a: tf.TensorSpec([None] * a.ndim if a.ndim < 2 else [None, *a.shape[1:]],
                                    a.dtype), first)
        return adapter._from(lambda: self._epoch(copy=True, ends_alone=True), signature, None)

    def get_torch_dataloader(self) -> Any:
        """A DataLoader in this process, of copies: the trainer may keep inputs of steps gone by."""
        import torch.utils.data

        data = self

        class Epochs(torch.utils.data.IterableDataset):
            def __iter__(self) -> Iterator[tuple]:
                for arrays in data._epoch(copy=True):
                    yield keras.tree.map_structure(torch.from_numpy, arrays)

        self._settle()
        return torch.utils.data.DataLoader(Epochs(), batch_size=None)

    @property
    def num_batches(self) -> int | None:
        """Steps of an epoch, or None while files are being indexed."""
        return self._stream.steps_per_epoch or None

    @property
    def batch_size(self) -> int | None:
        """Unknown: the last batch may be smaller."""
        return None

    @property
    def has_partial_batch(self) -> bool | None:
        """Unknown."""
        return None

    @property
    def partial_batch_size(self) -> int | None:
        """Unknown."""
        return None


class LogWait(keras.callbacks.Callback):
    """Adds to each epoch's logs `stoker/wait_share`, the share of its time that the trainer waited for
    data, and `stoker/rows_per_second`. With what Keras reads ahead, rows count as they are read."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream = stream
        self._clock = Clock()

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._clock.read(self._stream._native.info())

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if logs is not None:
            stats = self._clock.read(self._stream._native.info())
            logs["stoker/wait_share"] = stats.wait_share
            logs["stoker/rows_per_second"] = stats.rows_per_second
