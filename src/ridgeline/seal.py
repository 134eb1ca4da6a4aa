"""Predictions fixed before the run: their content, a time and a hash that any later change breaks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import InputError

SCHEMA = 1


def digest(document: Mapping[str, Any]) -> str:
    """SHA-256 over the document's content, keys in order, its own hash left out."""
    content = {key: value for key, value in document.items() if key != "hash"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def seal(predictions: Sequence[Mapping[str, Any]], machine: str, time: str, version: str) -> dict[str, Any]:
    """A sealed document: what was predicted, for which machine, when, by which version."""
    document = {
        "schema": SCHEMA,
        "ridgeline": version,
        "time": time,
        "machine": hashlib.sha256(machine.encode()).hexdigest(),
        "predictions": [dict(row) for row in predictions],
    }
    return {**document, "hash": digest(document)}


def verify(document: Mapping[str, Any]) -> None:
    """Raises when a sealed document is not what it was when it was sealed."""
    if document.get("schema") != SCHEMA:
        raise InputError(f"this seal has schema {document.get('schema')!r}; known here is {SCHEMA}")
    if document.get("hash") != digest(document):
        raise InputError("the seal is broken: the predictions were changed after they were sealed")
