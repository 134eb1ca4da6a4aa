"""Sealing and settling: what counts as sealed evidence, what is a repeat, what is kept and why."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest
from ledger_samples import COLUMNS, NOON, Clock, item, row, seal, stored_rows

from ridgeline import predict
from ridgeline.core.documents import to_document
from ridgeline.core.version import __version__
from ridgeline.gaps.ledger import Ledger
from ridgeline.machines.load import load
from ridgeline.programs import ops


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
    assert json.loads(json.dumps(to_document(made)))["predictions"] == [row("a"), row("b", 20.0)]


def test_a_hash_covers_every_field_and_the_record_before(book: Ledger, clock: Clock) -> None:
    """Recomputed here with nothing but hashlib and json."""
    first = seal(book)
    book.settle(first, [item("a", 11.0, clock.after(seconds=1))])
    before = "0" * 64
    for number, record in enumerate(stored_rows(book.path), 1):
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
    assert json.loads(json.dumps(to_document(settled)))["items"] == list(settled.items)
    assert settled.time == "2026-03-01T12:02:00.000000+00:00"
    assert [(each["sealed"], each["reason"], each["repeat"]) for each in settled.items] == [(True, "", False)]
    (case,) = book.report()["cases"]
    assert case["error"] == pytest.approx(10 / 8 - 1)
    assert (case["bound_predicted"], case["bound_observed"], case["cause"]) == ("memory", "compute", "L2 kept it")
    assert book.export()[1]["content"]["observations"] == {"tool": "ncu"}


@pytest.mark.parametrize(
    ("measured_at", "reason"),
    [
        ("2026-03-01T11:59:59+00:00", "not after the seal"),
        ("2026-03-01T12:00:00+00:00", "not after the seal"),
        ("2026-03-01T13:30:00+02:00", "not after the seal"),
        ("2026-03-01T12:00:00Z", "not after the seal"),
        ("2026-03-01T14:00:00+00:00", "after the settlement"),
        ("2026-03-01T12:30:00", "offset"),
        ("2026-03-02", "offset"),
        ("9999-12-31T23:59:59-23:00", "offset"),
        ("", "time of measurement is unknown"),
        (None, "time of measurement is unknown"),
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
    assert "- a: 9 µs, repeat, not counted, unsealed: measured at" in book.markdown()
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
