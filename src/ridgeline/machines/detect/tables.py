"""Our own tables of what a core or an SM does per cycle: cores.toml and capability.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


@cache
def table(name: str) -> dict[str, Any]:
    """A table by its file name; without it nothing is derived."""
    try:
        return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def rows_of(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    rows = table.get(key, {})
    return rows if isinstance(rows, dict) else {}


def source_of(table: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """The source a row names, written out."""
    name = str(row.get("source", ""))
    return str(rows_of(table, "sources").get(name, name))


def rate_of(row: Mapping[str, Any], key: str) -> float | None:
    value = row.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
