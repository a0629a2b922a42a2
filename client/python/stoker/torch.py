"""Batches as torch tensors.

A trainer may write what it is given: in an exclusive lane the slot is its own, in a shared one it
gets one copy. `writable=False` hands out the shared slot itself, for a trainer that only reads or uploads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.utils.data
import torch.utils.dlpack

from ._native import Tensor
from ._stream import Batch, Stream


def tensor(source: Tensor, *, writable: bool = True) -> torch.Tensor:
    """One tensor: the slot itself, or a copy where the slot may not be written."""
    copy = writable and not source.writable
    boolean = source.dtype == "bool"
    if boolean:  # not in every torch's DLPack
        import numpy
        array = numpy.asarray(source).view(numpy.uint8)
        if copy or not source.writable:  # torch has no read-only tensors
            array = array.copy()
        return torch.from_numpy(array).view(torch.bool)
    capsule = source.__dlpack__(copy=True) if copy else source.lend()
    return torch.utils.dlpack.from_dlpack(capsule)


def tensors(batch: Batch, *, writable: bool = True) -> dict[str, torch.Tensor]:
    """All tensors of a batch by name."""
    return {name: tensor(source, writable=writable) for name, source in batch.items()}


class Loader(torch.utils.data.IterableDataset):
    """A stream in a DataLoader's place: iterates dicts of tensors, one epoch at a time.

    Needs no workers, sampler or collate function. In DDP each rank opens the stream with its own
    rank and world size. `state_dict` and `load_state_dict` are those of a StatefulDataLoader: the
    position after the last batch that the loop was given.
    """

    def __init__(self, stream: Stream, *, writable: bool = True) -> None:
        self._stream = stream
        self._writable = writable

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        for batch in self._stream.epoch():
            out = tensors(batch, writable=self._writable)
            del batch
            yield out
            del out

    def __len__(self) -> int:
        return len(self._stream)

    def state_dict(self) -> dict[str, Any]:
        """The position."""
        return self._stream.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on there."""
        self._stream.load_state_dict(state)
