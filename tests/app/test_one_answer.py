"""One question, one answer: every command and Python give the same time, floor, ridge and bound, by ceilings that are named."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest
from commands import answer as document
from commands import run
from hypothesis import example, given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.figure import KINDS
from ridgeline.core.machine import Machine
from ridgeline.prediction.turning import critical_batch
from ridgeline.programs.ops import find
from ridgeline.render import charts
from strategies import law

MACHINES = ("h200-sxm", "h100-sxm", "a100-sxm-80gb", "b200-sxm", "l4", "mi300x")
real = cache(rl.machine)
sizes = st.sampled_from((1, 8, 100, 512, 4096, 16384))
CASES = {
    "gemm": ("m", "n", "k"),
    "gemv": ("m", "n"),
    "linear": ("batch", "in_features", "out_features"),
    "softmax": ("rows", "cols"),
    "gelu": ("n",),
    "stream_triad": ("n",),
    "attention": ("batch", "heads", "seq_q", "head_dim"),
}


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, dict[str, int]]:
    name = draw(st.sampled_from(sorted(CASES)))
    values = {size: draw(sizes, label=size) for size in CASES[name]}
    if name == "attention":
        values |= {"batch": 1, "head_dim": 128}
    return name, values


@given(question=questions(), machine=st.sampled_from(MACHINES), kind=st.sampled_from((None, "stated")))
@law(25)
def test_every_command_gives_the_same_figures(
    question: tuple[str, dict[str, int]], machine: str, kind: str | None
) -> None:
    name, values = question
    words = [f"{size}={value}" for size, value in values.items()]
    asked = ["--ceilings", kind] if kind else []
    python = rl.predict(find(name)(**values, dtype="bf16"), machine, ceilings=kind)
    answer = document("predict", name, *words, "--on", machine, "--dtype", "bf16", *asked)
    compared = document("compare", machine, "--op", " ".join([name, *words]), "--dtype", "bf16", *asked)[0]
    formats = document("precisions", name, *words, "--on", machine, "--dtypes", "bf16", *asked)[0]
    right = {"time_us": python.time * 1e6, "floor_us": python.floor * 1e6}
    for other in (answer, compared, formats):
        assert {key: other[key] for key in right} == {
            key: pytest.approx(value, rel=1e-12) for key, value in right.items()
        }
        assert (other["bound"], other["ceilings"]) == (python.bound, python.bounds[0].kinds)
    assert answer["ridge"] == formats["ridge"] == python.ridge
    drawn = [
        point.details
        for point in rl.plot(real(machine), [python]).chart.points
        if point.role in ("expected", "overhead")
    ]
    assert [point["time_us"] for point in drawn] == pytest.approx([right["time_us"]] * bool(python.flops), rel=1e-12)
    if kind is None:  # a what-if takes the default
        baseline = document("whatif", name, *words, "--on", machine, "--dtype", "bf16", "--do", "bandwidth=2")["stops"][
            0
        ]
        assert {key: baseline[key] for key in right} == pytest.approx(right, rel=1e-12)
        assert baseline["ceilings"] == python.bounds[0].kinds


@given(
    batch_sizes=st.tuples(sizes, sizes),
    machine=st.sampled_from((*MACHINES, "rtx-4090", "tpu-v6e")),
    dtype=st.sampled_from(("bf16", "fp8", "int8")),
    weights=st.sampled_from((None, "int8", "int4_g128")),
)
@example(batch_sizes=(512, 14336), machine="b200-sxm", dtype="fp8", weights=None)  # 715, where predict said never
@example(batch_sizes=(1024, 4096), machine="h200-sxm", dtype="int8", weights=None)  # 189, where predict said 415
@law(30)
def test_the_critical_batch_is_where_predict_turns(
    batch_sizes: tuple[int, int], machine: str, dtype: str, weights: str | None
) -> None:
    """Products in 8 bits are stored wider, which `critical-batch` left out."""
    if dtype not in ("bf16", *(name.split("_")[0] for name in real(machine).dtypes())):
        return
    fan_in, fan_out = batch_sizes
    formats = ["--dtype", dtype, "--on", machine, *(["--weights", weights] if weights else [])]
    layer = document("critical-batch", str(fan_in), str(fan_out), *formats)
    words = ["batch=1", f"in_features={fan_in}", f"out_features={fan_out}"]
    answer = document("predict", "linear", *words, *formats)
    assert answer["turns_compute_bound_at"] == {"batch": layer["turns_compute_bound_at"]}
    assert answer["ceilings"] == layer["ceilings"]
    if batch := layer["critical_batch"]:
        crossing = rl.predict(rl.ops.linear(batch, *batch_sizes, dtype=dtype, weights=weights), machine).bounds[0]
        assert crossing.compute_time >= crossing.memory_time * (1 - 1e-9)


@given(layer=st.tuples(*[st.sampled_from((64, 256, 512, 1024, 2048, 8192))] * 2), machine=st.sampled_from(MACHINES))
@law(20)
def test_predict_is_compute_bound_where_the_critical_batch_says_so(layer: tuple[int, int], machine: str) -> None:
    """A layer of 512 x 512 on an H200 was "compute-bound at batch >= 747", where `predict` calls it overhead-bound."""
    study = critical_batch(*layer, real(machine))
    turn = study.turns_compute_bound_at
    if turn is None:
        return
    at, below = (rl.predict(rl.ops.linear(batch, *layer), machine) for batch in (turn, turn - 1))
    assert at.bound in ("compute", "balanced")
    if turn > study.batch:
        assert below.bound == "overhead"
        assert study.turning.text.startswith(f"compute-bound at batch >= {turn}, overhead-bound below; AI crosses")


def test_the_answer_says_up_to_which_batch_the_launch_takes_longer() -> None:
    said = r"compute-bound at batch >= 2331, overhead-bound below; AI crosses the ridge at batch 747"
    words = ["512", "512", "--on", "h200-sxm"]
    assert run("critical-batch", *words).stdout.startswith(said)
    layer = ("linear", "batch=747", "in_features=512", "out_features=512", "--on", "h200-sxm")
    assert f"crossover   {said}" in run("predict", *layer).stdout
    assert (document("critical-batch", *words)["critical_batch"], document("predict", *layer)["bound"]) == (
        747,
        "overhead",
    )


# -- one ridge ------------------------------------------------------------------------------------------------


def ridge_of_chart(machine: Machine) -> float:
    (mark,) = [mark for mark in charts.find("roofline")(machine, dtype="bf16").marks if mark.role == "ridge"]
    return float(mark.value)


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_has_one_ridge(name: str) -> None:
    """That of reads, in the catalog, comparisons, charts and of a kernel that only reads."""
    machine = real(name)
    ridge = machine.ridge("tensor.bf16")
    assert machine.ridges()["tensor.bf16"] == ridge
    assert document("machines", name)["ridges"]["tensor.bf16"] == pytest.approx(ridge)
    assert document("compare", name)[0]["ridge"] == pytest.approx(ridge)
    assert ridge_of_chart(machine) == pytest.approx(ridge)
    reading = rl.predict(rl.ops.linear(batch=1, in_features=16384, out_features=16384), machine)
    assert reading.ridge == pytest.approx(ridge, rel=1e-3)  # of its bytes one in 16,384 is written


def test_the_measured_bandwidth_is_that_of_reads() -> None:
    main = real("h200-sxm").main
    assert main.bandwidth.measured == main.mixes["read"].measured
    assert max(figure.measured or 0.0 for figure in main.mixes.values()) > main.mixes["read"].measured  # writes
    assert real("h200-sxm").ridge_mix() == " (read bandwidth)"
    assert real("b200-sxm").ridge_mix() == ""


# -- balanced -------------------------------------------------------------------------------------------------


@given(ratio=st.floats(0.01, 100), spread=st.floats(0.0, 3.0))
@law(80)
def test_a_noisy_ceiling_makes_nothing_balanced(ratio: float, spread: float) -> None:
    """Only cases within the uncertainty of the ratio are; beyond 20 % a spread lowers the confidence, no more."""
    from dataclasses import replace

    machine = rl.two_number(1e12, 1e11)
    main = machine.main
    noisy = replace(main.bandwidth, measured=1e11, stated=None, spread=spread)
    machine = replace(machine, levels=(replace(main, bandwidth=noisy),))
    # n additions over 12 n bytes take n / 1e12 s and 12 n / 1e11 s; more arithmetic by repeating it
    work = rl.ops.gemm(64, 64, 64, dtype="fp32")
    share = work.flops / 1e12 / (work.bytes / 1e11)
    prediction = rl.predict(work.scaled(1.0, ratio / share), machine)
    limit = math.hypot(0.1, min(max(spread, 0.03), 0.2))
    if abs(abs(math.log(ratio)) - limit) > 1e-6:
        assert (prediction.bound == "balanced") == (abs(math.log(ratio)) < limit)
    if prediction.bound != "balanced":
        assert prediction.bound == ("compute" if ratio > 1 else "memory")


# -- capacity -------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_said_everywhere() -> None:
    """Three matrices of 131072^2 in bf16 are 103 GB; an L4 has 24 GB."""
    words = ["gemm", "m=131072", "n=131072", "k=131072"]
    text = "does not fit: needs 103 GB, l4 has 24.2 GB"
    answer = document("predict", *words, "--on", "l4")
    assert (answer["fits"], answer["footprint"]) == (False, 3 * 2 * 131072**2)
    assert text in answer["notes"]
    assert text in str(rl.predict(find("gemm")(131072, 131072, 131072), "l4"))
    stops = document("whatif", *words, "--on", "l4", "--do", "quantize=fp8")["stops"]
    assert text in stops[0]["notes"]
    assert stops[1]["notes"] == ["quantize to fp8: does not fit: needs 68.7 GB, l4 has 24.2 GB"]
    formats = run("precisions", *words, "--on", "l4", "--dtypes", "bf16,int8").output
    assert "does not fit: bf16 needs 103 GB, int8 needs 103 GB; l4 has 24.2 GB" in formats
    fitting = document("predict", *words, "--on", "h200-sxm")
    assert fitting["fits"] is True
    assert not any("fit" in note for note in fitting["notes"])


def test_a_sweep_says_which_cases_fit() -> None:
    rows = document("predict", "gemm", "m=16384..131072", "n=131072", "k=65536", "--on", "l4")["rows"]
    capacity: Any = real("l4").main.total
    assert (
        [row["fits"] for row in rows] == [row["footprint"] <= capacity for row in rows] == [True, False, False, False]
    )
    assert "3 of 4 cases do not fit: they need up to 68.7 GB, l4 has 24.2 GB" in rows[0]["notes"]


def test_kinds_of_ceilings_are_the_best_there_is() -> None:
    kinds = {row["machine"]: row["ceilings"] for row in document("compare", "h200-sxm", "b200-sxm")}
    assert kinds == {"h200-sxm": KINDS[0], "b200-sxm": KINDS[1]}
    asked = {
        row["machine"]: row["ceilings"] for row in document("compare", "h200-sxm", "b200-sxm", "--ceilings", "stated")
    }
    assert set(asked.values()) == {"stated"}


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("attention", {"batch": 1, "heads": 32, "seq_q": 8192, "head_dim": 128, "causal": True, "window": 8064}, "kernel switch: a window"),
        ("gemm", {"m": 4095, "n": 4095, "k": 4096}, "alignment: n=4096 takes"),
        ("conv2d", {"batch": 32, "c_in": 64, "c_out": 64, "h": 56, "w": 56, "kernel": 3, "padding": 1}, "direct; output 56 x 56"),
        ("all_reduce", {"bytes": 2**30, "ranks": 9}, "9 ranks as 5 + 4 on 2 nodes"),
    ],
)  # fmt: skip
def test_python_has_the_notes_of_the_command_line(name: str, values: dict[str, Any], said: str) -> None:
    made = rl.predict(find(name)(**values), "h200-sxm")
    words = [f"{size}={value}" for size, value in values.items()]
    assert list(made.notes) == document("predict", name, *words, "--on", "h200-sxm")["notes"]
    assert any(note.startswith(said) for note in made.notes)
    printed = run("predict", name, *words, "--on", "h200-sxm").stdout.splitlines()
    assert [line.strip() for line in str(made).splitlines() if line.startswith("  note: ")] == [
        line for line in printed if line.startswith("note: ")
    ]


def test_changed_work_has_no_notes_of_the_op_it_was_made_from() -> None:
    """What takes less than a GEMM nearby says nothing of many at once."""
    gemm = find("gemm")(m=4095, n=4095, k=4096)
    assert rl.predict(gemm, "h200-sxm").remarks
    for changed in (gemm.repeat(2), gemm.batch(2), gemm.scaled(2, 2), gemm + gemm):
        made = rl.predict(changed, "h200-sxm")
        assert not made.remarks


def test_a_given_number_of_active_experts_is_answered() -> None:
    """256 experts take at least 64 tokens that choose 4 each: the search for the turning point began at one token."""
    layer = {"experts": 256, "topk": 4, "hidden": 843, "inter": 256, "active": 256}
    words = [f"{name}={value}" for name, value in layer.items()]
    given_load = document("predict", "moe", "tokens=512", *words, "--on", "h200-sxm")
    assert given_load["time_us"] == pytest.approx(rl.predict(find("moe")(tokens=512, **layer), "h200-sxm").time * 1e6)
    turn = given_load["turns_compute_bound_at"]["tokens"]
    sides = [rl.predict(find("moe")(tokens=tokens, **layer), "h200-sxm").bounds[0] for tokens in (turn - 1, turn)]
    assert [bool(bound.compute_time >= bound.memory_time) for bound in sides] == [False, True]
    assert document("predict", "moe", "tokens=64,128", *words, "--on", "h200-sxm")["rows"][0]["shape"]["tokens"] == 64


@pytest.mark.parametrize("op", ["relu n=4096", "symv n=4096", "softmax rows=512 cols=4096"])
def test_machines_are_compared_by_the_units_that_an_op_runs_on(op: str) -> None:
    """The tensor cores do none of it: their peak and ridge say nothing of what these gain from a newer machine."""
    name, *words = op.split()
    rows = document("compare", "h100-sxm", "b200-sxm", "--op", op)
    for row in rows:
        predicted = document("predict", name, *words, "--on", row["machine"])
        assert (row["engine"], row["ridge"]) == ("vector.fp32", predicted["ridge"])
    assert rows[1]["compute_growth"] == pytest.approx(75 / 66.9, rel=0.01)
