"""Batches as JAX arrays.

An array over a slot holds it: a slot never comes back, and so never changes, while an array, or a
transfer that JAX still has to make, needs it. Keep fewer batches alive than the stream has slots,
or say `copy=True`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy

from ._stream import Batch, Stream


def arrays(batch: Batch, device: Any = None, *, copy: bool = False) -> dict[str, jax.Array]:
    """All tensors of a batch on `device` (a Device or Sharding; None: JAX's default).

    On the CPU without a copy, save where JAX changes the type: int64 becomes int32 unless
    jax_enable_x64 is set, as everywhere in JAX. `copy=True` copies before JAX sees the slot, which
    is then free at once.
    """
    out = {}
    for name, tensor in batch.items():
        if tensor.dtype == "bfloat16":
            # NumPy has no bfloat16 of its own; JAX's import has, and holds the slot too.
            array = jax.dlpack.from_dlpack(tensor)
            if copy:
                array = array.copy().block_until_ready()
            out[name] = array if device is None else jax.device_put(array, device)
            continue
        view = numpy.asarray(tensor)
        out[name] = jax.device_put(view.copy() if copy else view, device)
    return out


def epoch(stream: Stream, device: Any = None, *, copy: bool = False
          ) -> Iterator[dict[str, jax.Array]]:
    """The arrays of each batch up to the epoch's end."""
    for batch in stream.epoch():
        out = arrays(batch, device, copy=copy)
        del batch
        yield out
        del out
