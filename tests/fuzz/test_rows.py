"""No row is dropped in silence: what goes into a table comes out of it, or is named in a refusal or a note."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.inputs import as_file
from ridgeline.core.errors import RidgelineError
from ridgeline.core.intake import clean
from ridgeline.gaps import gate
from ridgeline.prediction import table
from ridgeline.profilers.load import load
from ridgeline.programs import cases
from strategies import law

NAMES = st.text(max_size=12)
GOOD_TIMES = st.floats(1e-3, 1e9)
TIMES = st.one_of(
    GOOD_TIMES, st.sampled_from([float("nan"), float("inf"), -1.0, 0.0, 1e300, 1e-300, 10**400, None, "", "x", [1]])
)
SIZES = st.one_of(
    st.integers(1, 4096), st.sampled_from([0, -1, 1.5, float("nan"), 10**400, None, "", "x", [8, 16], {}, True])
)


def text_of_table(rows: list[dict[str, Any]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode("utf-8", "surrogatepass")


def is_time(value: Any) -> bool:
    return isinstance(value, float) and 1e-3 <= value <= 1e9


@law(60)
@given(st.lists(st.tuples(NAMES, TIMES), min_size=1, max_size=5))
def test_rows_of_plain_json(rows: list[tuple[str, Any]]) -> None:
    data = json.dumps([{"name": name, "time_us": time} for name, time in rows]).encode()
    try:
        items = load(as_file(data, "rows.json"), "plain")
    except RidgelineError:
        assert not all(is_time(time) and clean(name).strip() for name, time in rows)
        return
    assert len(items) == len(rows)
    assert [item.samples[0] for item in items] == [pytest.approx(time * 1e-6) for _, time in rows]


@law(60)
@given(st.lists(st.tuples(NAMES, st.lists(TIMES, min_size=1, max_size=3)), min_size=1, max_size=5))
def test_samples_of_a_gate_file(entries: list[tuple[str, list[Any]]]) -> None:
    data = json.dumps([{"name": name, "times_us": times} for name, times in entries]).encode()
    try:
        timings = gate.load(as_file(data, "timings.json"))
    except RidgelineError:
        assert not all(clean(name).strip() and all(map(is_time, times)) for name, times in entries)
        return
    assert sum(len(timed.samples) for timed in timings.values()) == sum(len(times) for _, times in entries)


@law(60)
@given(st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=5))
def test_rows_of_cases(rows: list[tuple[Any, Any]]) -> None:
    data = json.dumps([{"op": "gemm", "m": m, "n": n, "k": 8} for m, n in rows]).encode()
    from ridgeline.machines.load import load as load_machine

    good = [
        all(isinstance(size, int) and not isinstance(size, bool) and 1 <= size <= 4096 for size in row) for row in rows
    ]
    try:
        given_rows = cases.read(as_file(data, "cases.json"))
        results, errors = table.run(given_rows, table.Defaults(load_machine("h200-sxm"), load_machine, {}, {}))
    except RidgelineError:
        assert not all(good)
        return
    assert len(results) == len(rows)
    assert all(number not in errors for number, is_good in enumerate(good, 1) if is_good)


KERNELS = {
    "rocprof": ("Dispatch_ID", "Kernel_Name", "Start_Timestamp", "End_Timestamp"),
    "advisor": ("ID", "Function Call Sites and Loops", "Type", "Self Time"),
    "ncu": ("ID", "Kernel Name", "Grid Size", "gpu__time_duration.sum"),
}


@pytest.mark.parametrize("form", sorted(KERNELS))
@law(30)
@given(lengths=st.lists(st.sampled_from([1, 5, 1000, 0, -3, "nan", "", "x"]), min_size=1, max_size=5))
def test_kernels_of_a_profile(form: str, lengths: list[Any]) -> None:
    rows = []
    for number, length in enumerate(lengths):
        end = {"rocprof": 10 + length if isinstance(length, int) else length, "advisor": f"{length}s"}.get(form, length)
        rows.append(
            dict(zip(KERNELS[form], (number, f"kernel{number}", 10 if form == "rocprof" else "1", end), strict=True))
        )
    good = [length for length in lengths if isinstance(length, int) and length > 0]
    try:
        items = load(as_file(text_of_table(rows), "kernels.csv"), form)
    except RidgelineError:
        assert len(good) < len(lengths)
        return
    assert len(items) == len(good)
    assert len(good) == len(lengths) or any(item.notes for item in items), "rows were left out and no note says so"
