"""Copies and fills of a JAX trace: their bytes, and names as other profilers write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...core.intake import clean

_SIZE = re.compile(r"\b(?:size|num_bytes):(\d{1,15})")
_MEMORIES = re.compile(r"kind_src:(\w{1,20}) kind_dst:(\w{1,20})")
_WAY = re.compile(r"Memcpy([HDP])2([HDP])")


def copied_size(args: Mapping[str, Any]) -> dict[str, int]:
    """The bytes that a copy or fill moves."""
    sized = _SIZE.search(f"{args.get('memcpy_details', '')} {args.get('Memset_details', '')}")
    return {"bytes": int(sized[1])} if sized else {}


def copy_names(name: str, details: str) -> tuple[str, str]:
    """The short and the full name of a copy: `Memcpy HtoD`, `Memcpy HtoD (Pageable -> Device)`."""
    way, memories = _WAY.fullmatch(name), _MEMORIES.search(details)
    short = clean(f"Memcpy {way[1]}to{way[2]}" if way else name)
    return short, clean(f"{short} ({memories[1].capitalize()} -> {memories[2].capitalize()})") if memories else short
