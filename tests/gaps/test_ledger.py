"""The ledger: what was sealed stays, what was touched is found, what was measured too early does not count."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ridgeline import predict
from ridgeline.core.errors import InputError
from ridgeline.core.version import __version__
from ridgeline.gaps import ledger
from ridgeline.gaps.ledger import GENESIS, Ledger, open_ledger
from ridgeline.machines.load import load
from ridgeline.programs import ops
from strategies import law

COLUMNS = ("number", "schema", "kind", "time", "ridgeline", "content", "content_hash", "previous", "hash")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Clock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.time = NOON

    def __call__(self) -> datetime:
        return self.time

    def after(self, **step: float) -> str:
        self.time += timedelta(**step)
        return self.time.isoformat()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(tmp_path: Path, clock: Clock) -> Ledger:
    return open_ledger(tmp_path / "book.sqlite", clock)


def row(name: str, time_us: float = 10.0, **more: Any) -> dict[str, Any]:
    return {"name": name, "op": "gemm", "bound": "memory", "floor_us": 5.0, "time_us": time_us, **more}


def seal(book: Ledger, *rows: dict[str, Any], machine: str = "h200-sxm") -> str:
    return book.seal(rows or [row("a"), row("b", 20.0)], "name = 'h200'", machine).id


def item(name: str, measured_us: float, measured_at: str | None, **more: Any) -> dict[str, Any]:
    return {"name": name, "measured_us": measured_us, "measured_at": measured_at, **more}


def tamper(path: Path, *statements: tuple[str, tuple[Any, ...]]) -> None:
    """What someone with SQLite and no scruples does: triggers away, change, triggers back as they were."""
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA synchronous = OFF")  # nobody cuts the power here
        triggers = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            raw.execute(f"DROP TRIGGER {name}")
        for statement, values in statements:
            raw.execute(statement, values)
        for _, sql in triggers:
            raw.execute(sql)
    raw.close()


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as raw:
        found = raw.execute(f"SELECT {', '.join(COLUMNS)} FROM record ORDER BY number").fetchall()
    raw.close()
    return found


# Sealing and settling


def test_a_seal_holds_what_was_predicted_for_what_by_what(book: Ledger) -> None:
    text = "name = 'h200-sxm'\n"
    made = book.seal([row("a"), row("b", 20.0)], text, "h200-sxm", {"driver": "570"}, "first try")
    assert made.id == made.hash[:12]
    assert made.time == "2026-03-01T12:00:00.000000+00:00"
    assert made.machine == {"name": "h200-sxm", "hash": hashlib.sha256(text.encode()).hexdigest()}
    assert made.ridgeline == __version__
    assert made.predictions == (row("a"), row("b", 20.0))
    assert {"platform", "python", "host", "driver"} == set(made.environment)
    assert made.environment["driver"] == "570"
    assert book.find(made.id) == book.find(made.hash[:4]) == book.find(made.id.upper()) == made
    assert book.head() == (1, made.hash)
    assert json.loads(json.dumps(made.document()))["predictions"] == [row("a"), row("b", 20.0)]


def test_a_hash_covers_every_field_and_the_record_before(book: Ledger, clock: Clock) -> None:
    """Recomputed here with nothing but hashlib and json."""
    first = seal(book)
    book.settle(first, [item("a", 11.0, clock.after(seconds=1))])
    before = "0" * 64
    for number, record in enumerate(rows_of(book.path), 1):
        fields = dict(zip(COLUMNS, record, strict=True))
        assert fields.pop("number") == number
        assert hashlib.sha256(fields.pop("content").encode()).hexdigest() == fields["content_hash"]
        own = fields.pop("hash")
        assert fields["previous"] == before
        assert hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest() == own
        before = own
    assert book.head() == (2, before)


def test_rows_of_real_predictions_can_be_sealed(book: Ledger, clock: Clock) -> None:
    prediction = predict(ops.gemm(m=[16, 4096], n=4096, k=4096), load("h200-sxm"))
    rows = [{**found, "name": f"gemm {place}"} for place, found in enumerate(prediction.rows())]
    made = book.seal(rows, "text", "h200-sxm")
    assert list(made.predictions) == rows
    measured = [
        item(
            found["name"], 2 * found["time_us"], clock.after(seconds=1), prediction=found, bound_observed=found["bound"]
        )
        for found in rows
    ]
    assert [each["sealed"] for each in book.settle(made.id, measured).items] == [True, True]
    report = book.report()["sealed"]
    assert report["error"]["signed"] == pytest.approx(-0.5)
    assert report["regimes"]["hits"] == 2
    assert {found["family"] for found in report["by_family"]} == {"gemm"}


def test_numbers_of_numpy_are_numbers(book: Ledger, clock: Clock) -> None:
    made = seal(book, row("a", np.float64(10.0), shape={"m": np.int64(16)}))
    assert book.find(made).predictions == (row("a", 10.0, shape={"m": 16}),)
    (kept,) = book.settle(
        made, [item("a", np.float32(8.0), clock.after(seconds=1), predicted_us=np.float64(10.0))]
    ).items
    assert (kept["measured_us"], kept["sealed"]) == (8.0, True)


def test_measured_after_sealing_counts(book: Ledger, clock: Clock) -> None:
    made = seal(book)
    begun = clock.after(minutes=1)
    clock.after(minutes=1)
    settled = book.settle(made, [item("a", 8.0, begun, bound_observed="compute", cause="L2 kept it")], {"tool": "ncu"})
    assert settled.seal == made
    assert json.loads(json.dumps(settled.document()))["items"] == list(settled.items)
    assert settled.time == "2026-03-01T12:02:00.000000+00:00"
    assert [(each["sealed"], each["reason"], each["repeat"]) for each in settled.items] == [(True, "", False)]
    (case,) = book.report()["cases"]
    assert case["error"] == pytest.approx(10 / 8 - 1)
    assert (case["bound_predicted"], case["bound_observed"], case["cause"]) == ("memory", "compute", "L2 kept it")
    assert book.export()[1]["content"]["observations"] == {"tool": "ncu"}


@pytest.mark.parametrize(
    ("measured_at", "reason"),
    [
        ("2026-03-01T11:59:59+00:00", "not after the sealing"),
        ("2026-03-01T12:00:00+00:00", "not after the sealing"),
        ("2026-03-01T13:30:00+02:00", "not after the sealing"),
        ("2026-03-01T12:00:00Z", "not after the sealing"),
        ("2026-03-01T14:00:00+00:00", "after the settling"),
        ("2026-03-01T12:30:00", "offset"),
        ("2026-03-02", "offset"),
        ("9999-12-31T23:59:59-23:00", "offset"),
        ("", "not known when"),
        (None, "not known when"),
    ],
)
def test_measured_at_another_time_is_no_sealed_evidence(
    book: Ledger, clock: Clock, measured_at: str | None, reason: str
) -> None:
    made = seal(book)
    clock.after(hours=1)
    (kept,) = book.settle(made, [item("a", 8.0, measured_at)]).items
    assert kept["sealed"] is False
    assert reason in kept["reason"]
    report = book.report()
    assert (report["settled"], report["sealed"]["cases"], report["unsealed"]["cases"]) == (0, 0, 1)
    assert report["unsealed"]["error"]["median"] == pytest.approx(0.25)
    assert report["unsealed"]["reasons"] == {kept["reason"]: 1}


@pytest.mark.parametrize(
    ("claim", "told"),
    [
        ({"predicted_us": 8.0}, "time_us was 10.0, is 8.0"),
        ({"bound_predicted": "compute"}, "bound was 'memory', is 'compute'"),
        ({"predicted_us": 10.0, "floor_us": 4.0}, "floor_us was 5.0, is 4.0"),
        ({"prediction": row("a", 8.0)}, "time_us was 10.0, is 8.0"),
        ({"prediction": row("a", low_us=1.0, high_us=2.0)}, "low_us was None, is 1.0"),
        ({"prediction": {"name": "a", "time_us": 10.0}}, "bound was 'memory', is None"),
    ],
)
def test_a_prediction_edited_after_sealing_is_no_sealed_evidence(
    book: Ledger, clock: Clock, claim: dict[str, Any], told: str
) -> None:
    (kept,) = book.settle(seal(book), [item("a", 8.0, clock.after(seconds=1), **claim)]).items
    assert kept["sealed"] is False
    assert kept["reason"].startswith("the prediction was edited after sealing: ")
    assert told in kept["reason"]
    assert book.find(book.export()[0]["hash"]).predictions[0] == row("a")


@pytest.mark.parametrize(
    "claim",
    [{}, {"predicted_us": 10, "floor_us": 5, "bound_predicted": "memory"}, {"prediction": row("a") | {"ridge": None}}],
)
def test_the_sealed_prediction_said_again_is_the_sealed_prediction(
    book: Ledger, clock: Clock, claim: dict[str, Any]
) -> None:
    (kept,) = book.settle(seal(book), [item("a", 8.0, clock.after(seconds=1), **claim)]).items
    assert kept["sealed"] is True


def test_what_was_never_predicted_is_kept_as_unsealed(book: Ledger, clock: Clock) -> None:
    (kept,) = book.settle(seal(book), [item("z", 8.0, clock.after(seconds=1), predicted_us=16.0)]).items
    assert (kept["sealed"], kept["reason"]) == (False, "no prediction of this name was sealed")
    assert book.report()["unsealed"]["error"]["signed"] == pytest.approx(16 / 8 - 1)


def test_the_first_measurement_counts_and_repeats_are_listed(book: Ledger, clock: Clock) -> None:
    made = seal(book)
    early = NOON.isoformat()
    first = book.settle(
        made, [item("a", 12.0, early), item("a", 20.0, clock.after(seconds=1)), item("a", 11.0, clock.time.isoformat())]
    )
    assert [(each["sealed"], each["repeat"]) for each in first.items] == [(False, False), (True, False), (True, True)]
    second = book.settle(made, [item("a", 10.0, clock.after(seconds=1)), item("b", 20.0, clock.time.isoformat())])
    assert [(each["sealed"], each["repeat"]) for each in second.items] == [(True, True), (True, False)]
    report = book.report()
    assert [(case["name"], case["measured_us"], case["repeat"]) for case in report["cases"] if case["sealed"]] == [
        ("a", 20.0, False),
        ("a", 11.0, True),
        ("a", 10.0, True),
        ("b", 20.0, False),
    ]
    assert (report["predictions"], report["settled"], report["open"], report["repeats"]) == (2, 2, 0, 2)
    # of 10/20 - 1 and 20/20 - 1, not of the polished 10/10 - 1
    assert report["sealed"]["error"]["median"] == pytest.approx(0.25)


def test_a_case_already_measured_is_not_predicted_blind(book: Ledger, clock: Clock) -> None:
    shape = {"dtype": "bf16", "shape": {"m": 16}}
    first = seal(book, row("a", **shape))
    book.settle(first, [item("a", 20.0, clock.after(seconds=1))])
    again = seal(book, row("other name", 20.0, **shape), row("new", 5.0, dtype="bf16", shape={"m": 32}))
    elsewhere = seal(book, row("a", 20.0, **shape), machine="h100-sxm")
    at = clock.after(seconds=1)
    book.settle(again, [item("other name", 20.0, at), item("new", 10.0, at)])
    book.settle(elsewhere, [item("a", 10.0, at)])
    assert [(case["machine"], case["name"], case["blind"]) for case in book.report()["cases"]] == [
        ("h200-sxm", "a", True),
        ("h200-sxm", "other name", False),
        ("h200-sxm", "new", True),
        ("h100-sxm", "a", True),
    ]
    assert (book.report()["sealed"]["cases"], book.report()["blind"]["cases"]) == (4, 3)


def test_unsealed_measurements_count_once_too(book: Ledger, clock: Clock) -> None:
    """The same old file settled three times: 10/8 - 1 once, whatever comes later, and sealed evidence beside it."""
    made, early = seal(book), NOON.isoformat()
    clock.after(seconds=1)
    told = [book.settle(made, [item("a", measured, early)]).items[0] for measured in (8.0, 9.0, 10.0)]
    assert [(each["sealed"], each["repeat"]) for each in told] == [(False, False), (False, True), (False, True)]
    late = book.settle(made, [item("a", 5.0, clock.after(seconds=1))]).items[0]
    assert (late["sealed"], late["repeat"]) == (True, False)
    report = book.report()
    assert (report["unsealed"]["cases"], report["sealed"]["cases"], report["repeats"]) == (1, 1, 2)
    assert report["unsealed"]["error"]["signed"] == pytest.approx(0.25)
    assert sum(report["unsealed"]["reasons"].values()) == 1
    assert [case["repeat"] for case in report["cases"]] == [False, True, True, False]
    assert "- a: 9 µs, repeat, does not count, unsealed: measured at" in book.markdown()
    other = book.settle(seal(book), [item("a", 8.0, early)]).items[0]
    assert not other["repeat"], "another seal is another prediction"


def test_a_fused_kernel_is_held_against_the_sum_of_its_rows(book: Ledger, clock: Clock) -> None:
    """One run of a (10 us, 8 to 12) and two of b (20 us, 15 to 25) in one kernel: 50 us, 38 to 62."""
    made = seal(
        book,
        row("a", 10.0, low_us=8.0, high_us=12.0),
        row("b", 20.0, low_us=15.0, high_us=25.0, count=2),
        row("c", bound="compute"),
    )
    at = clock.after(seconds=1)
    first = book.settle(made, [item("a + b", 40.0, at, steps=["a", "b"], bound_observed="memory"), item("a", 9.0, at)])
    assert [(each["sealed"], each["repeat"]) for each in first.items] == [(True, False), (True, True)]
    report = book.report()
    case = report["cases"][0]
    assert (case["predicted_us"], case["low_us"], case["high_us"], case["floor_us"]) == (50.0, 38.0, 62.0, None)
    assert (case["error"], case["family"], case["steps"], case["blind"]) == (0.25, "fused", ["a", "b"], True)
    assert (report["settled"], report["open"]) == (2, 1)
    assert report["sealed"]["regimes"]["hits"] == 1
    assert "in a + b" in book.markdown()
    assert "- a + b: 40 µs, 50 µs predicted for 2 rows in one kernel" in book.markdown()
    late = book.settle(made, [item("b + c", 40.0, clock.after(seconds=1), steps=["b", "c"])]).items[0]
    assert late["repeat"], "b was settled with a"
    unknown = book.settle(made, [item("c + z", 40.0, clock.time.isoformat(), steps=["c", "z"])]).items[0]
    assert unknown["reason"] == "no prediction of this name was sealed"
    assert book.verify() == []


def test_an_altered_seal_makes_no_evidence(book: Ledger, clock: Clock) -> None:
    made, other = seal(book), seal(book, row("c"))
    book.settle(made, [item("a", 8.0, clock.after(seconds=1))])
    book.settle(other, [item("c", 8.0, clock.after(seconds=1))])
    assert book.report()["settled"] == 2
    tamper(book.path, ("UPDATE record SET content = replace(content, '10.0', '8.0') WHERE number = 1", ()))
    for add in (
        lambda: book.settle(made, [item("b", 20.0, clock.after(seconds=1))]),
        lambda: book.settle(other, [item("c", 20.0, clock.after(seconds=1))]),
        lambda: seal(book),
    ):
        with pytest.raises(ledger.Broken, match=r"record 1: its content was changed.* see all of it with `ridgeline"):
            add()
    assert book.head()[0] == 4, "nothing was added"
    report = book.report()
    assert report["intact"] is False
    assert [(case["name"], case["sealed"], case["reason"]) for case in report["cases"]] == [
        ("a", False, ledger.ALTERED),
        ("c", True, ""),
    ]


def test_nothing_before_a_break_counts(book: Ledger, clock: Clock) -> None:
    """Record 2 was replaced by one with a right hash of its own; what stands before it nobody vouches for any more."""
    made = seal(book, row("a"))
    book.settle(made, [item("a", 8.0, clock.after(seconds=1))])
    later = seal(book, row("c"))
    book.settle(later, [item("c", 8.0, clock.after(seconds=1))])
    rewrite(book.path, 2, content=lambda text: text.replace("8.0", "10.0"), follow=False)
    assert [finding.what for finding in book.verify()] == ["replaced"]
    assert [(case["name"], case["sealed"]) for case in book.report()["cases"]] == [("a", False), ("c", True)]


# Only growing


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE record SET content = '{}' WHERE number = 1",
        "UPDATE OR REPLACE record SET number = 1 WHERE number = 2",
        "DELETE FROM record WHERE number = 2",
        "DELETE FROM record",
        "INSERT OR REPLACE INTO record SELECT 1, schema, kind, time, ridgeline, content, content_hash, previous, hash FROM record WHERE number = 2",
        "INSERT INTO record SELECT 4, schema, kind, time, ridgeline, content, content_hash, previous, hash FROM record WHERE number = 2",
        "INSERT INTO record SELECT 3, schema, kind, time, ridgeline, content, content_hash, previous, hash FROM record WHERE number = 2",
        "INSERT OR REPLACE INTO record SELECT 1, schema, kind, time, ridgeline, content, content_hash, hash, hash FROM record WHERE number = 2",
        "INSERT OR REPLACE INTO record SELECT 2, schema, kind, time, ridgeline, content, content_hash, hash, hash FROM record WHERE number = 2",
        "INSERT INTO record SELECT 4, schema, kind, time, ridgeline, content, content_hash, hash, hash FROM record WHERE number = 2",
        "INSERT INTO record SELECT NULL, schema, kind, time, ridgeline, content, content_hash, previous, hash FROM record WHERE number = 2",
        "UPDATE head SET count = 1, hash = (SELECT hash FROM record WHERE number = 1)",
        "UPDATE head SET only_row = 2",
        "UPDATE OR IGNORE head SET hash = 'x'",
        "DELETE FROM head",
        "INSERT OR REPLACE INTO head VALUES (1, 0, '')",
        "INSERT OR IGNORE INTO head VALUES (1, 0, '')",
    ],
)
def test_a_normal_connection_cannot_change_anything(book: Ledger, statement: str) -> None:
    seal(book), seal(book)
    before = rows_of(book.path), book.head()
    raw = sqlite3.connect(book.path)
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(statement)
    raw.commit()
    raw.close()
    assert (rows_of(book.path), book.head()) == before
    assert book.verify() == []


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six records of both kinds, as bytes to copy from."""
    clock = Clock()
    book = open_ledger(tmp_path_factory.mktemp("original") / "book.sqlite", clock)
    for number in range(3):
        made = book.seal([row(f"k{number}"), row("ä|b", 20.0)], "text", "h200-sxm").id
        clock.after(seconds=1)
        book.settle(made, [item(f"k{number}", 8.0, clock.time.isoformat())])
    assert book.verify() == []
    return book.path


