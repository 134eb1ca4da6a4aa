"""Any bit, value, order, removal or insertion that someone changes in a ledger is found."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from ledger_samples import COLUMNS, Clock, item, refill, row, stored_rows, tamper

from ridgeline.gaps.ledger import open_ledger
from ridgeline.gaps.ledger.record import GENESIS, Record
from ridgeline.gaps.ledger.verify import check_chain
from strategies import law


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
    value = stored_rows(copy)[number - 1][COLUMNS.index(column)]
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
    records = [Record(*record) for record in stored_rows(original)[:2]]
    head = (2, records[1].hash)
    assert check_chain(records, head) == []
    for place, record in enumerate(records):
        for column, value in record.row().items():
            bits = 62 if isinstance(value, int) else 8 * len(value.encode())
            for bit in range(bits):
                new = flipped(value, bit)
                changed = replace(
                    record, **{column: new if isinstance(new, int) else new.decode(errors="surrogateescape")}
                )
                touched = sorted([*records[:place], changed, *records[place + 1 :]], key=lambda each: each.number)
                assert check_chain(touched, head), (place, column, bit)


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
    before = stored_rows(copy)
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


@law(100)
@given(order=st.permutations(range(6)))
def test_any_other_order_is_found(original: Path, copy: Path, order: list[int]) -> None:
    assume(order != sorted(order))
    shutil.copy(original, copy)
    records = stored_rows(copy)
    refill(copy, [(number, *records[place][1:]) for number, place in enumerate(order, 1)])
    findings = open_ledger(copy).verify()
    assert "moved" in {finding.what for finding in findings}
    first = next(number for number, place in enumerate(order, 1) if place != number - 1)
    assert findings[0].record == first
    came = order[first - 1]  # the place of the record it was made after, where that is now
    assert findings[0].text.endswith(
        f"it followed what is now record {order.index(came - 1) + 1}" if came else "after none"
    )


@law(100)
@given(kept=st.lists(st.booleans(), min_size=6, max_size=6), renumber=st.booleans())
def test_any_removal_is_found(original: Path, copy: Path, kept: list[bool], renumber: bool) -> None:
    assume(not all(kept))
    shutil.copy(original, copy)
    records = [record for record, keep in zip(stored_rows(copy), kept, strict=True) if keep]
    if renumber:
        records = [(number, *record[1:]) for number, record in enumerate(records, 1)]
    refill(copy, records)
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
    records = [record[1:] for record in stored_rows(copy)]
    before = records[place - 2][-1] if place > 1 else GENESIS
    new = (*records[source][:-2], before, "")
    made = Record(0, *new).computed_hash() if consistent else records[source][-1]
    records.insert(place - 1, (*(new if consistent else records[source])[:-1], made))
    refill(copy, [(number, *record) for number, record in enumerate(records, 1)])
    findings = open_ledger(copy).verify()
    assert findings
    assert min(finding.record or 9 for finding in findings) in (place, place + 1)
