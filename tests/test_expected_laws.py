"""Expected times obey physics: a small run of `benchmarks/laws.py`, and what its laws rest on."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from amount import some
from ridgeline.core.families import nearby
from ridgeline.core.families.switches import SWITCHES, Switch, next_sizes
from strategies import law

FILE = Path(__file__).parents[1] / "benchmarks" / "laws.py"


@pytest.fixture(scope="module")
def laws() -> ModuleType:
    import importlib.util

    spec = importlib.util.spec_from_file_location("laws", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["laws"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", some([11, 12], 2))
def test_no_generated_case_breaks_a_law(laws: ModuleType, seed: int) -> None:
    count, refused = laws.run(12_000, seed)
    assert count.cases >= 12_000
    assert sum(refused.values()) < count.cases
    assert not count.violations, count.worst
    assert {"order", "items", "growth", "growth, timed", "hardware", "bytes", "algebra", "labels"} == set(count.checks)


@pytest.mark.parametrize("ops", [("gemm", "linear"), ("attention",)], ids="-".join)
def test_kernels_that_libraries_switch_between_break_none(laws: ModuleType, ops: tuple[str, ...]) -> None:
    """Weights and caches in formats that were not timed lean on timings of wider ones, which fall at switches."""
    count, _ = laws.run(2_000, 4, "h200-sxm", ops)
    assert not count.violations, count.worst


@pytest.mark.parametrize(
    ("words", "sizes", "grown"),
    [
        ({"variant": "standard", "dtype": "fp8_e4m3"}, {"batch": 2, "heads": 2, "seq_q": 2, "seq_kv": 2048, "head_dim": 40}, {"seq_kv": 2560}),
        ({"dtype": "fp8_e4m3"}, {"batch": 4, "heads": 16, "seq_q": 8192, "head_dim": 128, "causal": 1, "window": 8064}, {"window": 8192}),
    ],
    ids=["softmax", "window"],
)  # fmt: skip
def test_what_falls_by_timings_of_a_part_or_of_another_format_breaks_none(
    laws: ModuleType, words: dict[str, str], sizes: dict[str, Any], grown: dict[str, int]
) -> None:
    """A softmax of 2048 columns took four times as long as a longer one, between products in fp8 that were not timed; and windows
    take longer than none by the timings of both in bf16."""

    def arrays(sizes: dict[str, Any]) -> dict[str, Any]:
        return {name: np.full(laws.PER_CALL, float(size)) for name, size in sizes.items()}

    call = laws.Call(laws.rl.machine("h200-sxm"), laws.OPS["attention"], words, arrays(sizes))
    larger, count = laws.replace(call, sizes=arrays({**sizes, **grown})), laws.Count()
    base, after = call.predict(), larger.predict()
    laws._check_growth(count, base, larger)
    assert np.all(after.time < 0.9 * base.time)
    assert np.all(base.low <= after.time)
    assert not np.any(base.expected[0].timed)
    assert not count.violations


def test_the_checks_find_what_breaks_a_law(laws: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time that shrinks as the work grows is counted, so a run without violations means something."""
    from ridgeline.prediction.expected import Expected

    wrong = property(lambda expected: 1.0 / expected.bound.floor)
    monkeypatch.setattr(Expected, "time", wrong)
    count, _ = laws.run(3_000, 1)
    assert count.violations["growth"]
    assert count.violations["hardware"]


# -- switches -----------------------------------------------------------------------------------------------------


@given(size=st.integers(1, 4096), at=st.integers(1, 4096), step=st.sampled_from([1, 4, 16, 32]))
@law(200)
def test_the_next_size_is_the_smallest_beyond_that_is_aligned_as_well(size: int, at: int, step: int) -> None:
    above = float(Switch("m", at, step).above(np.asarray(float(size))))
    aligned = int(np.gcd(size, step))
    assert above > at
    assert above % aligned == 0
    assert above - aligned <= at


@given(data=st.data(), family=st.sampled_from(sorted(SWITCHES)))
@law(100)
def test_next_sizes_raise_one_size_of_the_cases_below(data: Any, family: str) -> None:
    names = sorted({switch.size for switch in SWITCHES[family]})
    sizes = {name: np.array(data.draw(st.lists(st.integers(1, 4096), min_size=3, max_size=3)), float) for name in names}
    sizes |= {"groups": np.ones(3)} if family == "conv" else {}
    for larger, below in next_sizes(family, "", sizes):
        (changed,) = [name for name in names if np.any(larger[name] != sizes[name])]
        assert np.any(below)
        assert np.all(larger[changed][below] > sizes[changed][below])


@given(machine=st.sampled_from(["a100-sxm-80gb", "l4", "a10"]), rows=st.integers(1, 600), columns=st.integers(16, 8192))
@law(30)
def test_a_longer_sum_over_narrow_weights_never_takes_less_where_it_was_not_timed(
    machine: str, rows: int, columns: int
) -> None:
    """The Triton kernel cuts a sum over 5120 into more parts than one over 5376; it was timed with other weights."""
    long = rl.ops.linear(rows, np.arange(256, 16385, 256), columns, dtype="bf16", weights="int8")
    made = rl.predict(long, rl.machine(machine))
    assert np.all(np.diff(made.time) >= -1e-9 * made.time[:-1])


def test_channels_of_small_groups_grow_to_a_block_of_each() -> None:
    sizes = {name: np.array([value, value]) for name, value in {"c_in": 192.0, "c_out": 96.0, "kernel": 3.0}.items()}
    raised = [
        (larger, below)
        for larger, below in next_sizes("conv", "", sizes | {"groups": np.array([8.0, 192.0])})
        if not below[1]
    ]
    wider = [
        larger for larger, below in raised if below[0] and larger["c_in"][0] != 192.0 and larger["c_out"][0] != 96.0
    ]
    assert wider
    assert all(larger["c_in"][0] == larger["c_out"][0] and larger["c_in"][0] / 8 > 24 for larger in wider)
    assert all(larger["c_in"][1] == 192.0 for larger in wider)  # depthwise ones have no block


# -- corrections --------------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.tuples(st.integers(1, 2000), st.integers(1, 2000)), min_size=3, max_size=30),
    data=st.data(),
)
@law(60)
def test_no_larger_size_has_a_lower_correction_than_the_lowest(sizes: list[tuple[int, int]], data: Any) -> None:
    """For one size grown by up to four octaves in whole cells, and for both grown together."""
    errors = data.draw(st.lists(st.floats(-0.7, 0.7), min_size=len(sizes), max_size=len(sizes)))
    rows = np.array(sizes, float).T
    table = nearby.solved(("m", "n"), rows, np.array(errors), np.array([1.0, 2.0]), 0.1)
    case = {"m": np.array([64.0]), "n": np.array([256.0])}
    lowest = float(np.ravel(table.lowest(case))[0])
    assert lowest <= float(np.ravel(table.correction(case))[0])
    for cells in nearby.STEPS_ABOVE:
        factor = 2.0 ** (cells / nearby.CELLS_PER_OCTAVE)
        for grown in ({"m"}, {"n"}, {"m", "n"}):
            if any(np.ptp(rows[("m", "n").index(name)]) == 0 for name in grown):
                continue
            larger = {name: size * (factor if name in grown else 1.0) for name, size in case.items()}
            assert float(np.ravel(table.correction(larger))[0]) >= lowest - 1e-12
