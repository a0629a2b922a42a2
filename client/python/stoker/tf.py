"""Streams as tf.data datasets, a batch an element.

One call into Python a batch, none a row. TensorFlow gets copies, so that what its own pipeline
keeps or prefetches never holds a slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy
import tensorflow as tf

from ._stream import Batch, Stream


def _tensors(batch: Batch, names: Sequence[str]) -> dict[str, Any]:
    out = {}
    for name in names:
        source = batch[name]
        if source.dtype == "bfloat16":
            # Through its bits: NumPy has no such type.
            out[name] = tf.experimental.dlpack.from_dlpack(source.__dlpack__(copy=True)).numpy()
        else:
            out[name] = numpy.array(source)
    return out


def _signature(batch: Batch, names: Sequence[str]) -> dict[str, tf.TensorSpec]:
    """What holds for every batch: types and ranks; sides but the first where they cannot vary."""
    out = {}
    for name in names:
        source = batch[name]
        varies = name + "/lengths" in batch
        sides = [None] + [None if varies else side for side in source.shape[1:]]
        out[name] = tf.TensorSpec(sides, tf.as_dtype(source.dtype))
    return out


def dataset(stream: Stream, names: Sequence[str] | None = None) -> tf.data.Dataset:
    """A dataset whose every iteration is the next epoch, or the rest of one that was begun.

    Elements are dicts of the tensors `names` (default: all), with the first side unknown. Types and
    shapes come from the first batch, which is waited for here and given first.
    """
    first = stream.next()
    if first is None:
        raise ValueError("the stream stands at an epoch's end; read its next batch first")
    names = list(names or first.keys())
    signature = _signature(first, names)
    waiting = [first]
    del first

    def batches() -> Iterator[dict[str, Any]]:
        if waiting:
            yield _tensors(waiting.pop(), names)
        for batch in stream.epoch():
            yield _tensors(batch, names)

    return _from(batches, signature, _length(stream))


def _length(stream: Stream) -> int | None:
    steps = stream.steps_per_epoch
    return steps or None


def _from(batches: Callable[[], Iterable[Any]], signature: Any,
          length: int | None) -> tf.data.Dataset:
    made = tf.data.Dataset.from_generator(batches, output_signature=signature)
    return made if length is None else made.apply(tf.data.experimental.assert_cardinality(length))
