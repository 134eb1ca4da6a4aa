"""Results as plain values for JSON: one function for every result.

A dataclass becomes an object of its fields, or of what its class lists in `DOCUMENT`: names of attributes, properties
and methods without arguments, in order. An entry is written `name`, or `key=name` where the document calls it
otherwise; `key=part.name` reaches into a part; `key?` and `key?=name` leave the key out where its value is empty.
`time_us=time` writes microseconds of a time, or of several, that is kept in seconds.

    class Score:
        DOCUMENT = ("median", "mean", "p90", "signed_median=signed")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any


def to_document(value: Any) -> Any:
    """Nested dicts, lists, strings, numbers, booleans and None; arrays become lists, other keys than strings their text."""
    if value is None or isinstance(value, str | bool | int | float):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, Mapping):
        return {str(key): to_document(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_document(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return _object(value)
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # of numpy, which need not be loaded to write a document
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} has no place in a document")


def _object(value: Any) -> dict[str, Any]:
    document = {}
    if type(value) not in _ENTRIES:
        _ENTRIES[type(value)] = _entries(type(value))
    for key, get, in_microseconds, optional in _ENTRIES[type(value)]:
        item = get(value)
        item = item() if callable(item) else item
        item = to_document(microseconds(item) if in_microseconds else item)
        if item or not optional:
            document[key] = item
    return document


Entry = tuple[str, Callable[[Any], Any], bool, bool]
_ENTRIES: dict[type[Any], list[Entry]] = {}  # of the classes that were written: thousands of points have one


def _entries(kind: type[Any]) -> list[Entry]:
    """What the document of a class has: key, attribute, whether it is written in microseconds, whether it may be left out."""
    listed = getattr(kind, "DOCUMENT", None)
    if listed is None:
        listed = [field.name for field in fields(kind) if not field.name.startswith("_")]
    entries: list[Entry] = []
    for entry in listed:
        key, _, name = entry.replace("?", "").partition("=")
        in_microseconds = key.endswith("_us") and bool(name) and not name.endswith("_us")
        entries.append((key, attrgetter(name or key), in_microseconds, "?" in entry))
    return entries


def microseconds(seconds: Any) -> Any:
    """Of one time, of each of several, or of one that is not known."""
    if isinstance(seconds, list | tuple):
        return [microseconds(each) for each in seconds]
    return None if seconds is None else seconds * 1e6
