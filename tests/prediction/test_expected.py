"""Expected times: laws over every op on several machines, which numbers serve a kernel, launches, backends, intervals."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import assume, given
from hypothesis import strategies as st

import ridgeline as rl
from amount import WIDE
from ridgeline.app.cli import main
from ridgeline.core.errors import MissingFigure
from ridgeline.core.families import FORMULAS, Key, keys
from ridgeline.core.figure import Figure
from ridgeline.core.fitted import Fitted
from ridgeline.core.machine import Machine
from ridgeline.core.work import Kernel, Program, Step
from ridgeline.prediction import many
from ridgeline.prediction.coefficients import select
from ridgeline.prediction.doubt import HALF, OTHER, STORED, together
from ridgeline.prediction.expected import GIVEN_EFFICIENCY, MEASURED_CEILINGS, NOT_CALIBRATED
from ridgeline.prediction.flat import efficiency
from ridgeline.prediction.host import launch_latency
from ridgeline.prediction.kernel_steps import ran_with
from ridgeline.prediction.timed_sizes import GROWTH_PER_DOUBLING
from ridgeline.programs.ops import OPS
from strategies import COLLECTIVES, law, sweeps

NAMES = (
    "h200-sxm",
    "h100-sxm",
    "a100-sxm-80gb",
    "a100-pcie-80gb",
    "v100-pcie-32gb",
    "t4",
    "l4",
    "mi300x",
    "xeon-8480plus",
)
CALIBRATED = ("h200-sxm", "h100-sxm", "a100-sxm-80gb", "t4")
LOCAL = tuple(sorted(set(OPS) - set(COLLECTIVES)))


@cache
def machine(name: str) -> Machine:
    return rl.machine(name)


def backends(one: Machine) -> list[str]:
    return sorted({key.backend for key in one.fitted if key.backend})


def formats(one: Machine) -> tuple[str, ...]:
    """The formats the products of a machine run in."""
    names = {"fp8": "fp8_e4m3"}
    return tuple(dict.fromkeys(names.get(name, name) for name in one.dtypes() if name != "int1"))


def case(values: Any, place: int) -> Any:
    return np.broadcast_to(np.asarray(values), (place + 1,) if np.ndim(values) == 0 else np.shape(values))[place]


def assert_lawful(made: rl.Prediction) -> None:
    """What holds for every prediction of one step."""
    time, floor = np.asarray(made.time), np.asarray(made.floor)
    assert np.all(np.isfinite(time))
    assert np.all(time > 0)
    assert np.all(time >= floor)
    assert np.all(made.low <= time)
    assert np.all(made.high >= time)
    assert np.all(np.asarray(made.low) > 0)
    # nothing is faster than what a vendor states; measured ceilings are uncertain, and so is the floor they give
    assert np.all(np.asarray(made.low) >= made.bounds[0].stated_floor * (1 - 1e-9))
    assert np.all(np.asarray(made.distance) >= 1)
    total = np.sum([np.broadcast_to(item.seconds, time.shape) for item in made.items], axis=0)
    assert np.allclose(total, time, rtol=1e-9, atol=0)


def seconds(made: rl.Prediction) -> dict[str, Any]:
    """Seconds by kernel and effect."""
    return {f"{item.kernel}: {item.effect}" if item.kernel else item.effect: item.seconds for item in made.items}


def in_some_format(drawn: Any, one: Machine, data: st.DataObject) -> tuple[Any, dict[str, Any], Any, Machine]:
    """A drawn call in one of the formats of the machine."""
    op, words, rows = drawn
    if "dtype" in op.params:
        words = words | {"dtype": data.draw(st.sampled_from(formats(one)))}
    return op, words, rows, one


# -- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_op_in_every_format_keeps_the_laws(name: str) -> None:
    one, tried = machine(name), 0
    for op in OPS.values():
        sizes = {key: 8 for key, param in op.params.items() if param.required and param.kind in ("Size", "Count")}
        for dtype in formats(one) if "dtype" in op.params else ("",):
            for by in (1, 16) if WIDE else (16,):
                many = {key: value * by for key, value in sizes.items()}
                if op.name == "moe":
                    many["topk"] = 2
                try:
                    made = rl.predict(op(**many, **({"dtype": dtype} if dtype else {})), one)
                except MissingFigure:
                    continue
                assert_lawful(made)
                tried += 1
    assert tried > len(LOCAL)


@law(150)
@given(sweeps(names=LOCAL, least=1, most=4, largest=20000), st.sampled_from(NAMES), st.data())
def test_any_call_on_any_machine_keeps_the_laws(drawn: Any, name: str, data: st.DataObject) -> None:
    op, words, rows, one = in_some_format(drawn, machine(name), data)
    try:
        assert_lawful(rl.predict(op(**words, **{key: np.array([row[key] for row in rows]) for key in rows[0]}), one))
    except MissingFigure:
        assume(False)


FIELDS = ("time", "floor", "low", "high", "distance")


def assert_same(op: Any, words: dict[str, Any], rows: list[dict[str, Any]], one: Machine, **options: Any) -> None:
    """An array of cases answers as the cases one by one do."""
    together = rl.predict(op(**words, **{key: np.array([row[key] for row in rows]) for key in rows[0]}), one, **options)
    for place, row in enumerate(rows):
        alone = rl.predict(op(**words, **row), one, **options)
        for field in FIELDS:
            assert np.isclose(case(getattr(together, field), place), getattr(alone, field), rtol=1e-9), field
        items = {key: float(case(value, place)) for key, value in seconds(together).items()}
        for key, value in seconds(alone).items():
            assert np.isclose(items.pop(key), value, rtol=1e-9, atol=1e-12 * alone.time), key
        assert all(value == 0 for value in items.values())  # of other variants
        assert case(together.expected[0].confidence, place) == alone.expected[0].confidence


@law(80)
@given(sweeps(names=LOCAL, largest=5000), st.sampled_from(CALIBRATED), st.data())
def test_arrays_are_their_cases(drawn: Any, name: str, data: st.DataObject) -> None:
    op, words, rows, one = in_some_format(drawn, machine(name), data)
    try:
        assert_same(op, words, rows, one)
    except MissingFigure:
        assume(False)


MIXED = {
    "gemm": [(4096, 4096, 4096), (4096, 4096, 4097), (4096, 4100, 4096), (1, 4096, 4096), (3, 333, 333), (10**6, 64, 64)],
    "softmax": [(1, 128), (4096, 2048), (4096, 2049), (2, 50257), (100000, 32), (7, 3)],
    "conv2d": [(8, 64, 64, 56, 56, 3), (8, 3, 64, 224, 224, 7), (8, 64, 256, 7, 7, 1), (1, 68, 36, 9, 9, 5), (2, 8, 8, 8, 8, 3)],
    "moe": [(1, 8, 2, 4096, 1024), (4096, 8, 2, 4096, 1024), (17, 128, 8, 512, 256)],
}  # fmt: skip


@pytest.mark.parametrize("name", CALIBRATED)
@pytest.mark.parametrize("op", sorted(MIXED))
def test_variants_side_by_side_in_one_array(op: str, name: str) -> None:
    needed = [key for key, param in OPS[op].params.items() if param.kind == "Size"][: len(MIXED[op][0])]
    rows = [dict(zip(needed, shape, strict=True)) for shape in MIXED[op]]
    assert_same(OPS[op], {"dtype": "fp16"}, rows, machine(name))


@pytest.mark.parametrize("name", ["h200-sxm", "h100-sxm", "a100-sxm-80gb"])
def test_prefill_and_decoding_masked_and_not_in_one_array(name: str) -> None:
    shapes = [(1, 4096, 0), (1, 4096, 1), (2048, 2048, 1), (2048, 2048, 0), (16, 4096, 1), (1, 64, 0)]
    rows = [
        {"batch": 4, "heads": 32, "kv_heads": 8, "head_dim": 128, "seq_q": q, "seq_kv": kv, "causal": causal}
        for q, kv, causal in shapes
    ]
    assert_same(OPS["attention"], {"dtype": "bf16"}, rows, machine(name))
    for backend in backends(machine(name)):
        assert_same(OPS["attention"], {"dtype": "bf16"}, rows, machine(name), backend=backend)


def test_cases_without_numbers_beside_cases_with_them() -> None:
    """Numbers for whole sequences alone: decoding gets the flat form, and only decoding."""
    one = replace(H, fitted=table({"attention.causal.bf16": fitted(low=0.9, high=1.1)}))
    shapes = [(2048, 2048, 1), (1, 2048, 0), (2048, 2048, 0), (512, 2048, 1)]
    rows = [
        {"batch": 4, "heads": 8, "head_dim": 128, "seq_q": q, "seq_kv": kv, "causal": causal}
        for q, kv, causal in shapes
    ]
    assert_same(OPS["attention"], {"dtype": "bf16"}, rows, one)
    sizes = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    made = rl.predict(OPS["attention"](**sizes), one)
    assert_lawful(made)
    flat = [MEASURED_CEILINGS in told for told in made.expected[0].confidence]
    assert flat == [False, True, True, False]
    assert np.array_equal(np.isclose(made.high / made.time, 2.0), flat)


def test_a_step_with_one_kernel_that_has_no_numbers_is_flat_as_a_whole() -> None:
    work = OPS["attention"](batch=2, heads=8, seq_q=128, head_dim=64, variant="standard")
    one = replace(H, fitted=table({"gemm.bf16": fitted()}))
    assert not rl.predict(work, one).expected[0].kernels
    both = replace(one, fitted=table({"gemm.bf16": fitted(), "rows.bf16": fitted()}))
    assert rl.predict(work, both).expected[0].kernels


def test_a_mask_over_a_single_query_changes_no_time() -> None:
    sizes = {"batch": 8, "heads": 32, "kv_heads": 8, "seq_q": 1, "seq_kv": 4096, "head_dim": 128}
    for name in CALIBRATED[:3]:
        plain, masked = (rl.predict(OPS["attention"](**sizes, causal=flag), machine(name)) for flag in (0, 1))
        assert masked.time == plain.time
        assert masked.expected[0].basis == plain.expected[0].basis


def test_grids_of_two_axes_are_their_cases() -> None:
    m, n = np.array([[1.0], [64.0], [4097.0]]), np.array([[64.0, 4097.0, 8192.0, 3.0]])
    whole = rl.predict(OPS["gemm"](m=m, n=n, k=512.0), machine("h200-sxm"))
    assert np.shape(whole.time) == (3, 4)
    for row in range(3):
        for column in range(4):
            alone = rl.predict(OPS["gemm"](m=m[row, 0], n=n[0, column], k=512.0), machine("h200-sxm"))
            assert np.isclose(whole.time[row, column], alone.time, rtol=1e-12)
            assert np.isclose(np.broadcast_to(whole.high, (3, 4))[row, column], alone.high, rtol=1e-12)


@pytest.mark.parametrize("block", [1, 2, 3, 4])
def test_blocks_of_many_cases_do_not_show(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = dict(zip("mnk", np.array(MIXED["gemm"], dtype=float).T, strict=True))
    whole = rl.predict_cases(rl.ops.gemm, machine("h200-sxm"), sizes)
    monkeypatch.setattr(many, "BLOCK", block)
    parts = rl.predict_cases(rl.ops.gemm, machine("h200-sxm"), sizes)
    assert list(parts) == list(whole)
    for name, values in whole.items():
        assert np.array_equal(np.broadcast_to(parts[name], 6), np.broadcast_to(values, 6)), name
    assert len(set(whole["confidence"])) > 2  # each case says what it rests on itself


def test_a_block_with_one_value_for_all_before_one_with_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers without ranges have no distance to tell; the next block's may."""
    one = replace(H, fitted=table({"gemm.bf16": fitted(), "gemm-odd.bf16": fitted(ranges={"m": (1.0, 128.0)})}))
    sizes = {"m": np.array([256.0, 256.0, 256.0, 512.0]), "n": np.full(4, 256.0), "k": np.array([256, 256, 257, 257.0])}
    monkeypatch.setattr(many, "BLOCK", 2)
    assert rl.predict_cases(rl.ops.gemm, one, sizes, ("distance",))["distance"].tolist() == [1, 1, 2, 4]


