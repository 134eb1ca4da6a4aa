"""Results as plain values for JSON: one function for every result.

A dataclass becomes an object of its fields, or of what its class lists in `DOCUMENT`: names of attributes and
properties, in order, each written `name`, or `key=name` where the document calls it otherwise.

    class Score:
        DOCUMENT = ("median", "mean", "p90", "signed_median=signed")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np


def to_document(value: Any) -> Any:
    """Nested dicts, lists, strings, numbers, booleans and None; arrays become lists, other keys than strings their text."""
    if value is None or isinstance(value, str | bool | int | float):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): to_document(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_document(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {key: to_document(getattr(value, name)) for key, name in _entries(type(value))}
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a {type(value).__name__} has no place in a document")


def _entries(cls: type) -> list[tuple[str, str]]:
    """(key, attribute) of a class, in order."""
    listed = getattr(cls, "DOCUMENT", None)
    if listed is None:
        return [(field.name, field.name) for field in fields(cls) if not field.name.startswith("_")]
    return [(key, name or key) for key, _, name in (entry.partition("=") for entry in listed)]
