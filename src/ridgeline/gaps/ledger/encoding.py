"""How records are written: canonical JSON, SHA-256 hashes and times as text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ...core.errors import InputError


def canonical_json(document: Any, what: str) -> str:
    """JSON that is written in only one way; `what` names the document in the complaint."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError(f"a {type(value).__name__}")

    try:
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False, default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{what} cannot be written as JSON: {error}; give finite numbers, texts, lists and mappings"
        ) from error


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def document_hash(document: Mapping[str, Any]) -> str:
    return text_hash(json.dumps(document, sort_keys=True, separators=(",", ":")))


def parse_time(text: str) -> datetime | None:
    """The time a text names; None where it names none or does not say its offset from UTC."""
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo else None
    except (TypeError, ValueError, OverflowError):
        return None


def time_text(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def printable(value: Any) -> Any:
    """A stored value that any JSON or page can hold, whatever someone put in its place."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value if isinstance(value, int | float | None) else repr(value)