# -- which numbers serve -----------------------------------------------------------------------------------------------

H = replace(rl.machine("h200-sxm"), fitted={})


def fitted(launch: float | None = 1e-6, **change: Any) -> Fitted:
    """Numbers that are told apart by their launch; everything else is the default of the formula."""
    known: dict[str, Any] = {"error": 0.1, "p90": 0.3, "low": 0.8, "high": 1.25, "cases": 20, "source": "a test"}
    return Fitted(coefficients={} if launch is None else {"launch": launch}, **(known | change))


def table(rows: dict[str, Fitted]) -> dict[Key, Fitted]:
    return {Key.parse(key): row for key, row in rows.items()}


def test_the_interval_of_a_short_kernel_has_seconds_in_quadrature() -> None:
    """Times in seconds at the front of the interval weigh less the longer a kernel takes; a repeated one has them each time."""
    plain, jumpy = (replace(H, fitted=table({"stream.gelu.bf16": fitted(jitter=at)})) for at in (0.0, 0.5e-6))
    for n in (1000.0, 1e8):
        asked = rl.ops.gelu(n=n, dtype="bf16")
        time, high = (float(getattr(rl.predict(asked, plain), name)) for name in ("time", "high"))
        found, floor = rl.predict(asked, jumpy), float(rl.predict(asked, plain, ceilings="stated").floor)
        jitter = 0.5e-6 / time
        assert float(found.time) == time
        assert float(found.high) == pytest.approx(time * np.exp(np.hypot(np.log(high / time), jitter)))
        assert float(found.low) == pytest.approx(max(time * np.exp(-np.hypot(np.log(0.8), jitter)), floor))
        again = rl.predict(asked.repeat(7), jumpy)
        assert float(again.high) == pytest.approx(7 * float(found.high))