@pytest.fixture(scope="module")
def copy(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copy") / "book.sqlite"


def flipped(value: Any, bit: int) -> Any:
    if isinstance(value, int):
        return value ^ (1 << bit % 62)
    raw = bytearray(value.encode())
    raw[bit // 8 % len(raw)] ^= 1 << bit % 8
    return bytes(raw)


@law(120)
@given(number=st.integers(1, 6), column=st.sampled_from(COLUMNS), bit=st.integers(0, 8 * 700))
def test_one_flipped_bit_of_any_field_is_found(original: Path, copy: Path, number: int, column: str, bit: int) -> None:
    shutil.copy(original, copy)
    value = rows_of(copy)[number - 1][COLUMNS.index(column)]
    new = flipped(value, bit)
    assume(column != "number" or not 1 <= new <= 6)  # that place is taken; see the permutations below
    tamper(
        copy,
        (
            f"UPDATE record SET {column} = {'?' if isinstance(new, int) else 'CAST(? AS TEXT)'} WHERE number = ?",
            (new, number),
        ),
    )
    book = open_ledger(copy)
    findings = book.verify()
    assert findings
    if column != "number":
        assert number in {finding.record for finding in findings}, findings
        assert all(finding.text.startswith(f"record {finding.record}") for finding in findings if finding.record)
    json.dumps([book.report(), book.export()], allow_nan=False)
    book.markdown().encode()


def test_every_single_bit_is_watched(original: Path) -> None:
    """All bits of all fields of one record of each kind, one by one."""
    records = [ledger.Record(*record) for record in rows_of(original)[:2]]
    head = (2, records[1].hash)
    assert ledger.chain(records, head) == []
    for place, record in enumerate(records):
        for column, value in record.row().items():
            bits = 62 if isinstance(value, int) else 8 * len(value.encode())
            for bit in range(bits):
                new = flipped(value, bit)
                changed = replace(
                    record, **{column: new if isinstance(new, int) else new.decode(errors="surrogateescape")}
                )
                touched = sorted([*records[:place], changed, *records[place + 1 :]], key=lambda each: each.number)
                assert ledger.chain(touched, head), (place, column, bit)


@law(60)
@given(column=st.sampled_from(["count", "hash"]), bit=st.integers(0, 8 * 64 - 1))
def test_one_flipped_bit_of_the_head_is_found(original: Path, copy: Path, column: str, bit: int) -> None:
    shutil.copy(original, copy)
    new = flipped(open_ledger(copy).head()[column == "hash"], bit)
    tamper(copy, (f"UPDATE head SET {column} = {'?' if isinstance(new, int) else 'CAST(? AS TEXT)'}", (new,)))
    assert open_ledger(copy).verify()


@law(60)
@given(
    number=st.integers(1, 6),
    column=st.sampled_from(COLUMNS[1:]),
    value=st.none() | st.binary(max_size=4) | st.integers(-9, 9) | st.floats() | st.text(max_size=4),
)
def test_any_other_value_in_any_field_is_found(
    original: Path, copy: Path, number: int, column: str, value: Any
) -> None:
    shutil.copy(original, copy)
    before = rows_of(copy)
    try:
        tamper(copy, (f"UPDATE record SET {column} = ? WHERE number = ?", (value, number)))
    except (sqlite3.IntegrityError, UnicodeEncodeError):
        assume(False)  # absent values and broken text do not get in
    with sqlite3.connect(copy) as raw:
        same = raw.execute(f"SELECT {column} FROM record WHERE number = ?", (number,)).fetchone()[0]
    raw.close()
    assume(same != before[number - 1][COLUMNS.index(column)])
    book = open_ledger(copy)
    assert book.verify()
    json.dumps([book.report(), book.export()], allow_nan=False)
    book.markdown().encode()


def fill(path: Path, records: list[tuple[Any, ...]]) -> None:
    marks = ", ".join("?" * len(COLUMNS))
    tamper(path, ("DELETE FROM record", ()), *((f"INSERT INTO record VALUES ({marks})", record) for record in records))


@law(100)
@given(order=st.permutations(range(6)))
def test_any_other_order_is_found(original: Path, copy: Path, order: list[int]) -> None:
    assume(order != sorted(order))
    shutil.copy(original, copy)
    records = rows_of(copy)
    fill(copy, [(number, *records[place][1:]) for number, place in enumerate(order, 1)])
    findings = open_ledger(copy).verify()
    assert "moved" in {finding.what for finding in findings}
    first = next(number for number, place in enumerate(order, 1) if place != number - 1)
    assert findings[0].record == first
    came = order[first - 1]  # the place of the record it was made after, where that is now
    assert findings[0].text.endswith(
        f"made after what is now record {order.index(came - 1) + 1}" if came else "after none"
    )


@law(100)
@given(kept=st.lists(st.booleans(), min_size=6, max_size=6), renumber=st.booleans())
def test_any_removal_is_found(original: Path, copy: Path, kept: list[bool], renumber: bool) -> None:
    assume(not all(kept))
    shutil.copy(original, copy)
    records = [record for record, keep in zip(rows_of(copy), kept, strict=True) if keep]
    if renumber:
        records = [(number, *record[1:]) for number, record in enumerate(records, 1)]
    fill(copy, records)
    findings = open_ledger(copy).verify()
    assert findings
    if not renumber:
        gone = [number for number, keep in enumerate(kept, 1) if not keep]
        assert next(finding.record for finding in findings if finding.what == "removed") == gone[0]


@law(50)
@given(place=st.integers(1, 7), source=st.integers(0, 5), consistent=st.booleans())
def test_any_insertion_is_found(original: Path, copy: Path, place: int, source: int, consistent: bool) -> None:
    """A copy of a record pushed in, as it is or with previous and hash made to fit what is before it."""
    shutil.copy(original, copy)
    records = [record[1:] for record in rows_of(copy)]
    before = records[place - 2][-1] if place > 1 else GENESIS
    new = (*records[source][:-2], before, "")
    made = ledger.Record(0, *new).own() if consistent else records[source][-1]
    records.insert(place - 1, (*(new if consistent else records[source])[:-1], made))
    fill(copy, [(number, *record) for number, record in enumerate(records, 1)])
    findings = open_ledger(copy).verify()
    assert findings
    assert min(finding.record or 9 for finding in findings) in (place, place + 1)


def rewrite(path: Path, start: int, content: Any, follow: bool = True) -> None:
    """Change a record's content and recompute its hash; with `follow` every later one and the head too."""
    with sqlite3.connect(path) as raw:
        fixed = raw.execute("SELECT count, hash FROM head").fetchone()
    raw.close()
    records = [ledger.Record(*record) for record in rows_of(path)]
    previous = records[start - 2].hash if start > 1 else GENESIS
    done = records[: start - 1]
    for record in records[start - 1 :]:
        if record.number > start and not follow:
            done.append(record)
            continue
        text = content(record.content) if record.number == start else record.content
        for old, new in zip(records, done, strict=False):
            text = text.replace(old.hash, new.hash)
        made = replace(record, content=text, content_hash=ledger.text_hash(text), previous=previous)
        made = replace(made, hash=made.own())
        done.append(made)
        previous = made.hash
    head = (done[-1].number, done[-1].hash) if follow else fixed
    fill(path, [tuple(record.row().values()) for record in done])
    tamper(path, ("UPDATE head SET count = ?, hash = ?", head))


def test_what_only_a_hash_kept_elsewhere_finds(book: Ledger, clock: Clock) -> None:
    """The limits of a chain: cut back with its head, or recomputed from the start, it looks whole."""
    made = seal(book)
    book.settle(made, [item("a", 30.0, clock.after(seconds=1))])
    committed = book.head()[1]
    seal(book, row("c"))
    assert book.verify(expect=committed) == []
    assert book.verify(expect=book.head()[1]) == []

    shutil.copy(book.path, book.path.with_name("cut"))
    cut = open_ledger(book.path.with_name("cut"))
    last = rows_of(cut.path)[0][-1]
    tamper(cut.path, ("DELETE FROM record WHERE number > 1", ()), ("UPDATE head SET count = 1, hash = ?", (last,)))
    assert cut.verify() == []
    assert [finding.what for finding in cut.verify(expect=committed)] == ["expected"]

    rewrite(book.path, 1, content=lambda text: text.replace('"time_us":10.0', '"time_us":30.0'))
    assert book.verify() == []
    assert book.report()["sealed"]["error"]["median"] == 0.0  # polished
    (finding,) = book.verify(expect=committed)
    assert committed in finding.text


@pytest.mark.parametrize("expect", ["", "abc", "0" * 63, "G" * 64])
def test_a_part_of_a_hash_is_not_enough_to_expect(book: Ledger, expect: str) -> None:
    seal(book)
    with pytest.raises(InputError, match="64 hex digits"):
        book.verify(expect=expect)


def test_a_well_hashed_lie_is_found(book: Ledger, clock: Clock) -> None:
    """Measured before the sealing, and a record that calls it sealed all the same."""
    book.settle(seal(book), [item("a", 8.0, NOON.isoformat())])
    assert book.verify() == []

    def lie(text: str) -> str:
        content = json.loads(text)
        content["items"][0] |= {"sealed": True, "reason": ""}
        return json.dumps(content, sort_keys=True, separators=(",", ":"))

    rewrite(book.path, 2, content=lie)
    (finding,) = book.verify()
    assert (finding.record, finding.what) == (2, "judged")
    assert book.report()["settled"] == 0


def test_evidence_for_a_seal_that_is_not_there_is_found(book: Ledger, clock: Clock) -> None:
    made = book.find(seal(book))
    book.settle(made.id, [item("a", 8.0, clock.after(seconds=1))])
    rewrite(book.path, 2, content=lambda text: text.replace(made.hash, "f" * 64))
    assert [(finding.record, finding.what) for finding in book.verify()] == [(2, "judged")]
    assert book.report()["cases"] == []


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("seal", {"predictions": []}),
        ("seal", {"predictions": [{"time_us": 3}]}),
        ("seal", {"predictions": [{"name": "a", "time_us": "3"}]}),
        ("seal", {"machine": "h200"}),
        ("seal", {"environment": []}),
        ("settle", {"items": [{"name": "a"}]}),
        ("settle", {"items": [{"name": "a", "measured_us": 3, "sealed": False, "reason": ""}]}),
        (
            "settle",
            {"items": [{"name": "a", "measured_us": 3, "sealed": True, "reason": "", "claimed": {"time_us": "x"}}]},
        ),
        ("settle", {"items": {"name": "a"}}),
        ("settle", {"seal": None}),
    ],
)
def test_a_well_hashed_record_of_another_form_is_found(
    book: Ledger, clock: Clock, kind: str, change: dict[str, Any]
) -> None:
    seal(book)
    book.settle(seal(book, row("a")), [item("a", 8.0, clock.after(seconds=1))])
    number = 1 if kind == "seal" else 3
    rewrite(book.path, number, content=lambda text: json.dumps({**json.loads(text), **change}))
    assert [(finding.record, finding.what) for finding in book.verify()] == [(number, "schema")]
    json.dumps([book.report(), book.export()], allow_nan=False)
    assert "This ledger is broken" in book.markdown()


