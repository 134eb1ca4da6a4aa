"""Records of a ledger: how they are written and hashed, the content they accept, a seal and a settlement as callers get them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np

from ...core.errors import InputError

SCHEMA = 1
GENESIS = "0" * 64  # what the first record has before it
ID_DIGITS = 12  # hex digits of a seal's id
FUSED = "fused"  # the family of several predictions that one kernel did
CLAIMS = {"predicted_us": "time_us", "floor_us": "floor_us", "bound_predicted": "bound"}


# -- texts, hashes and times -----------------------------------------------------------------------------------


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


# -- what is accepted -------------------------------------------------------------------------------------------


def checked_predictions(predictions: Iterable[Any]) -> list[dict[str, Any]]:
    """Predictions that can be settled later: named, each name once, times that are times."""
    rows = [dict(row) if isinstance(row, Mapping) else {} for row in predictions]
    if not rows:
        raise InputError("nothing to seal: give at least one prediction")
    names: set[str] = set()
    for place, row in enumerate(rows, 1):
        name = row.get("name")
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"prediction {place} has no name; give each row a `name` to be settled by")
        if name in names:
            raise InputError(f"two predictions are named '{name}'; give each its own name")
        names.add(name)
        _check_times(row, f" of prediction '{name}'")
        low, high = row.get("low_us"), row.get("high_us")
        if (low is None) != (high is None) or (low is not None and low > high):
            raise InputError(
                f"the interval of prediction '{name}' is {low} to {high}; give low_us <= high_us, or neither"
            )
    return rows


def checked_measurement(item: Mapping[str, Any]) -> dict[str, Any]:
    """One measured item as it will be kept, with what it says of its prediction under `claims`."""
    name = item.get("name") if isinstance(item, Mapping) else None
    if not isinstance(name, str) or not name.strip():
        raise InputError("a measured item has no name; give the `name` of its prediction")
    if item.get("measured_us") is None:
        raise InputError(f"'{name}' has no measured_us; give the measured time in microseconds")
    _check_time(item["measured_us"], f"measured_us of '{name}'")
    at = item.get("measured_at") or None
    if at is not None:
        try:
            datetime.fromisoformat(at)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"measured_at of '{name}' is {at!r}; give an ISO time with its offset, as 2026-01-31T12:00:00+00:00"
            ) from error
        time = parse_time(at)
        at = time_text(time) if time else at
    row = item.get("prediction")
    if row is not None and not isinstance(row, Mapping):
        raise InputError(f"the prediction of '{name}' is {row!r}; give the whole row, or leave it out")
    claims = {field: item.get(key) for key, field in CLAIMS.items() if item.get(key) is not None}
    compared = claims if row is None else dict(row)
    _check_times(compared, f" of the prediction of '{name}'")
    parts = item.get("steps")
    named = isinstance(parts, list | tuple) and all(isinstance(part, str) for part in parts)
    if parts is not None and not (named and 1 < len(set(parts)) == len(parts)):
        raise InputError(f"the steps of '{name}' are {parts!r}; give the names of the predictions it did at once")
    kept = {
        "name": name,
        "measured_us": item["measured_us"],
        "measured_at": at,
        "bound_observed": item.get("bound_observed") or None,
        "cause": item.get("cause") or "",
        "claims": {"row": compared, "all": row is not None},
        **({"steps": parts} if parts else {}),
    }
    normalised: dict[str, Any] = json.loads(canonical_json(kept, f"the measured item '{name}'"))
    return normalised


def step_names(item: Mapping[str, Any]) -> tuple[str, ...]:
    """The predictions that a measured item belongs to: the one of its name, or those a fused kernel did at once."""
    return tuple(item.get("steps") or (item["name"],))


def sealed_row(rows: Mapping[str, Mapping[str, Any]], item: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The sealed row of a measured item; of several at once their times added up, for one run of all of them.

    Their floor is not the sum, because what one kernel does in parallel counts once; it stays unknown.
    """
    parts = [rows[name] for name in step_names(item) if name in rows]
    if len(parts) < len(step_names(item)):
        return None
    if len(parts) == 1:
        return parts[0]
    runs = [float(part.get("count") or 1.0) for part in parts]
    added: dict[str, Any] = {"name": item["name"], "family": FUSED}
    for field in ("time_us", "low_us", "high_us"):
        if all(part.get(field) is not None for part in parts):
            added[field] = sum(part[field] * run / min(runs) for part, run in zip(parts, runs, strict=True))
    bounds = {part.get("bound") for part in parts}
    return {**added, "bound": bounds.pop()} if len(bounds) == 1 else added