BMM = Kernel("gemm", {"b": 4.0, "m": 64.0, "n": 64.0, "k": 65.0, "a": 2.0, "w": 0.5, "c": 2.0}, "bmm", "bf16-int4_g128")
((ODD, _),) = keys(BMM.family, BMM.sizes, BMM.dtype, BMM.op)
ORDER = [
    "gemm-odd.bmm.bf16-int4_g128@lib", "gemm-odd.bf16-int4_g128@lib", "gemm.bmm.bf16-int4_g128@lib",
    "gemm.bf16-int4_g128@lib", "gemm-odd.bmm.bf16-int4_g128", "gemm-odd.bf16-int4_g128", "gemm.bmm.bf16-int4_g128",
    "gemm.bf16-int4_g128", "gemm-odd.bmm.bf16@lib", "gemm.bf16@lib", "gemm-odd.bmm.bf16", "gemm.bf16",
    "gemm.fp16@lib", "gemm.bmm.fp16", "gemm.fp16",
]  # fmt: skip


def test_the_nearest_numbers_serve() -> None:
    for first in range(len(ORDER)):
        one = replace(H, fitted=table({key: fitted() for key in reversed(ORDER[first:])}))
        selected = select(one, ODD, "lib")
        assert selected is not None
        assert str(selected.key) == ORDER[first]
        same = selected.key.dtype == BMM.dtype and selected.key.op == "bmm" and selected.key.backend == "lib"
        assert selected.label == ("calibrated" if same else "transferred")
        format_doubt = {BMM.dtype: 0.0, "bf16": STORED, "fp16": STORED}[selected.key.dtype]
        its_own = selected.key.op == "bmm" and selected.key.backend == "lib"
        assert selected.doubt == together(format_doubt, 0.0 if its_own else OTHER)
    assert select(replace(H, fitted=table({"gemm.fp64": fitted(), "stream.bf16": fitted()})), ODD) is None