def test_times_that_run_backwards_are_found(book: Ledger) -> None:
    seal(book), seal(book)
    records = [ledger.Record(*record) for record in rows_of(book.path)]
    changed = replace(records[1], time="2026-02-28T12:00:00.000000+00:00")
    changed = replace(changed, hash=changed.own())
    fill(book.path, [tuple(records[0].row().values()), tuple(changed.row().values())])
    tamper(book.path, ("UPDATE head SET hash = ?", (changed.hash,)))
    assert [(finding.record, finding.what) for finding in book.verify()] == [(2, "time")]


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DROP TRIGGER record_stays", "'record_stays' is missing"),
        ("DROP TABLE head", "no such table: head"),
        ("ALTER TABLE record RENAME COLUMN kind TO sort", "no such column: kind"),
        ("ALTER TABLE head ADD COLUMN more TEXT", "'head' was changed"),
        ("CREATE TABLE extra (x)", "'extra' does not belong to a ledger"),
        ("CREATE TRIGGER extra AFTER INSERT ON record BEGIN SELECT 1; END", "'extra' does not belong to a ledger"),
    ],
)
def test_tables_that_are_not_as_made_are_found(book: Ledger, statement: str, told: str) -> None:
    seal(book)
    raw = sqlite3.connect(book.path)
    raw.execute("DROP TRIGGER head_is_kept") if "head" in statement else None
    raw.execute(statement)
    raw.commit()
    raw.close()
    assert any(told in finding.text for finding in book.verify())


