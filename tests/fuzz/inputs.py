"""Inputs where parsers read them, and how an independent reader counts their rows."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _root() -> Path:
    """A folder of this process and those it forks later, in memory where the system has such a place."""
    shared = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="ridgeline-fuzz-", dir=shared if os.access(shared, os.W_OK) else None))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


def workspace() -> Path:
    """A folder of this process alone."""
    place = _root() / str(os.getpid())
    place.mkdir(exist_ok=True)
    return place


def as_file(data: bytes, name: str) -> Path:
    path = workspace() / name
    path.write_bytes(data)
    return path


def text_of(data: bytes) -> str:
    """The text of an input as the check counts its rows; empty where it is packed or in another encoding."""
    return "" if data[:2] in (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff") else data.decode("utf-8", "replace")


def json_or_nothing(data: bytes) -> Any:
    """What a caller has parsed; bytes that are no JSON say nothing about the parser behind."""
    try:
        return json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return []


def entries_of(data: bytes) -> list[Any]:
    """The entries of a JSON text."""
    document = json_or_nothing(text_of(data).removeprefix("\ufeff").encode("utf-8", "surrogatepass"))
    document = document.get("rows") if isinstance(document, dict) else document
    return document if isinstance(document, list) else []