def test_numbers_of_another_backend_never_serve_by_default() -> None:
    one = replace(H, fitted=table({"gemm.bf16@lib": fitted()}))
    assert select(one, ODD) is None
    assert select(one, ODD, "other") is None
    assert not rl.predict(GEMM, one).expected[0].kernels


def test_own_numbers_of_another_format_go_before_borrowed_ones() -> None:
    one = replace(H, fitted=table({"gemm.bmm.bf16-int4_g128": fitted(borrowed=True), "gemm.fp16": fitted()}))
    found = select(one, ODD)
    assert found is not None
    assert str(found.key) == "gemm.fp16"
    unaligned = replace(H, fitted=table({"gemm-odd.bf16-int4_g128": fitted(borrowed=True), "gemm.fp16": fitted()}))
    odd = select(unaligned, ODD)  # aligned products say nothing of it
    assert odd is not None
    assert str(odd.key) == "gemm-odd.bf16-int4_g128"
    lent = replace(H, fitted=table({"gemm.bf16": fitted(borrowed=True), "gemm.fp8": fitted()}))
    other = select(lent, Key("gemm", "bf16"))  # another engine of this machine says less than the same one of others
    assert other is not None
    assert str(other.key) == "gemm.bf16"
    alone = select(replace(H, fitted=table({"gemm.bf16": fitted(borrowed=True)})), ODD)
    assert alone is not None
    assert alone.fitted.borrowed