def test_a_ledger_broken_at_its_end_takes_no_more(book: Ledger) -> None:
    seal(book), seal(book)
    tamper(book.path, ("DELETE FROM record WHERE number = 2", ()))
    with pytest.raises(ledger.Broken, match="takes nothing more: record 2 is missing; see all of it with `ridgeline"):
        seal(book)
    assert [(finding.record, finding.text) for finding in book.verify()] == [(2, "record 2 is missing")]


def test_pages_of_the_file_that_were_overwritten_are_found(book: Ledger) -> None:
    for number in range(30):
        seal(book, *(row(f"{number} {place}") for place in range(20)))
    raw = bytearray(book.path.read_bytes())
    raw[3 * 4096 : 4 * 4096] = bytes(4096)
    book.path.write_bytes(raw)
    assert book.verify()


# What the record says


def test_the_report_is_arithmetic(book: Ledger, clock: Clock) -> None:
    first = seal(
        book,
        row("a", 10.0, low_us=8.0, high_us=12.0),
        row("b", 30.0, low_us=25.0, high_us=35.0, bound="compute"),
        row("n", 10.0, family="norm"),
        row("never run", 10.0),
    )
    at = clock.after(seconds=1)
    book.settle(
        first,
        [
            item("a", 8.0, at, bound_observed="memory"),  # + 25 %, on the edge of its interval
            item("b", 40.0, at, bound_observed="memory", cause="spills"),  # - 25 %, outside; regime missed
            item("n", 5.0, at),  # + 100 %, regime and interval not known
        ],
    )
    clock.after(days=40)
    second = seal(book, row("late", 10.0, low_us=9.0, high_us=11.0))
    book.settle(second, [item("late", 10.0, clock.after(seconds=1), bound_observed="memory")])
    report = book.report()
    assert (report["seals"], report["predictions"], report["settled"], report["open"]) == (2, 5, 4, 1)
    told = report["sealed"]
    assert told["cases"] == 4
    assert (told["regimes"]["hits"], told["regimes"]["cases"]) == (2, 3)
    assert told["error"] == {
        "cases": 4,
        "median": pytest.approx(0.25),  # of 0, 0.25, 0.25, 1
        "p90": pytest.approx(0.25 + 0.7 * 0.75),  # the 0.9 x 3 = 2.7th of them
        "signed": pytest.approx(0.125),  # of -0.25, 0, 0.25, 1
    }
    assert [
        (found["family"], found["month"], found["cases"], pytest.approx(found["signed"])) for found in told["by_family"]
    ] == [
        ("gemm", "2026-03", 2, 0.0),
        ("gemm", "2026-04", 1, 0.0),
        ("gemm", "all", 3, 0.0),
        ("norm", "2026-03", 1, 1.0),
        ("norm", "all", 1, 1.0),
    ]
    assert [(found["seal"], found["cases"]) for found in told["by_seal"]] == [(first, 3), (second, 1)]
    assert (told["intervals"]["hits"], told["intervals"]["cases"]) == (2, 3)
    # 5 us are the floor of all: 5/8, 5/5 and 5/10 of the roof of memory, 5/40 of that of compute
    reached = {found["bound"]: (found["cases"], found["median"], found["low"]) for found in told["efficiency"]}
    assert reached == {"memory": (3, 0.625, 0.5625), "compute": (1, 0.125, 0.125)}
    assert [case["name"] for case in told["worst"]] == ["n", "b", "a", "late"]  # factors 2, 4/3, 5/4, 1
    assert told["worst"][1]["cause"] == "spills"
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_misses_beyond_all_measure_are_ranked_too(book: Ledger, clock: Clock) -> None:
    made = seal(book, row("short", 1e-9), row("long", 1e15), row("right", 3.0))
    at = clock.after(seconds=1)
    book.settle(made, [item("right", 3.0, at), item("long", 1.0, at), item("short", 1e15, at)])
    worst = book.report()["sealed"]["worst"]
    assert [case["name"] for case in worst] == ["short", "long", "right"]  # factors 1e24, 1e15, 1
    assert [case["error"] for case in worst] == [-1.0, pytest.approx(1e15), 0.0]


