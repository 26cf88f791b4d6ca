"""Protocol buffers without their compiler: the fields of a message, one after another (protobuf.dev, "Encoding").

A file can have a million small messages, so they are not copied: a message is a range of the file's bytes.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import BinaryIO

from hugealign.elf.leb128 import read_unsigned
from hugealign.profile.model import Malformed, ProfileError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST = 1 << 16  # numbers of one field: frames of a stack
_PIECE, _PIECES = 1 << 20, 256  # bytes per read, and the most reads

#: A field: its number, its value (for bytes, their length), and where its bytes begin and end.
Field = tuple[int, int, int, int]


def whole(stream: BinaryIO) -> bytes:
    """Return all bytes of *stream*: a message must be complete.  Raises ProfileError."""
    data = b"".join(islice(iter(partial(stream.read, _PIECE), b""), _PIECES + 1))
    if len(data) > _PIECES * _PIECE:
        raise ProfileError(f"is larger than {_PIECES} MiB")
    return data


def scalars(data: bytes, at: int, end: int, most: int) -> dict[int, int]:
    """Return the last value of each field up to *most* of the message from *at* to *end*.  Raises Malformed."""
    return {number: value for number, value, _, _ in fields(data, at, end) if number <= most}


def fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message in *data* from *at* to *end*.  Raises Malformed."""
    while at < end:
        key, at = varint(data, at, end)
        kind = key & 7
        start = at
        if kind == _VARINT:
            value, at = varint(data, at, end)
        elif kind == _BYTES:
            value, start = varint(data, at, end)
            at = start + value
        elif kind in (_FIXED64, _FIXED32):
            value, at = 0, at + (8 if kind == _FIXED64 else 4)
        else:
            raise Malformed
        if at > end:
            raise Malformed
        yield key >> 3, value, start, at


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the number at *at*, and its end.  Raises Malformed."""
    if at < end and data[at] < 0x80:
        return data[at], at + 1
    try:
        (value,), at = read_unsigned(data, at, end)
    except ValueError:
        raise Malformed from None
    return value, at


def numbers(data: bytes, field: Field) -> list[int]:
    """Return the numbers of a repeated field, packed or not: either way they fill its bytes."""
    _, value, at, end = field
    values = []
    while at < end:
        value, at = varint(data, at, end)
        values.append(value)
        if len(values) > _MOST:
            raise Malformed
    return values
