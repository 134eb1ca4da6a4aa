"""What a ledger refuses, and that whatever it accepts is kept complete."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_samples import Clock, item, row, seal

from ridgeline.core.errors import InputError, SchemaError
from ridgeline.gaps.ledger import Ledger, open_ledger
from ridgeline.gaps.ledger import ledger as module
from strategies import law

NESTED: list[Any] = []
for _ in range(2000):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "nothing to seal"),
        ([{"time_us": 3.0}], "row 1, column name: is missing"),
        ([row("a"), row(" ")], "row 2, column name: is empty"),
        (["a"], "row 1: must be a prediction with a name, found 'a'"),
        ([row("a"), row("a")], "row 2, column name: is 'a', as in row 1"),
        ([row("a"), row("a\x1b[0m")], "row 2, column name: is 'a', as in row 1"),
        ([row("a", float("nan"))], "row 1, column time_us: is nan"),
        ([row("a", 0)], "row 1, column time_us: is 0"),
        ([row("a", 10**400)], "row 1, column time_us: is a number with too many digits"),
        ([row("a", True)], "row 1, column time_us: is True"),
        ([row("a", floor_us=-1)], "row 1, column floor_us: is -1"),
        ([row("a", low_us=3.0)], "the interval is 3.0 to None"),
        ([row("a", low_us=3.0, high_us=2.0)], "the interval is 3.0 to 2.0"),
        ([row("a", shape={1, 2})], "row 1, column shape: is {1, 2}, which has no place here"),
        ([row("a", share=float("inf"))], "row 1, column share: is inf"),
        ([row("a", bound=["memory"])], "row 1, column bound: must be a text, found a list of 1"),
        ([row("a", count=0)], "row 1, column count: is 0"),
        ([row("a", shape=NESTED)], "row 1, column shape: is nested"),
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
        ([{"measured_us": 3.0}], "row 1, column name: is missing"),
        (["a"], "row 1: must be a measured item with a name, found 'a'"),
        ([{"name": "a"}], "row 1, column measured_us: is None"),
        ([item("a", -1.0, None)], "row 1, column measured_us: is -1.0"),
        ([item("a", float("inf"), None)], "row 1, column measured_us: is inf"),
        ([item("a", 1.0, "yesterday")], "row 1, column measured_at: is 'yesterday'; it is an ISO time"),
        ([{"name": "a", "measured_us": 1.0, "measured_at": 12}], "column measured_at: must be a text, found 12"),
        ([item("a", 1.0, None, predicted_us="x")], "column time_us of its prediction: is 'x'"),
        ([item("a", 1.0, None, prediction={"low_us": -1})], "column low_us of its prediction: is -1"),
        ([item("a", 1.0, None, prediction="x")], "column prediction: must be a table, found 'x'"),
        ([item("a", 1.0, None, steps="ab")], "column steps: must be the names"),
        ([item("a", 1.0, None, steps=["b"])], "column steps: must be the names"),
        ([item("a", 1.0, None, steps=["b", "b"])], "column steps: must be the names"),
        ([item("a", 1.0, None, steps=[["b"], 3])], "column steps 1: must be a text"),
        ([item("a", 1.0, None, cause={1})], "column cause: must be a text"),
    ],
)
def test_measurements_that_say_nothing_are_not_settled(book: Ledger, items: list[Any], told: str) -> None:
    made = seal(book)
    with pytest.raises(InputError, match=told):
        book.settle(made, items)
    assert book.head()[0] == 1


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=5)  # surrogates and control characters too


# Mostly what can be kept, now and then what cannot: a refusal must not hide what comes after it.
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-9, 9) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


NAME = st.sampled_from("abcd") | st.sampled_from("abcd") | ANY_TEXT


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
    monkeypatch.setattr(module, "MIN_ID_DIGITS", 0)
    seal(book)
    with pytest.raises(InputError, match=r"'' begins several seals: .*; give more digits"):
        book.find("")
    assert book.head()[0] == 2


def test_all_complaints_come_at_once(book: Ledger) -> None:
    with pytest.raises(SchemaError) as caught:
        book.seal([row("a", -1.0), row(""), 3], "text", "h200-sxm")
    assert [text.partition(":")[0] for text in caught.value.complaints] == [
        "row 1, column time_us",
        "row 3",
        "row 2, column name",
    ]


def test_texts_are_clean_before_they_are_sealed(book: Ledger) -> None:
    bad = "a\ud800\x1b[31mb\x07\n"
    made = book.seal([row(bad, shape={bad: bad})], "text", bad, {"driver": bad}, bad)
    good = "a\ufffdb\ufffd "
    assert (made.predictions[0]["name"], made.predictions[0]["shape"]) == (good, {good: good})
    assert (made.machine["name"], made.environment["driver"], made.note) == (good, good, good)
    assert book.settle(made.id, [item(bad, 1.0, None, cause=bad)], {"file": bad}).items[0]["name"] == good
    assert book.verify() == []
    json.dumps(book.export(), ensure_ascii=False).encode()


# -- clocks -------------------------------------------------------------------------------------------------------


def test_a_clock_a_little_behind_takes_the_time_of_the_last_record(book: Ledger, clock: Clock) -> None:
    seal(book)
    clock.after(seconds=-1)
    made = book.find(seal(book))
    assert made.time == made.evidence_after == "2026-03-01T12:00:00.000000+00:00"
    assert book.verify() == []


def test_a_clock_that_was_far_ahead_does_not_lock_the_ledger(book: Ledger, clock: Clock) -> None:
    early = seal(book, row("early"))
    ahead = clock.after(days=1000)
    seal(book, row("ahead"))
    clock.after(days=-1000, seconds=60)
    late = book.find(seal(book, row("late")))
    assert late.time == "2026-03-01T12:01:00.000000+00:00"
    assert late.evidence_after.startswith(ahead[:19])
    at = clock.after(seconds=1)
    clock.after(seconds=1)
    # sealed before the clock ran ahead: the order of seal and measurement is known
    assert book.settle(early, [item("early", 1.0, at)]).items[0]["sealed"]
    (kept,) = book.settle(late.id, [item("late", 1.0, at)]).items
    assert not kept["sealed"]
    assert "the clock was set back before the seal, so that the order cannot be shown" in kept["reason"]
    (notice,) = book.verify()
    assert (notice.record, notice.what, notice.fault) == (3, "clock", False)
    assert notice.text.startswith("3 records from 3 to 5 are dated before an earlier record of 2028-11-25T12:00:00")
    assert (book.report()["intact"], book.report()["settled"]) == (True, 1)
    assert "broken" not in book.markdown()
    clock.after(days=1001)
    assert book.find(seal(book)).evidence_after == clock.time.isoformat(timespec="microseconds")
    assert book.settle(late.id, [item("late", 1.0, clock.time.isoformat())]).items[0]["sealed"]


def test_setting_the_clock_back_makes_no_evidence(book: Ledger, clock: Clock) -> None:
    """Measured at 12:01, recorded at 12:02, sealed with the clock at 12:00: the ledger has seen a later time."""
    begun = clock.after(minutes=1)
    clock.after(minutes=1)
    seal(book)
    clock.after(minutes=-2)
    made = seal(book, row("c"))
    clock.after(minutes=5)
    assert not book.settle(made, [item("c", 1.0, begun)]).items[0]["sealed"]