def test_an_empty_group_has_no_rates(book: Ledger) -> None:
    seal(book)
    told = book.report()["sealed"]
    assert told["regimes"] == {"cases": 0, "hits": 0, "share": None, "low": None, "high": None}
    assert told["error"] == {"cases": 0, "median": None, "p90": None, "signed": None}
    assert told["intervals"]["verdict"] == "not known"


def test_the_uncertainty_of_a_share_is_wilsons() -> None:
    """Both ends solve |p - hits/n| = z sqrt(p (1 - p) / n); known values for 8 of 10 and for none of 10."""
    found = ledger.share(8, 10)
    for end in (found["low"], found["high"]):
        assert abs(end - 0.8) == pytest.approx(1.959964 * (end * (1 - end) / 10) ** 0.5)
    assert (found["low"], found["high"]) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert ledger.share(0, 10)["low"] == 0.0
    assert ledger.share(0, 10)["high"] == pytest.approx(0.2775, abs=1e-4)
    assert ledger.share(10, 10)["high"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("inside", "count", "verdict"),
    [
        (80, 100, "as promised"),
        (60, 100, "too narrow"),
        (99, 100, "too wide"),
        (2, 2, "too few to tell"),
        (0, 3, "too narrow"),
    ],
)
def test_intervals_are_held_to_what_they_promise(inside: int, count: int, verdict: str) -> None:
    case = {"bound_predicted": None, "bound_observed": None, "error": None, "low_us": 9.0, "high_us": 11.0}
    cases = [{**case, "measured_us": 10.0 if place < inside else 12.0} for place in range(count)]
    assert ledger.summary(cases)["intervals"]["verdict"] == verdict


