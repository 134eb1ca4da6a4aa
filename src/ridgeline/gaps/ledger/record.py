"""Records of a ledger: how they are written and hashed, the content they accept, a seal and a settlement as callers get them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from ...core.cached import cached_property
from ...core.errors import InputError
from ...core.intake import Door, at, clean
from ...core.intake.door import shown

SCHEMA = 1
GENESIS = "0" * 64  # what the first record has before it
ID_DIGITS = 12  # hex digits of a seal's id
MIN_TIME, MAX_TIME = 1e-9, 1e15  # microseconds
FUSED = "fused"  # the family of several predictions that one kernel did
CLAIMS = {"predicted_us": "time_us", "floor_us": "floor_us", "bound_predicted": "bound"}


# -- texts, hashes and times -----------------------------------------------------------------------------------


def canonical_json(document: Any, what: str) -> str:
    """JSON that is written in only one way; `what` names the document in the complaint."""
    try:
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
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
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if isinstance(value, int | float | None) and finite else repr(value)


# -- what is accepted -------------------------------------------------------------------------------------------


def checked_predictions(predictions: Iterable[Any]) -> list[dict[str, Any]]:
    """Predictions that can be settled later: named, each name once, times that are times."""
    door, numbers = Door("what is to be sealed"), dict[str, int]()
    rows = [_checked_row(door, row, number) for number, row in enumerate(predictions, 1)]
    if not rows:
        raise InputError("nothing to seal: give at least one prediction")
    for number, row in enumerate(rows, 1):
        name = door.text(row.get("name"), at(number, "name"), needed=True)
        if name and numbers.setdefault(name, number) != number:
            door.complain(at(number, "name"), f"is {shown(name)}, as in row {numbers[name]}; give each its own name")
    door.close()
    return rows


def _checked_row(door: Door, given: Any, number: int) -> dict[str, Any]:
    """A prediction with clean texts and finite numbers, its times and counts in range."""
    if not isinstance(given, Mapping):
        door.complain(at(number), f"must be a prediction with a name, found {shown(given)}")
        return {"name": f"row {number}"}
    row = {clean(str(key)): door.plain(value, at(number, str(key))) for key, value in given.items()}
    _check_times(door, row, lambda field: at(number, field))
    for field in ("bound", "op", "family", "backend"):
        door.text(row.get(field), at(number, field))
    if row.get("count") is not None:
        door.number(row["count"], at(number, "count"), 1e-9, MAX_TIME)
    return row


def checked_measurements(items: Iterable[Any]) -> list[dict[str, Any]]:
    """Measured items as they will be kept, each with what it says of its prediction under `claims`."""
    door = Door("what is to be settled")
    kept = [_checked_item(door, item, number) for number, item in enumerate(items, 1)]
    if not kept:
        raise InputError("nothing to settle: give at least one measured item")
    door.close()
    return kept


def _checked_item(door: Door, item: Any, number: int) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        door.complain(at(number), f"must be a measured item with a name, found {shown(item)}")
        return {}
    begun, parts = door.text(item.get("measured_at"), at(number, "measured_at")) or None, item.get("steps")
    if begun is not None:
        try:
            datetime.fromisoformat(begun)
        except ValueError:
            example = "an ISO time with its offset, such as 2026-01-31T12:00:00+00:00"
            door.complain(at(number, "measured_at"), f"is {shown(begun)}; it is {example}")
        time = parse_time(begun)
        begun = time_text(time) if time else begun
    names = door.texts(parts, at(number, "steps")) if parts is not None else ()
    if parts is not None and not (isinstance(parts, list | tuple) and 1 < len(set(names)) == len(names)):
        door.complain(at(number, "steps"), "must be the names of the predictions that one kernel did at once")
    row = item.get("prediction")
    if row is None:
        claims = {field: item[key] for key, field in CLAIMS.items() if item.get(key) is not None}
    else:
        claims = door.table(row, at(number, "prediction"))
    compared = {key: door.plain(value, at(number, key)) for key, value in claims.items()}
    _check_times(door, compared, lambda field: at(number, f"{field} of its prediction"))
    return {
        "name": door.text(item.get("name"), at(number, "name"), needed=True),
        "measured_us": door.number(item.get("measured_us"), at(number, "measured_us"), MIN_TIME, MAX_TIME),
        "measured_at": begun,
        "bound_observed": door.text(item.get("bound_observed"), at(number, "bound_observed")) or None,
        "cause": door.text(item.get("cause"), at(number, "cause")),
        "claims": {"row": compared, "all": row is not None},
        **({"steps": list(names)} if parts is not None else {}),
    }


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


def checked_content(kind: str, content: Any) -> dict[str, Any]:
    """The content of a record with clean texts; raises where it is not what `seal` or `settle` writes."""
    door = Door("the record")
    given = door.table(content, "content")
    checked_below = {"predictions", "items", "machine", "environment"}
    kept = {clean(key): value if key in checked_below else door.plain(value, key) for key, value in given.items()}
    after = door.text(kept.get("evidence_after"), "evidence_after")
    if after and parse_time(after) is None:
        door.complain("evidence_after", "is not a time")
    if kind == "seal":
        kept["predictions"] = checked_predictions(door.items(kept.get("predictions"), "predictions"))
        machine = door.table(kept.get("machine"), "machine")
        kept["machine"] = {key: door.text(value, f"machine.{key}", needed=True) for key, value in machine.items()}
        door.text(machine.get("name"), "machine.name", needed=True)
        kept["environment"] = door.plain(door.table(kept.get("environment"), "environment"), "environment")
        kept["note"] = door.text(kept.get("note"), "note")
    elif kind == "settle":
        items = door.items(kept.get("items"), "items")
        checked = checked_measurements(items)
        kept["items"] = [_kept_item(door, *pair) for pair in zip(items, checked, strict=True)]
        door.text(kept.get("seal"), "seal", needed=True)
    else:
        door.complain("kind", f"is {shown(kind)}; it is seal or settle")
    door.close()
    return kept


def _kept_item(door: Door, item: Mapping[str, Any], checked: Mapping[str, Any]) -> dict[str, Any]:
    """A measured item as a record holds it: with its verdict, and where its prediction was edited."""
    kept = {key: value for key, value in checked.items() if key != "claims"}
    sealed, reason = item.get("sealed"), door.text(item.get("reason"), "reason")
    if sealed is not (reason == ""):
        door.complain("sealed", f"is {shown(sealed)} with the reason {shown(reason)}")
    claimed = {key: door.plain(value, key) for key, value in door.table(item.get("claimed"), "claimed").items()}
    _check_times(door, claimed, lambda field: f"claimed.{field}")
    return {**kept, **({"claimed": claimed} if claimed else {}), "sealed": sealed, "reason": reason}


def _check_times(door: Door, row: Mapping[str, Any], place: Callable[[str], str]) -> None:
    """Complains of times that are neither absent nor microseconds; the bounds keep every ratio finite."""
    for field in ("floor_us", "time_us", "low_us", "high_us"):
        if row.get(field) is not None:
            door.number(row[field], place(field), 0.0 if field in ("floor_us", "low_us") else MIN_TIME, MAX_TIME)
    low, high = row.get("low_us"), row.get("high_us")
    crossed = isinstance(low, int | float) and isinstance(high, int | float) and low > high
    if (low is None) != (high is None) or crossed:
        door.complain(
            place("low_us"), f"the interval is {shown(low)} to {shown(high)}; give low_us <= high_us, or neither"
        )


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

    @cached_property
    def typed(self) -> bool:
        """Whether every field holds a value of its own type."""
        wanted = (int, int, str, str, str, str, str, str, str)
        return all(type(value) is kind for value, kind in zip(self.row().values(), wanted, strict=True))

    def computed_hash(self) -> str:
        """Over all fields: the content by its hash, the number by the hash of the record before."""
        hashed = {name: value for name, value in self.row().items() if name not in ("number", "content", "hash")}
        return text_hash(json.dumps(hashed, sort_keys=True, separators=(",", ":")))

    @cached_property
    def hash_matches(self) -> bool:
        return self.typed and self.computed_hash() == self.hash

    @cached_property
    def intact(self) -> bool:
        return self.hash_matches and text_hash(self.content) == self.content_hash

    @cached_property
    def parsed(self) -> dict[str, Any]:
        """The content as a document; empty where it is not of the form its kind has."""
        try:
            return checked_content(self.kind, json.loads(self.content)) if self.typed else {}
        except (InputError, ValueError, RecursionError):
            return {}

    @cached_property
    def evidence_after(self) -> str:
        """The latest time of this record and all before it; what began later is known to come after them."""
        return str(self.parsed.get("evidence_after") or self.time)


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
    evidence_after: str  # only what was measured after this time counts; later than `time` where the clock was set back

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
            record.evidence_after,
        )


@dataclass(frozen=True)
class Settled:
    """What was measured for a seal; each item says whether it is sealed evidence, why not, and if it is a repeat."""

    seal: str
    number: int
    time: str
    items: tuple[dict[str, Any], ...]
    hash: str
