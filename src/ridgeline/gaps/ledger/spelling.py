"""One spelling for what is hashed and dated: JSON, SHA-256 and times as text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ...core.errors import InputError


def canonical(document: Any, what: str) -> str:
    """JSON with one spelling only; `what` names the document in the complaint."""

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


def digest(document: Mapping[str, Any]) -> str:
    """SHA-256 over the document's content, keys in order, its own hash left out."""
    content = {key: value for key, value in document.items() if key != "hash"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def moment(text: str) -> datetime | None:
    """The time a text names; None where it names none or does not say its offset from UTC."""
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else None
    except (TypeError, ValueError, OverflowError):
        return None


def stamp(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def shown(value: Any) -> Any:
    """A stored value that any JSON or page can hold, whatever someone put in its place."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value if isinstance(value, int | float | None) else repr(value)