def test_the_page_shows_every_seal_and_what_became_of_it(book: Ledger, clock: Clock) -> None:
    made = book.seal(
        [row("a|b <c>", 10.0, low_us=8.0, high_us=12.0), row("open")],
        "text",
        "h200-sxm",
        {"host": "secret-host"},
        "*try*",
    )
    at = clock.after(seconds=1)
    book.settle(
        made.id,
        [
            item("a|b <c>", 8.0, at, bound_observed="l2", cause="L2\nkept it"),
            item("a|b <c>", 9.0, at),
            item("open", 9.0, None),
        ],
    )
    page = book.markdown()
    lines = page.splitlines()
    assert lines[2] == f"Head: `{book.head()[1]}` after 2 records."
    assert f"verify --expect {book.head()[1]}" in page
    assert f"## {made.id}" in lines
    assert f"- content `{made.content_hash}`" in lines
    assert "| a\\|b \\<c\\> | memory | 5 | 10 | 8 to 12 | 8 | +25.0% | l2 | L2 kept it |" in lines
    assert "| open | memory | 5 | 10 |  | open |  |  |  |" in lines
    assert "- a\\|b \\<c\\>: 9 µs, repeat, does not count" in lines
    assert "- open: 9 µs, unsealed: not known when it was measured" in lines
    assert "\\*try\\*" in page
    assert "secret-host" not in page
    assert "broken" not in page
    tamper(book.path, ("UPDATE record SET ridgeline = '9' WHERE number = 2", ()))
    assert "**This ledger is broken.**" in book.markdown()
    assert "- record 2: a field or its hash was changed" in book.markdown().splitlines()


def test_the_export_is_every_record_as_it_stands(book: Ledger, clock: Clock) -> None:
    book.settle(seal(book), [item("a", 8.0, clock.after(seconds=1))])
    records = book.export()
    assert [record["kind"] for record in records] == ["seal", "settle"]
    assert records[1]["previous"] == records[0]["hash"]
    assert records[1]["content"]["seal"] == records[0]["hash"]
    assert json.loads(json.dumps(records)) == records


