"""Studies: which kernels stand for a machine, what is left out and said, and that a study is data before it is shown."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.core.errors import InputError
from ridgeline.core.figure import Figure, Level
from ridgeline.core.machine import Machine
from ridgeline.core.work import Program, Step
from ridgeline.prediction import compare, locality, precisions, studies
from ridgeline.prediction.kernel_sets import kernel_name, kernels_of, predict_set
from ridgeline.prediction.turning import TurningPoint, turning_point
from ridgeline.programs import ops

A100, H100 = rl.machine("a100-sxm-80gb"), rl.machine("h100-sxm")


@pytest.mark.parametrize(
    ("work", "name"),
    [
        (ops.gemm(4096, 4096, 4096), "gemm 4096³"),
        (ops.gemm(4096, 14336, 4096), "gemm 4096x14336x4096"),
        (ops.axpy(1e8), "axpy 1e8"),
        (ops.linear(8, 4096, 11008), "linear 4096→11008 b8"),
        (ops.conv2d(32, 64, 128, 56, 56, 3), "conv2d 64→128 56x56 b32"),
    ],
)
def test_a_kernel_is_named_by_its_op_and_sizes(work: rl.Work, name: str) -> None:
    assert kernel_name(work) == name


def test_every_step_and_every_case_is_a_kernel() -> None:
    steps = Program((Step("first", ops.gemm(64, 64, 64), 3.0), Step("second", ops.relu(1e6))), "two")
    kernels = kernels_of(rl.predict(steps, A100))
    assert [kernel.name for kernel in kernels] == ["first", "second"]
    assert kernels[0].flops == 2 * 64**3  # of one run, whatever the count
    sweep = kernels_of(rl.predict(ops.gemm(np.array([64, 128]), 64, 64), A100))
    assert [kernel.name for kernel in sweep] == ["gemm 64³", "gemm 128x64x64"]


def test_a_work_the_machine_has_no_ceiling_for_is_left_out_with_a_note() -> None:
    bare = Machine(
        "bare", peaks={"vector.fp32": Figure("flop/s", stated=1e12)}, levels=(Level("memory", Figure("B/s", stated=1e11), Figure("B")),)
    )  # fmt: skip
    study = predict_set(bare, [("wide", ops.axpy(1e6, dtype="fp32")), ("narrow", ops.gemm(8, 8, 8, dtype="fp8"))])
    assert [entry.name for entry in study.entries] == ["wide"]
    (note,) = study.notes
    assert note.startswith("narrow left out: ")


def test_a_turning_point_is_the_first_compute_bound_size() -> None:
    values = {"n": 4096.0, "k": 4096.0, "dtype": "bf16"}
    turn = turning_point(ops.gemm, values, A100)
    assert turn is not None
    assert not turn.never
    times = [rl.predict(ops.gemm(turn.value - step, **values), A100).bounds[0] for step in (0, 1)]
    assert times[0].compute_time >= times[0].memory_time
    assert times[1].compute_time < times[1].memory_time
    assert TurningPoint("m", float("inf")).never


def test_quantizing_compares_floors_and_needs_a_second_format() -> None:
    study = precisions.formats(A100)
    times = {name: kernel.time for name, kernel in study.kernels}
    assert times["int8"] < times["bf16"] < times["fp32"]
    assert "tensor.int8" in study.engines
    alone = precisions.formats(rl.machine("epyc-9654"), dtype="fp32")
    assert [name for name, _ in alone.kernels] == ["fp32"]


def test_locality_has_the_bytes_of_every_level() -> None:
    study = locality.locality(A100)
    assert [row.level for row in study.levels] == ["hbm", "l2", "l1"]
    assert study.time == pytest.approx(max(row.bytes / A100.bandwidth(row.level).value for row in study.levels))
    assert (study.bound, study.limiter) == ("memory", "l2")
    assert study.levels[0].intensity > study.levels[1].intensity > study.levels[2].intensity


def test_a_trend_takes_one_machine_a_year_and_only_records() -> None:
    by_year = compare.trend(H100).by_year
    speeds = [row.bandwidth for row in by_year.values()]
    assert list(by_year) == sorted(by_year)
    assert speeds == sorted(speeds)


def test_machines_to_compare_with_are_of_the_same_kind() -> None:
    for machine in (A100, rl.machine("epyc-9654"), rl.machine("tpu-v5e")):
        rows = compare.roofs(machine).roofs
        assert rows[0].machine is machine
        assert {row.machine.kind for row in rows} == {machine.kind}
    with pytest.raises(InputError, match="none of these machines"):
        compare.roofs(Machine("bare"), [Machine("bare")], dtype="bf16")


def test_the_example_of_changes_says_that_it_is_one() -> None:
    study = studies.changes(A100)
    assert study.example
    assert not studies.changes(A100, study.stops).example


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("h100-sxm", {"cuBLAS", "CUTLASS", "Triton", "int4", "flash", "naive"}),
        ("rtx-4090", {"cuBLAS", "CUTLASS", "Triton", "int4", "naive"}),
        ("mi300x", {"Triton", "int4", "naive"}),
        ("apple-m3", {"int4"}),
        ("epyc-9654", set()),
        ("tpu-v5e", set()),
    ],
)
def test_production_kernels_are_those_that_run_on_the_machine(name: str, kernels: set[str]) -> None:
    """`table kernels` gave cuBLAS and FlashAttention-3 on an M3, an EPYC and an MI300X; a compute-bound kernel had a share of the bandwidth."""
    study = studies.production_kernels(rl.machine(name))
    assert {entry.name.split()[0] for entry in study.entries} == kernels
    left_out = [note for note in study.notes if "left out" in note]
    assert len(left_out) == len(studies.published()) - len(kernels)


def test_growth_is_given_between_figures_of_one_kind_for_peak_and_bandwidth_apart() -> None:
    """Both CPUs have derived peaks and stated bandwidths, and no kind of both: nothing was said of their growth."""
    study = compare.comparison([rl.machine(name) for name in ("epyc-9654", "grace")])
    grace = study.generations[1]
    assert grace.compute_growth == pytest.approx(grace.peak / study.generations[0].peak)
    assert grace.bandwidth_growth == pytest.approx(512 / 460.8, rel=1e-3)
    assert (grace.gains, study.growth.text) == ("prefill", "derived peaks and stated bandwidths of both")
