"""A trainer in Python's own process: libstoker.so through ctypes, as its C header says."""

import ctypes
import os
import pathlib

BIN = pathlib.Path(os.environ["STOKER_BIN"])


class Options(ctypes.Structure):
    _fields_ = [("struct_bytes", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("world_size", ctypes.c_uint32), ("local_world_size", ctypes.c_uint32),
                ("flags", ctypes.c_uint32), ("start", ctypes.c_int),
                ("socket_path", ctypes.c_char_p), ("stream_name", ctypes.c_char_p),
                ("spec_text", ctypes.c_char_p), ("token", ctypes.c_char_p),
                ("timeout_ns", ctypes.c_int64), ("reconnect_timeout_ns", ctypes.c_int64)]


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("name_bytes", ctypes.c_uint64),
                ("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("byte_size", ctypes.c_uint64), ("dtype_code", ctypes.c_uint8),
                ("dtype_bits", ctypes.c_uint8), ("ndim", ctypes.c_uint8),
                ("writable", ctypes.c_uint8), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("role", ctypes.c_int), ("parent", ctypes.c_uint32)]


class Info(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint32) for n in
                ("struct_bytes", "rank", "world_size", "slots", "exclusive", "ended")] + [
                (n, ctypes.c_uint64) for n in
                ("steps_per_epoch", "rows_per_epoch", "repeat", "seed", "plan_id", "epoch", "row",
                 "waited_ns", "batches", "reconnects")] + [("name", ctypes.c_char_p)]


OUT_OF_RANGE = 11

lib = ctypes.CDLL(str(BIN.parent / "lib" / "libstoker.so"))
lib.stoker_last_error.restype = ctypes.c_char_p
lib.stoker_next.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p)]
lib.stoker_batch_find.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(Tensor)]
lib.stoker_batch_token.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
lib.stoker_batch_release.argtypes = [ctypes.c_void_p]
lib.stoker_stream_close.argtypes = [ctypes.c_void_p]
lib.stoker_stream_get_info.argtypes = [ctypes.c_void_p, ctypes.POINTER(Info)]


def check(code):
    if code != 0:
        raise OSError(code, lib.stoker_last_error().decode())


class Batch:
    def __init__(self, handle):
        self.handle = handle

    def ids(self):
        """The int64 values of tensor `id`."""
        tensor = Tensor()
        check(lib.stoker_batch_find(self.handle, b"id", ctypes.byref(tensor)))
        return list((ctypes.c_int64 * (tensor.byte_size // 8)).from_address(tensor.data or 0))

    def token(self):
        """The position behind this batch."""
        text = ctypes.create_string_buffer(256)
        check(lib.stoker_batch_token(self.handle, text, len(text)))
        return text.value.decode()

    def release(self):
        lib.stoker_batch_release(self.handle)
        self.handle = None


class Trainer:
    """`stream` is a name, or a path to a spec whose files are named relative to it."""

    def __init__(self, run, stream, rank=0, world_size=1, reconnect=0, check=True,
                 start=0, flags=0, token=None):
        options = Options(struct_bytes=ctypes.sizeof(Options), rank=rank, world_size=world_size,
                          socket_path=str(run / "attach.sock").encode(),
                          start=start, flags=flags, token=token,
                          timeout_ns=60 * 10**9, reconnect_timeout_ns=reconnect)
        if isinstance(stream, pathlib.Path):
            text = stream.read_text().replace('files: "', f'files: "{stream.parent}/')
            options.spec_text = text.encode()
        else:
            options.stream_name = stream.encode()
        self.stream = ctypes.c_void_p()
        code = lib.stoker_attach(ctypes.byref(options), ctypes.byref(self.stream))
        if code != 0:
            self.stream = None
            if check:
                raise OSError(code, lib.stoker_last_error().decode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        lib.stoker_stream_close(self.stream)

    def next(self, timeout=60):
        """A batch, or None at an epoch's end."""
        batch = ctypes.c_void_p()
        code = lib.stoker_next(self.stream, int(timeout * 1e9), ctypes.byref(batch))
        if code == OUT_OF_RANGE:
            return None
        check(code)
        return Batch(batch)

    def reconnects(self):
        info = Info(struct_bytes=ctypes.sizeof(Info))
        check(lib.stoker_stream_get_info(self.stream, ctypes.byref(info)))
        return info.reconnects

    def ended(self):
        info = Info(struct_bytes=ctypes.sizeof(Info))
        check(lib.stoker_stream_get_info(self.stream, ctypes.byref(info)))
        return info.ended == 1

    def __iter__(self):
        while True:
            batch = self.next()
            if batch is not None:
                yield batch
            elif self.ended():
                return
