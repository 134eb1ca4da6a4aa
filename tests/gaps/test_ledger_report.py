"""What the ledger says of its predictions: shares, errors, intervals, the page and the export."""

from __future__ import annotations

import json

import pytest
from ledger_samples import Clock, item, row, seal, tamper

from ridgeline.gaps.ledger import Ledger
from ridgeline.gaps.ledger.report import share, summary


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
    assert told["intervals"]["verdict"] == "unknown"


def test_the_uncertainty_of_a_share_is_wilsons() -> None:
    """Both ends solve |p - hits/n| = z sqrt(p (1 - p) / n); known values for 8 of 10 and for none of 10."""
    found = share(8, 10)
    for end in (found["low"], found["high"]):
        assert abs(end - 0.8) == pytest.approx(1.959964 * (end * (1 - end) / 10) ** 0.5)
    assert (found["low"], found["high"]) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert share(0, 10)["low"] == 0.0
    assert share(0, 10)["high"] == pytest.approx(0.2775, abs=1e-4)
    assert share(10, 10)["high"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("inside", "count", "verdict"),
    [
        (80, 100, "calibrated"),
        (60, 100, "too narrow"),
        (99, 100, "too wide"),
        (2, 2, "too few cases"),
        (0, 3, "too narrow"),
    ],
)
def test_intervals_are_held_to_what_they_promise(inside: int, count: int, verdict: str) -> None:
    case = {"bound_predicted": None, "bound_observed": None, "error": None, "low_us": 9.0, "high_us": 11.0}
    cases = [{**case, "measured_us": 10.0 if place < inside else 12.0} for place in range(count)]
    assert summary(cases)["intervals"]["verdict"] == verdict


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
    assert "| a\\|b \\<c\\> | memory | 5 | 10 | 8 to 12 | 8 | +25.0 % | l2 | L2 kept it |" in lines
    assert "| open | memory | 5 | 10 |  | open |  |  |  |" in lines
    assert "- a\\|b \\<c\\>: 9 µs, repeat, not counted" in lines
    assert "- open: 9 µs, unsealed: the time of measurement is unknown" in lines
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
