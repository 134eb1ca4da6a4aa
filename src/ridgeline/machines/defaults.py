"""Figures used where a machine's own are not known: `defaults.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("defaults.toml")


@cache
def _document() -> Mapping[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


@cache
def defaults(table: str) -> Mapping[str, float]:
    """The figures of a table by name, in base units."""
    return {name: float(entry["value"]) for name, entry in _document()[table].items()}