GEMM = OPS["gemm"](m=1024, n=1024, k=1024)


def test_borrowed_numbers_say_so() -> None:
    own = rl.predict(GEMM, replace(H, fitted=table({"gemm.bf16": fitted()}))).expected[0].confidence
    lent = rl.predict(GEMM, replace(H, fitted=table({"gemm.bf16": fitted(borrowed=True)}))).expected[0].confidence
    assert own == "calibrated (gemm.bf16, 20 timings): held-out error 10 % median, 30 % P90"
    error = "leave-one-machine-out error 10 % median, 30 % P90"
    assert lent == f"transferred from other machines (gemm.bf16, 20 timings): {error}"


# -- launches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("launch", [0.0, 1e-6, 1e-3])
@pytest.mark.parametrize(
    ("op", "sizes"), [("gemm", {"m": 64, "n": 64, "k": 64}), ("sum", {"n": 4096}), ("relu", {"n": 99})]
)
def test_a_launch_of_the_callers_replaces_the_fitted_one(op: str, sizes: dict[str, int], launch: float) -> None:
    one, work = machine("h200-sxm"), OPS[op](**sizes)
    plain, given = rl.predict(work, one), rl.predict(work, one, launch=launch)
    assert seconds(given)["launch"] == pytest.approx(launch, abs=1e-15)
    assert seconds(plain)["launch"] > 0
    rest = plain.time - seconds(plain)["launch"]
    assert given.time == pytest.approx(max(rest + launch, given.floor))
    assert_lawful(given)
    same = rl.predict(work, one.with_figures(launch=launch))
    assert same.time == given.time


@pytest.mark.parametrize(
    ("op", "sizes"),
    [
        ("embedding_backward", {"rows": 8, "vocab": 4, "cols": 3, "dtype": "fp32"}),
        ("embedding_backward", {"rows": 3, "vocab": 4, "cols": 3, "dtype": "fp32"}),
        ("dot", {"n": 8}),
    ],
)
def test_timings_shorter_than_the_fitted_launch_leave_one_of_the_callers(op: str, sizes: dict[str, Any]) -> None:
    """Timings of these take less than the fitted launch, by more than the work takes."""
    one, work = machine("h200-sxm"), OPS[op](**sizes)
    for launch in (8e-6, 1e-3):
        given = rl.predict(work, one, launch=launch)
        assert 0.499 * launch < given.time < launch + rl.predict(work, one).time
        assert given.low > 0.1 * launch
        assert_lawful(given)


def test_every_kernel_of_a_step_has_its_launch() -> None:
    work = OPS["attention"](batch=2, heads=8, seq_q=128, head_dim=64, variant="standard")
    made = rl.predict(work, machine("h200-sxm"), launch=1e-3)
    assert {f"{item.kernel}: {item.effect}": float(item.seconds) for item in made.items if item.kind == "launch"} == {
        "bmm: launch": pytest.approx(2e-3),
        "softmax: launch": pytest.approx(1e-3),
    }
    assert_lawful(made)


def test_a_stream_of_two_launches_pays_twice() -> None:
    work = replace(OPS["sum"](n=4096), waits={"launch": 2.0})
    one = replace(H, fitted=table({"reduce.bf16": fitted(3e-6)}))
    assert seconds(rl.predict(work, one))["launch"] == pytest.approx(6e-6)
    given = rl.predict(work, one, launch=5e-6)
    assert seconds(given)["launch"] == pytest.approx(10e-6)
    assert_lawful(given)


def test_numbers_without_a_launch_have_the_default_one_and_that_is_replaced() -> None:
    one = replace(H, fitted=table({"gemm.bf16": fitted(launch=None)}))
    usual = FORMULAS["gemm"].coefficients["launch"].default
    plain, given = rl.predict(GEMM, one), rl.predict(GEMM, one, launch=1e-3)
    assert seconds(plain)["launch"] == pytest.approx(usual)
    assert given.time - plain.time == pytest.approx(1e-3 - usual)


def test_the_command_line_takes_a_launch() -> None:
    words = ["predict", "gemm", "m=64", "n=64", "k=64", "--on", "h200-sxm", "--json"]
    plain, given = (answer(*words, *more)["time_us"] for more in ((), ("--launch", "1 ms")))
    assert given == pytest.approx(1000, rel=0.01)
    assert plain < 10