# Bad input


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "nothing to seal"),
        ([{"time_us": 3.0}], "prediction 1 has no name"),
        ([row("a"), row(" ")], "prediction 2 has no name"),
        (["a"], "prediction 1 has no name"),
        ([row("a"), row("a")], "two predictions are named 'a'"),
        ([row("a", float("nan"))], "time_us of prediction 'a' is nan"),
        ([row("a", 0)], "time_us of prediction 'a' is 0"),
        ([row("a", 10**400)], "time_us of prediction 'a' is 1000"),
        ([row("a", True)], "time_us of prediction 'a' is True"),
        ([row("a", floor_us=-1)], "floor_us of prediction 'a' is -1"),
        ([row("a", low_us=3.0)], "the interval of prediction 'a' is 3.0 to None"),
        ([row("a", low_us=3.0, high_us=2.0)], "the interval of prediction 'a' is 3.0 to 2.0"),
        ([row("a", shape={1, 2})], "cannot be written as JSON: a set"),
        ([row("a", share=float("inf"))], "cannot be written as JSON"),
    ],
)
def test_predictions_that_cannot_be_settled_are_not_sealed(book: Ledger, rows: list[Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        book.seal(rows, "text", "h200-sxm")
    assert not book.path.exists()


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([], "nothing to settle"),
        ([{"measured_us": 3.0}], "a measured item has no name"),
        (["a"], "a measured item has no name"),
        ([{"name": "a"}], "'a' has no measured_us"),
        ([item("a", -1.0, None)], "measured_us of 'a' is -1.0"),
        ([item("a", float("inf"), None)], "measured_us of 'a' is inf"),
        ([item("a", 1.0, "yesterday")], "measured_at of 'a' is 'yesterday'"),
        ([{"name": "a", "measured_us": 1.0, "measured_at": 12}], "measured_at of 'a' is 12"),
        ([item("a", 1.0, None, predicted_us="x")], "time_us of the prediction of 'a' is 'x'"),
        ([item("a", 1.0, None, prediction={"low_us": -1})], "low_us of the prediction of 'a' is -1"),
        ([item("a", 1.0, None, prediction="x")], "the prediction of 'a' is 'x'"),
        ([item("a", 1.0, None, steps="ab")], "the steps of 'a' are 'ab'"),
        ([item("a", 1.0, None, steps=["b"])], "the steps of 'a' are"),
        ([item("a", 1.0, None, steps=["b", "b"])], "the steps of 'a' are"),
        ([item("a", 1.0, None, cause={1})], "the measured item 'a' cannot be written as JSON"),
    ],
)
def test_measurements_that_say_nothing_are_not_settled(book: Ledger, items: list[Any], told: str) -> None:
    made = seal(book)
    with pytest.raises(InputError, match=told):
        book.settle(made, items)
    assert book.head()[0] == 1


# Mostly what can be kept, now and then what cannot: a refusal must not hide what comes after it.
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-9, 9) | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
NAME = st.sampled_from("abcd") | st.sampled_from("abcd") | st.text(st.characters(), min_size=1, max_size=5)
TIME = st.floats(1e-9, 1e15) | st.integers(1, 9) | st.none() | st.sampled_from([1e-9, 1e15, 0, -1, True, "1", 1e16])
BEGUN = st.just("2026-03-01T12:00:01+00:00") | st.datetimes().map(str) | st.none() | st.sampled_from(["", "x", 3])
ROW = st.fixed_dictionaries(
    {"name": NAME},
    optional=dict.fromkeys(("op", "family", "shape", "bound"), PLAIN)
    | {"time_us": TIME, "floor_us": TIME, "low_us": st.just(1.0), "high_us": st.just(9.0)},
)
ITEM = st.fixed_dictionaries(
    {"name": NAME, "measured_us": st.floats(1e-9, 1e15) | TIME, "measured_at": BEGUN},
    optional=dict.fromkeys(("bound_observed", "cause", "bound_predicted"), PLAIN)
    | {"predicted_us": TIME, "floor_us": TIME, "prediction": ROW | PLAIN},
)


@law(200)
@given(rows=st.lists(ROW, min_size=1, max_size=2), items=st.lists(ITEM, min_size=1, max_size=2), more=PLAIN)
def test_whatever_comes_in_is_refused_or_kept_whole(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], items: list[Any], more: Any
) -> None:
    clock = Clock()
    book = open_ledger(tmp_path_factory.mktemp("any") / "book.sqlite", clock)
    made = seal(book)
    wanted = 1
    try:
        made = book.seal([*rows, row("z")], "text", "h200-sxm", {"more": more}).id
        wanted += 1
    except InputError:
        pass
    clock.after(seconds=2)
    try:
        book.settle(made, [*items, item("z", 1.0, clock.time.isoformat())], {"more": more})
        wanted += 1
    except InputError:
        pass
    assert (book.head()[0], book.verify()) == (wanted, [])
    json.dumps([book.report(), book.export()], allow_nan=False)
    book.markdown().encode()


