"""What goes wrong, as exceptions that also are the built-in ones a Python program expects."""

import enum


class Code(enum.IntEnum):
    """gRPC's canonical numbers, the same from the C ABI to the control service."""

    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    OUT_OF_RANGE = 11
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15


class StokerError(Exception):
    """Any failure of Stoker. `code` says which kind; the text says where and why."""

    code = Code.INTERNAL

    def __reduce__(self):
        return make, (int(self.code), str(self))


class StokerWarning(UserWarning):
    """What a user should know and need not stop for. Said once a stream."""


class InvalidArgument(StokerError, ValueError):
    """The call, the spec or the data must be fixed."""

    code = Code.INVALID_ARGUMENT


class DeadlineExceeded(StokerError, TimeoutError):
    """Nothing yet: call again."""

    code = Code.DEADLINE_EXCEEDED


class NotFound(StokerError):
    """No stream of that name."""

    code = Code.NOT_FOUND


class PermissionDenied(StokerError, PermissionError):
    """The daemon does not serve this user."""

    code = Code.PERMISSION_DENIED


class ResourceExhausted(StokerError):
    """A limit, which the text names: often all slots are held by batches kept alive."""

    code = Code.RESOURCE_EXHAUSTED


class FailedPrecondition(StokerError, RuntimeError):
    """Wrong use, such as after fork, after close, or a rank that is taken."""

    code = Code.FAILED_PRECONDITION


class OutOfRange(StokerError):
    """Beyond the end."""

    code = Code.OUT_OF_RANGE


class Internal(StokerError):
    """A bug of Stoker."""

    code = Code.INTERNAL


class Unavailable(StokerError, ConnectionError):
    """No daemon, or it is gone: attach again with the stream's token."""

    code = Code.UNAVAILABLE


class DataLoss(StokerError):
    """Bytes are damaged; the text says where."""

    code = Code.DATA_LOSS


_BY_CODE = {c.code: c for c in (
    InvalidArgument, DeadlineExceeded, NotFound, PermissionDenied, ResourceExhausted,
    FailedPrecondition, OutOfRange, Internal, Unavailable, DataLoss)}


def make(code: int, text: str) -> StokerError:
    """The exception of a code, with its text."""
    return _BY_CODE.get(code, Internal)(text)