# -- backends ----------------------------------------------------------------------------------------------------------


def answer(*words: str) -> Any:
    import json

    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_backend_brings_its_own_numbers() -> None:
    one = replace(H, fitted=table({"gemm.bf16": fitted(1e-6), "gemm.bf16@lib": fitted(9e-6)}))
    assert backends(one) == ["lib"]
    made = rl.predict(GEMM, one, backend="lib")
    assert seconds(made)["launch"] == pytest.approx(9e-6)
    assert made.expected[0].confidence == "calibrated (gemm.bf16@lib, 20 timings): held-out error 10 % median, 30 % P90"


def test_a_case_of_an_unknown_backend_falls_back_and_says_so() -> None:
    one = machine("h200-sxm")
    plain, asked = rl.predict(GEMM, one), rl.predict(ran_with(GEMM, "nobody-1.0"), one)
    assert asked.time == plain.time  # by the same kernels, with the same correction
    for told in (asked.expected[0].basis, asked.expected[0].confidence):
        assert "no timings of backend nobody-1.0, default path used: transferred from gemm.bf16" in told
    bare = rl.predict(ran_with(GEMM, "nobody-1.0"), H).expected[0]
    assert not bare.kernels
    assert "no timings of backend nobody-1.0" in str(bare.confidence)
    assert str(bare.confidence).endswith(MEASURED_CEILINGS)


@pytest.mark.parametrize("name", [name for name in CALIBRATED if backends(rl.machine(name))])
def test_the_command_line_takes_a_backend(name: str, tmp_path: Any) -> None:
    one = machine(name)
    backend = next(key.backend for key in one.calibrated if key.kernels == "gemm" and key.backend)
    dtype = next(
        key.dtype for key in one.fitted if key.kernels == "gemm" and key.backend == backend and key.op != "bmm"
    )
    words = ["predict", "gemm", "m=4096", "n=4096", "k=4096", "--dtype", "fp8_e4m3" if dtype == "fp8" else dtype]
    told = answer(*words, "--on", name, "--backend", backend, "--json")
    assert f"@{backend}" in told["confidence"]
    assert told["time_us"] != answer(*words, "--on", name, "--json")["time_us"]
    path = tmp_path / "cases.csv"
    path.write_text(f"op,m,n,k,dtype,backend\ngemm,4096,4096,4096,{dtype},{backend}\ngemm,4096,4096,4096,{dtype},\n")
    first, second = answer("predict", "--cases", str(path), "--on", name, "--json")["rows"]
    assert first["time_us"] == pytest.approx(told["time_us"])
    assert f"@{backend}" in first["confidence"]
    assert "@" not in second["confidence"]
    _, now = answer("predict", "--cases", str(path), "--on", name, "--backend", backend, "--json")["rows"]
    assert f"@{backend}" in now["confidence"]


# -- intervals and distance --------------------------------------------------------------------------------------------


def test_the_interval_is_that_of_the_timings_left_out() -> None:
    made = rl.predict(GEMM, replace(H, fitted=table({"gemm.bf16": fitted(low=0.8, high=1.3)})))
    assert made.high == pytest.approx(1.3 * made.time)
    assert made.low == pytest.approx(max(0.8 * made.time, made.floor))
    assert made.distance == 1


def test_the_interval_widens_with_the_distance_and_for_another_format() -> None:
    """m = 1024 is four times the largest that was timed: two doublings. Another format is a doubt of its own."""
    far = rl.predict(GEMM, replace(H, fitted=table({"gemm.bf16": fitted(high=1.3, ranges={"m": (16.0, 256.0)})})))
    assert far.distance == 4
    assert far.high == pytest.approx(1.3 * np.exp(2 * GROWTH_PER_DOUBLING) * far.time)
    assert "extrapolated up to 4.0x beyond the timed sizes" in str(far.expected[0].confidence)
    small = rl.predict(GEMM, replace(H, fitted=table({"gemm.bf16": fitted(ranges={"k": (8192.0, 16384.0)})})))
    assert small.distance == 8
    other = rl.predict(GEMM, replace(H, fitted=table({"gemm.fp16": fitted(high=1.3)})))
    assert other.high == pytest.approx(np.exp(np.hypot(np.log(1.3), HALF)) * other.time)


