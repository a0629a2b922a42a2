"""Specs: a builder over the fields of the stream spec, and what relative paths in one mean.

The schema is the daemon's: names and values pass through here unjudged, and the daemon's own
message says which field is wrong.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

# The only texts of the schema; any other word is the name of an enum's value.
_TEXT_FIELDS = {"name", "feature", "files"}


def _quoted(value: str | bytes) -> str:
    data = value.encode() if isinstance(value, str) else bytes(value)
    plain = (chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}" for b in data)
    return '"' + "".join(plain) + '"'


def _scalar(field: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bytes) or (isinstance(value, str) and field in _TEXT_FIELDS):
        return _quoted(value)
    if isinstance(value, str):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            raise ValueError(f"{field}: {value!r} is not the name of a value")
        return value
    return repr(float(value)) if isinstance(value, float) else str(int(value))


def _text(fields: Mapping[str, Any]) -> str:
    out = []
    for field, value in fields.items():
        many = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
        for one in value if many else [value]:
            if one is None:
                continue
            if isinstance(one, Mapping):
                out.append(f"{field} {{ {_text(one)} }}")
            else:
                out.append(f"{field}: {_scalar(field, one)}")
    return " ".join(out)


class Spec:
    """A stream spec, built field by field; every method returns the spec.

    >>> spec = (Spec("train", files="/data/train-*")
    ...         .order(shuffle="GLOBAL", seed=7, repeat=3)
    ...         .tensor("x", dtype="FLOAT32", shape=32)
    ...         .batch(256))

    Fields are those of docs/reference/spec.md. A message is a dict, a repeated field a list, an
    enum's value its name.
    """

    def __init__(self, name: str, files: str | os.PathLike | Sequence | None = None,
                 **source: Any) -> None:
        """Names the stream; `files` and `source` are its first source's fields."""
        self._fields: dict[str, Any] = {"name": name, "source": [], "tensor": []}
        if files is not None:
            self.source(files, **source)
        elif source:
            raise TypeError("fields of a source without files")

    def source(self, files: str | os.PathLike | Sequence, **fields: Any) -> Spec:
        """Adds a source of records."""
        self._fields["source"].append({"files": files, **fields})
        return self

    def tensor(self, name: str, dtype: str | None = None, **fields: Any) -> Spec:
        """Adds a tensor: `ragged={}`, `padded={...}`, `image={...}`, `op=[{...}]` as in the spec."""
        self._fields["tensor"].append({"name": name, "dtype": dtype, **fields})
        return self

    def order(self, **fields: Any) -> Spec:
        """Sets shuffle, seed, repeat, window, interleave, split, skip, take."""
        self._fields["order"] = fields
        return self

    def batch(self, size: int, **fields: Any) -> Spec:
        """Sets rows of a batch for one rank, and the remainder."""
        self._fields["batch"] = {"size": size, **fields}
        return self

    def delivery(self, **fields: Any) -> Spec:
        """Sets mode, slots, expect, linger_ms."""
        self._fields["delivery"] = fields
        return self

    def cache(self, **fields: Any) -> Spec:
        """Sets what is kept in memory."""
        self._fields["cache"] = fields
        return self

    def text(self) -> str:
        """The spec in protobuf text format, a field of the stream a line."""
        lines = []
        for field, value in self._fields.items():
            for one in value if isinstance(value, list) else [value]:
                lines.append(_text({field: one}))
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<stoker.Spec {self._fields['name']!r}>"


_DTYPES = {"int64": "INT64", "float32": "FLOAT32", "string": "BYTES"}
_STORED = {"int64": "int64_value", "float32": "float_value", "string": "bytes_value"}


def _flat(value: Any) -> list:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in _flat(part)]
    return [value.encode() if isinstance(value, str) else value]


def _feature(key: str, feature: Any) -> dict[str, Any]:
    kind = type(feature).__name__
    dtype = getattr(feature.dtype, "name", None) or str(feature.dtype)
    if dtype not in _DTYPES:
        raise ValueError(f"{key}: tf.io.parse_example has no {dtype}")
    fields: dict[str, Any] = {"dtype": _DTYPES[dtype]}
    if kind == "FixedLenFeature":
        shape = feature.shape
        fields["shape"] = [int(s) for s in (shape if hasattr(shape, "__iter__") else [shape])]
        if feature.default_value is not None:
            fields["default_value"] = {_STORED[dtype]: _flat(feature.default_value)}
        return fields
    if kind == "VarLenFeature":
        return {**fields, "ragged": {}}
    if kind == "RaggedFeature":
        if getattr(feature, "partitions", ()):
            raise ValueError(f"{key}: a RaggedFeature with partitions has no counterpart here")
        stored = getattr(feature, "value_key", None)
        return {**fields, "feature": stored or None, "ragged": {}}
    if kind == "FixedLenSequenceFeature":
        if list(feature.shape):
            raise ValueError(f"{key}: a FixedLenSequenceFeature of shape {feature.shape} has no "
                             "counterpart here; only () has")
        return {**fields, "padded": {"value": feature.default_value}}
    raise ValueError(f"{key}: {kind} has no counterpart here")


def from_features(features: Mapping[str, Any], *, name: str,
                  files: str | os.PathLike | Sequence, batch_size: int,
                  **source: Any) -> Spec:
    """A spec that reads what `tf.io.parse_example(serialized, features)` reads.

    Takes TensorFlow's own objects, or any of the same class name and attributes; TensorFlow is not
    imported. A VarLenFeature becomes ragged: values and row splits, where TensorFlow gives a
    SparseTensor. A FixedLenFeature of strings with one value is one byte string a row.
    """
    spec = Spec(name, files, **source)
    for key, feature in features.items():
        spec.tensor(key, **_feature(key, feature))
    return spec.batch(batch_size)


# Comments, strings, words and marks of the text format.
_TOKENS = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)|(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<word>[A-Za-z0-9_.+-]+)|(?P<mark>.)""", re.DOTALL)


def absolute(text: str, folder: str | os.PathLike) -> str:
    """`text` with the relative `files` of its sources counted from `folder`."""
    prefix = _quoted(os.path.join(os.path.abspath(folder), ""))
    out: list[str] = []
    path: list[str] = []  # names of the messages around
    field = ""            # the last word before a value or a message
    value_begins = in_list = False
    for token in _TOKENS.finditer(text):
        kind, word = token.lastgroup, token.group()
        if kind == "string":
            if value_begins and field == "files" and path == ["source"]:
                if not word[1:].startswith("/"):
                    out.append(prefix + " ")  # adjacent strings are one
            value_begins = False
        elif kind == "word":
            value_begins = False
            field = word
        elif kind == "mark":
            if word in "{<":
                path.append(field)
                in_list = False
            elif word in "}>":
                path = path[:-1]
            in_list = word == "[" or (in_list and word != "]")
            value_begins = word in ":[" or (word == "," and in_list)
            if word == ":":
                in_list = False
        out.append(word)
    return "".join(out)
