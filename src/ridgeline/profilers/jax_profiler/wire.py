"""Protocol-buffer messages without their schema: numbers of fields and raw values, as XLA writes its programs."""

from __future__ import annotations

from collections.abc import Iterator

from ...core.errors import InputError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_BITS = 64


def fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message in order: a whole number, or the bytes of a text, a message or packed numbers."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind = key & 7
        if kind == VARINT:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        if kind == BYTES:
            length, place = _varint(message, place)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise InputError(f"a message has a field of kind {kind}")
        if place + length > len(message):
            raise InputError("a message is cut off")
        yield key >> 3, message[place : place + length]
        place += length


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while shift < MAX_BITS and place < len(message):
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
    raise InputError("a message is cut off in a number")


def varint(value: int) -> bytes:
    """A number as messages hold it: seven bits to a byte, the lowest first."""
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*written, value))


def messages(message: memoryview, number: int) -> Iterator[memoryview]:
    """The values of a field that hold bytes."""
    for key, value in fields(message):
        if key == number and isinstance(value, memoryview):
            yield value


def text(message: memoryview, number: int) -> str:
    return next((bytes(value).decode("utf-8", "replace") for value in messages(message, number)), "")


def integer(message: memoryview, number: int) -> int:
    return next((value for key, value in fields(message) if key == number and isinstance(value, int)), 0)


def integers(message: memoryview, number: int) -> tuple[int, ...]:
    """A repeated number, packed or one by one."""
    values: list[int] = []
    for key, value in fields(message):
        if key != number:
            continue
        if isinstance(value, int):
            values.append(value)
            continue
        place = 0
        while place < len(value):
            item, place = _varint(value, place)
            values.append(item)
    return tuple(values)