def test_an_unknown_or_ambiguous_seal_is_named(book: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    made = seal(book)
    for wrong in ("", made[:3], "ffffffffffff", made + "0"):
        with pytest.raises(InputError, match=f"unknown seal '{wrong}'"):
            book.settle(wrong, [item("a", 1.0, None)])
    monkeypatch.setattr(ledger, "LEAST", 0)
    seal(book)
    with pytest.raises(InputError, match=r"'' begins 2 seals: .*; give more digits"):
        book.find("")
    assert book.head()[0] == 2


def test_a_clock_set_back_does_not_seal(book: Ledger, clock: Clock) -> None:
    seal(book)
    clock.after(seconds=-1)
    assert book.find(seal(book)).time == "2026-03-01T12:00:00.000000+00:00"
    clock.after(seconds=-2)
    with pytest.raises(InputError, match=r"the clock says 2026-03-01T11:59:57.*set the clock right"):
        seal(book)
    assert book.verify() == []


# Files


def test_reading_makes_no_file(book: Ledger) -> None:
    for read in (
        book.verify,
        book.report,
        book.markdown,
        book.export,
        book.head,
        lambda: book.settle("abcd", [item("a", 1, None)]),
    ):
        with pytest.raises(InputError, match=r"there is no ledger .*: seal something first"):
            read()
    assert not book.path.exists()


def test_an_empty_file_is_a_ledger_to_be(book: Ledger) -> None:
    book.path.touch()
    with pytest.raises(InputError, match=r"there is nothing in .* yet"):
        book.verify()
    seal(book)
    assert book.verify() == []


def test_files_that_are_no_ledger_are_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "notes #1?.txt", tmp_path / "other.sqlite"
    text.write_text("some notes, long enough to be taken for anything at all\n" * 20)
    raw = sqlite3.connect(other)
    raw.execute("CREATE TABLE mine (x)")
    raw.close()
    for path, told in (
        (text, "it is no ledger; name another file"),
        (other, "it is a database, but no ledger"),
        (tmp_path, "it is no file"),
        (Path("/dev/null"), "it is no file"),
        (tmp_path / "none" / "book.sqlite", "there is no such folder; create it first"),
    ):
        before = path.read_bytes() if path.is_file() else b""
        with pytest.raises(InputError, match=told):
            seal(open_ledger(path))
        with pytest.raises(InputError):
            open_ledger(path).verify()
        assert not path.is_file() or path.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes #1?.txt", "other.sqlite"]


def test_a_newer_schema_is_refused(book: Ledger) -> None:
    seal(book)
    raw = sqlite3.connect(book.path)
    raw.execute("PRAGMA user_version = 2")
    raw.close()
    for ask in (book.verify, book.report, lambda: seal(book)):
        with pytest.raises(InputError, match="has schema 2, known here is 1; install a newer ridgeline"):
            ask()


def test_the_users_own_ledger_gets_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "folder", lambda kind: tmp_path / kind / "ridgeline")
    seal(open_ledger())
    assert open_ledger(tmp_path / "data" / "ridgeline" / "ledger.sqlite").head()[0] == 1
    monkeypatch.setattr(ledger, "folder", lambda kind: Path("/dev/null/ridgeline"))
    with pytest.raises(InputError, match="cannot make the folder '/dev/null/ridgeline'"):
        seal(open_ledger())


def test_a_locked_ledger_says_so(book: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    seal(book)
    monkeypatch.setattr(ledger.store, "PATIENCE", 0.05)
    raw = sqlite3.connect(book.path, isolation_level=None)
    raw.execute("BEGIN IMMEDIATE")
    with pytest.raises(InputError, match="another process kept it locked"):
        seal(book)
    assert book.verify() == []  # readers go on
    raw.close()
    seal(book)


def run(code: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder another user can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


def _as_nobody(path: Path, tell: Any) -> None:
    if os.geteuid() == 0:
        os.setuid(65534)  # root may write everything
    book = open_ledger(path)
    found: list[Any] = [len(book.verify()), book.report()["predictions"]]
    try:
        seal(book)
    except InputError as error:
        found.append(str(error))
    tell.send(found)


@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o777), (0o444, 0o555), (0o666, 0o555)])
def test_a_read_only_ledger_can_be_read(open_folder: Path, file: int, folder: int) -> None:
    path = open_folder / "book.sqlite"
    seal(open_ledger(path))
    path.chmod(file)
    open_folder.chmod(folder)
    heard, tell = get_context("fork").Pipe()
    reader = get_context("fork").Process(target=_as_nobody, args=(path, tell))
    reader.start()
    assert heard.poll(30)
    findings, predictions, told = heard.recv()
    reader.join()
    assert (findings, predictions) == (0, 2)
    assert told.startswith(f"cannot use the ledger '{path}': it ")
    assert "change its rights" in told or "check the folder and its rights" in told
    assert open_ledger(path).head()[0] == 1


SEALING = """
import sys
from ridgeline.gaps.ledger import open_ledger
path, who, count = sys.argv[1:]
for turn in range(int(count)):
    made = open_ledger(path).seal([{"name": f"{who} {turn}", "time_us": 1.0}], "text", "h200-sxm")
    print(made.hash, flush=True)
"""


def test_eight_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "book.sqlite"
    writers = [run(SEALING, str(path), str(who), "50") for who in range(8)]
    ends = [writer.communicate() for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 8, [end[1] for end in ends]
    book = open_ledger(path)
    assert book.verify() == []
    records = book.export()
    assert len(records) == 8 * 50
    assert {record["hash"] for record in records} == {line for end in ends for line in end[0].split()}
    names = {record["content"]["predictions"][0]["name"] for record in records}
    assert names == {f"{who} {turn}" for who in range(8) for turn in range(50)}
    assert [each.name for each in tmp_path.iterdir()] == ["book.sqlite"]


def test_what_seal_returned_survives_a_kill(tmp_path: Path) -> None:
    book = open_ledger(tmp_path / "book.sqlite")
    chance = random.Random(24)
    returned: list[str] = []
    for turn in range(12):
        writer = run(SEALING, str(book.path), str(turn), "100000")
        assert writer.stdout is not None
        returned += [writer.stdout.readline().strip() for _ in range(1 + chance.randrange(20))]
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(chance.random() * 0.01)
        writer.send_signal(signal.SIGKILL)
        returned += [line.strip() for line in writer.communicate()[0].splitlines() if len(line) == 64]
        assert writer.returncode == -signal.SIGKILL
        assert book.verify() == []
        kept = [record["hash"] for record in book.export()]
        assert set(returned) <= set(kept)
        assert len(kept) - len(returned) <= turn + 1  # at most the one in flight, sealed but not told
    assert len(returned) >= 12


FULL = """
import resource, sys
from ridgeline.core.errors import InputError
from ridgeline.gaps.ledger import open_ledger
path, limit = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
for turn in range(40):
    try:
        made = open_ledger(path).seal([{"name": "x" * 1500, "time_us": 1.0}], "text", "h200-sxm")
    except InputError as error:
        print(error)
        break
    print(made.hash)
"""


@pytest.mark.parametrize("limit", [0, 100, 3000, 4096, 9000, 20480, 30000, 50001])
def test_a_full_disk_loses_nothing(tmp_path: Path, limit: int) -> None:
    """No file may grow beyond `limit` bytes: the write fails in the journal or in the file itself."""
    path = tmp_path / "book.sqlite"
    writer = run(FULL, str(path), str(limit))
    out, trouble = writer.communicate()
    assert writer.returncode == 0, trouble
    *returned, told = out.splitlines()
    assert told.startswith(f"cannot use the ledger '{path}': the disk is full")
    assert "what was sealed before is safe" in told
    assert bool(returned) is (limit > 20000)
    book = open_ledger(path)
    if returned:
        assert [record["hash"] for record in book.export()] == returned
        assert book.verify() == []
    seal(book)  # with room again, it goes on
    assert book.head()[0] == len(returned) + 1
    assert book.verify() == []