def test_the_steps_of_a_program_err_apart_from_each_other() -> None:
    """Widths add as squares: 3 and 4 give 5, not 7."""
    one = replace(H, fitted=table({"gemm.bf16": fitted(high=1.5)}))
    first, second = (OPS["gemm"](m=size, n=1024, k=1024) for size in (1024, 4096))
    made = rl.predict(Program((Step("a", first, 2), Step("b", second))), one)
    apart = [rl.predict(work, one) for work in (first, second)]
    assert made.time == pytest.approx(2 * apart[0].time + apart[1].time)
    width = np.hypot(2 * 0.5 * apart[0].time, 0.5 * apart[1].time)
    assert made.high == pytest.approx(made.time + width)
    assert made.low <= made.time
    assert sum(item.seconds for item in made.items) == pytest.approx(made.time)
    assert {item.step for item in made.items} == {"a", "b"}


def test_no_time_lies_below_the_floor_and_the_items_say_it() -> None:
    best = {"compute": 1e3, "memory": 1e3, "launch": 1e-12, "tile": 1e-9, "fill": 1e-9, "blend": 8.0, "reuse": 1e9}
    one = replace(
        H, fitted=table({"gemm.bf16": replace(fitted(), coefficients=best | {"waves": 1e-9, "split": 1e-12})})
    )
    made = rl.predict(OPS["gemm"](m=4096, n=4096, k=4096), one)
    assert made.time == made.floor
    assert seconds(made)["work at achieved rates"] == pytest.approx(made.bounds[0].stated_floor)
    assert made.items[-1].effect == "held to the ceilings"
    assert_lawful(made)


# -- without numbers ---------------------------------------------------------------------------------------------------


def test_without_numbers_a_time_is_a_share_of_the_ceilings_and_says_so() -> None:
    one = replace(machine("a100-sxm-80gb"), fitted={}, efficiency={})
    made = rl.predict(GEMM, one)
    peak, wait = one.peak("tensor.bf16", "stated").value, launch_latency(one)
    assert made.time == pytest.approx(2 * 1024**3 / (0.78 * peak) + wait)
    assert made.expected[0].confidence == NOT_CALIBRATED
    assert made.high == pytest.approx(2 * made.time)
    assert made.low == pytest.approx(max(0.8 * made.time, made.floor))
    assert list(seconds(made)) == ["floor", "below peak rate", "launch"]
    assert seconds(made)["launch"] == pytest.approx(wait)
    assert_lawful(made)


@pytest.mark.parametrize("options", [{"efficiency": 0.5}, {"engine": "vector"}, {"resident": "l2"}])
def test_options_that_contradict_the_kernels_leave_them_aside(options: dict[str, Any]) -> None:
    made = rl.predict(OPS["gemm"](m=1024, n=1024, k=1024, dtype="bf16"), machine("a100-pcie-80gb"), **options)
    assert not made.expected[0].kernels
    assert_lawful(made)
    if "efficiency" in options:
        assert made.expected[0].confidence == GIVEN_EFFICIENCY


@pytest.mark.parametrize(("dtype", "engine"), [("bf16", "tensor"), ("fp32", "vector")])
def test_forcing_the_engine_that_serves_anyway_changes_nothing(dtype: str, engine: str) -> None:
    """4095 is unaligned: forcing the tensor cores, where it runs, made it 6.8 times faster."""
    works = OPS["gemm"](m=4095, n=4095, k=4095, dtype=dtype), OPS["softmax"](rows=4096, cols=4096, dtype=dtype)
    for work in works:
        usual, forced = (rl.predict(work, machine("h200-sxm"), engine=name) for name in (None, engine))
        assert forced.expected[0].kernels
        assert (forced.time, forced.low, forced.high) == (usual.time, usual.low, usual.high)


FLAT = {"syrk": {"n": 8192, "k": 8192}, "symv": {"n": 16384, "dtype": "fp32"}, "trmm": {"m": 8192, "n": 8192}}


