"""What a ledger refuses, and that whatever it accepts is kept complete."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_samples import Clock, item, row, seal

from ridgeline.core.errors import InputError
from ridgeline.gaps.ledger import Ledger, open_ledger
from ridgeline.gaps.ledger import ledger as module
from strategies import law


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
    monkeypatch.setattr(module, "MIN_ID_DIGITS", 0)
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