def edited_fields(row: Mapping[str, Any] | None, claims: Mapping[str, Any]) -> dict[str, Any]:
    """What a measurement was compared with, where that is not what the seal holds."""
    sealed, claimed = row or {}, claims["row"]
    compared = sorted(claimed.keys() | sealed.keys()) if claims["all"] else sorted(claimed)
    differing = {field: claimed.get(field) for field in compared if claimed.get(field) != sealed.get(field)}
    return {"claimed": differing} if differing else {}


def check_content(kind: str, content: Any) -> None:
    """Raises where a record's content is not what `seal` or `settle` writes."""
    if kind == "seal":
        checked_predictions(content["predictions"])
        named = isinstance(content["machine"]["name"], str) and isinstance(content["note"], str)
        if not named or not isinstance(content["environment"], dict):
            raise InputError("no seal")
    elif kind == "settle":
        for item in content["items"]:
            checked_measurement(item)
            _check_times(item.get("claimed", {}))
            if item["sealed"] is not (item["reason"] == "") or not isinstance(item["reason"], str):
                raise InputError("no verdict")
        if not isinstance(content["seal"], str):
            raise InputError("no seal's hash")
    else:
        raise InputError("no kind of record")


def _check_times(row: Mapping[str, Any], whose: str = "") -> None:
    for field in ("floor_us", "time_us", "low_us", "high_us"):
        _check_time(row.get(field), f"{field}{whose}", zero=field in ("floor_us", "low_us"))


def _check_time(value: Any, what: str, zero: bool = False) -> None:
    """Refuses what is neither absent nor a time in microseconds; the bounds keep every ratio finite."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if value is not None and not (number and (1e-9 <= value <= 1e15 or (zero and value == 0))):
        raise InputError(f"{what} is {value!r}; give microseconds{' from 0' if zero else ''} between 1e-9 and 1e15")


# -- one record -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """One row of the file as it is; after tampering a field may hold anything."""

    number: int
    schema: int
    kind: str
    time: str
    ridgeline: str
    content: str
    content_hash: str
    previous: str
    hash: str

    def row(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in COLUMNS}

    def document(self) -> dict[str, Any]:
        """With its content parsed, or as it is where that is no content of its kind."""
        row = {name: printable(value) for name, value in self.row().items()}
        return {**row, "content": self.parsed} if self.parsed else row

    @property
    def typed(self) -> bool:
        """Whether every field holds a value of its own type."""
        wanted = (int, int, str, str, str, str, str, str, str)
        return all(type(value) is kind for value, kind in zip(self.row().values(), wanted, strict=True))

    def computed_hash(self) -> str:
        """Over all fields: the content by its hash, the number by the hash of the record before."""
        hashed = {name: value for name, value in self.row().items() if name not in ("number", "content", "hash")}
        return text_hash(json.dumps(hashed, sort_keys=True, separators=(",", ":")))

    @property
    def hash_matches(self) -> bool:
        return self.typed and self.computed_hash() == self.hash

    @property
    def intact(self) -> bool:
        return self.hash_matches and text_hash(self.content) == self.content_hash

    @cached_property
    def parsed(self) -> dict[str, Any]:
        """The content as a document; empty where it is not of the form its kind has."""
        try:
            content: dict[str, Any] = json.loads(self.content) if self.typed else {}
            check_content(self.kind, content)
        except (InputError, AttributeError, KeyError, TypeError, ValueError, RecursionError):
            return {}
        return content


COLUMNS = tuple(field.name for field in fields(Record))


@dataclass(frozen=True)
class Sealed:
    """A seal as the ledger holds it."""

    id: str
    number: int
    time: str
    ridgeline: str
    machine: dict[str, str]  # name, and the hash of its file's text
    environment: dict[str, Any]
    note: str
    predictions: tuple[dict[str, Any], ...]
    content_hash: str
    hash: str

    @classmethod
    def of(cls, record: Record) -> Sealed:
        """A seal whose content can no longer be read has no predictions."""
        content = record.parsed
        return cls(
            record.hash[:ID_DIGITS],
            record.number,
            record.time,
            record.ridgeline,
            content.get("machine", {}),
            content.get("environment", {}),
            content.get("note", ""),
            tuple(content.get("predictions", ())),
            record.content_hash,
            record.hash,
        )


@dataclass(frozen=True)
class Settled:
    """What was measured for a seal; each item says whether it is sealed evidence, why not, and if it is a repeat."""

    seal: str
    number: int
    time: str
    items: tuple[dict[str, Any], ...]
    hash: str
