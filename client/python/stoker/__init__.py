"""Stoker: batches of sharded TFRecords from a daemon, without a copy.

    import stoker
    with stoker.open("imagenet.textproto", rank=rank, world_size=world) as stream:
        for batch in stream.epoch():
            step(batch["image"], batch["label"])
"""

from ._errors import (Code, DataLoss, DeadlineExceeded, FailedPrecondition, Internal,
                      InvalidArgument, NotFound, OutOfRange, PermissionDenied, ResourceExhausted,
                      StokerError, StokerWarning, Unavailable)
from ._launch import Daemon, launch
from ._native import Tensor
from ._progress import Stats, WaitLog
from ._spec import Spec, from_features
from ._stream import Batch, Parameters, Stream, attach, open

__all__ = [
    "Batch", "Code", "Daemon", "DataLoss", "DeadlineExceeded", "FailedPrecondition", "Internal",
    "InvalidArgument", "NotFound", "OutOfRange", "Parameters", "PermissionDenied",
    "ResourceExhausted", "Spec", "Stats", "StokerError", "StokerWarning", "Stream", "Tensor",
    "Unavailable", "WaitLog", "attach", "from_features", "launch", "open",
]