@pytest.mark.parametrize("op", FLAT)
def test_a_measurement_makes_no_kernel_faster(op: str) -> None:
    """Without timings a kernel takes as long as the shares of the stated ceilings say: syrk took 661 us, all of the measured roofline."""
    measured, stated = (rl.predict(OPS[op](**FLAT[op]), machine("h200-sxm"), ceilings) for ceilings in (None, "stated"))
    assert not measured.expected[0].kernels
    assert measured.time == pytest.approx(stated.time)
    assert measured.high == pytest.approx(2 * measured.time)
    assert measured.low == pytest.approx(max(0.8 * measured.time, measured.floor))
    assert_lawful(measured)
    used, share = measured.bounds[0].terms["hbm"], efficiency(measured.bounds[0], "hbm").value
    assert used.rate * share == pytest.approx(0.84 * 4.8e12)


def test_what_is_measured_above_or_without_a_stated_figure_is_reached_at_most() -> None:
    slow = replace(H, peaks={"tensor.bf16": Figure("flop/s", stated=1e15, measured=0.5e15)}, efficiency={})
    made = rl.predict(GEMM, slow)
    assert efficiency(made.bounds[0], "tensor.bf16").value == 1.0
    unstated = replace(slow, peaks={"tensor.bf16": Figure("flop/s", measured=0.5e15)})
    assert efficiency(rl.predict(GEMM, unstated).bounds[0], "tensor.bf16").value == 1.0


@pytest.mark.parametrize("stored", ["nvfp4", "mxfp4"])
def test_weights_of_four_bits_are_unpacked_as_integers_are(stored: str) -> None:
    """They took 8.8 us at the ceilings, where kernels of int4 were timed at 71."""
    for batch in (1, 16, 4096):
        layer = {"batch": batch, "in_features": 4096, "out_features": 14336}
        made, timed = (
            rl.predict(OPS["linear"](**layer, weights=name), machine("h200-sxm")) for name in (stored, "int4_g128")
        )
        assert made.time == pytest.approx(timed.time, rel=0.2)
        assert made.expected[0].label == "transferred"
        assert "weight_only.bf16-int4 " in str(made.expected[0].confidence)


def test_a_fused_or_repeated_step_has_no_library_kernel() -> None:
    assert OPS["gemm"](m=8, n=8, k=8).kernels
    assert not OPS["gemm"](m=8, n=8, k=8).repeat(3).kernels
    windowed = OPS["attention"](batch=1, heads=8, seq_q=64, head_dim=64, causal=1, window=16)
    assert not rl.predict(windowed, H).expected[0].kernels


# -- what people see ---------------------------------------------------------------------------------------------------


def test_explain_itemises_the_time() -> None:
    words = ["predict", "gemm", "m=4096", "n=4096", "k=4097", "--on", "h200-sxm", "--explain"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0
    made = rl.predict(OPS["gemm"](m=4096, n=4096, k=4097), machine("h200-sxm"))
    for name, value in seconds(made).items():
        assert (name in result.stdout) == (abs(value) > 1e-4 * made.time), name
    assert "expected time" in result.stdout
    assert "80 % interval" in result.stdout
    assert "gemm-odd.bf16" in result.stdout


def test_a_sweep_says_of_every_row_what_it_rests_on() -> None:
    rows = answer("predict", "gemm", "m=1,64,4096", "n=4096", "k=4096", "--on", "h200-sxm", "--json")["rows"]
    alone = [
        answer("predict", "gemm", f"m={m}", "n=4096", "k=4096", "--on", "h200-sxm", "--json") for m in (1, 64, 4096)
    ]
    assert [row["confidence"] for row in rows] == [row["confidence"] for row in alone]
    assert "gemm-few" in rows[0]["confidence"]
    assert "gemm-few" not in rows[2]["confidence"]


def test_explain_speaks_of_the_first_case_alone_and_the_table_of_all() -> None:
    result = CliRunner().invoke(
        main, ["predict", "gemm", "m=1,4096", "n=4096", "k=4096", "--on", "h200-sxm", "--explain"]
    )
    assert result.exit_code == 0
    table, explained = result.stdout.split("expected time (first case)")
    for key in ("gemm-few.bf16", "gemm.bf16"):
        assert f"calibrated ({key}," in table
    assert "gemm-few.bf16: " in explained
    assert "gemm.bf16" not in explained


def test_a_field_there_is_none_of_is_named() -> None:
    with pytest.raises(rl.RidgelineError, match="unknown field 'low': did you mean low_us"):
        rl.predict_cases(rl.ops.gemm, "h200-sxm", {"m": [64.0], "n": [64.0], "k": [64.0]}, wanted=("low",))
