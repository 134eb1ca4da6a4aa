"""Operands in the caches of a CPU: which timings serve, what counts as resident, and which format a machine runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.core.families import Key
from ridgeline.core.figure import Figure, Level
from ridgeline.core.fitted import Fitted
from ridgeline.core.machine import Machine
from ridgeline.machines.load import load
from ridgeline.machines.schema import read
from ridgeline.machines.write import text
from ridgeline.prediction.coefficients import timed_in_cache
from ridgeline.prediction.fit import fit_cases
from ridgeline.prediction.formats import computed_in, formats_on
from ridgeline.prediction.residence import stays_in_cache

MIB = 1 << 20


def figure(unit: str, value: float) -> Figure:
    return Figure(unit, measured=value, measurement="a test", source="a test")


def fitted(launch: float) -> Fitted:
    coefficients = {"memory": 0.5, "launch": launch, "element": 0.01}
    return Fitted(
        coefficients, error=0.1, p90=0.2, low=0.8, high=1.3, cases=12, source="timed for a test, on this machine"
    )


COLD, WARM = Key("stream", "fp32", op="add"), Key("stream", "fp32", "resident", "add")
CPU = Machine(
    "fake",
    title="a fake CPU",
    vendor="none",
    kind="cpu",
    units={"core": 2},
    peaks={"vector.fp32": figure("flop/s", 80e9)},
    levels=(
        Level("l2", figure("B/s", 200e9), figure("B", MIB)),
        Level("l3", figure("B/s", 100e9), figure("B", 16 * MIB)),
        Level("memory", figure("B/s", 10e9), figure("B", 4e9)),
    ),
    fitted={COLD: fitted(20e-6), WARM: fitted(5e-6)},
)
ADD = rl.ops.add(10_000, dtype="fp32")


def test_what_was_timed_in_cache_serves_resident_operands() -> None:
    cold, warm = rl.predict(ADD, CPU), rl.predict(ADD, CPU, resident="l2")
    assert warm.expected[0].label == cold.expected[0].label == "calibrated"
    assert warm.expected[0].kernels[0].selected.key == WARM
    assert cold.expected[0].kernels[0].selected.key == COLD
    assert float(cold.time) - float(warm.time) > 15e-6  # the launch, and 120 kB from the main memory
    assert float(warm.floor) <= float(warm.low) <= float(warm.time) <= float(warm.high)


def test_what_was_never_timed_in_cache_takes_cold_timings_and_says_so() -> None:
    machine = replace(CPU, fitted={COLD: fitted(20e-6), Key("rows", "fp32", "resident", "softmax"): fitted(5e-6)})
    warm = rl.predict(ADD, machine, resident="l2").expected[0]
    assert warm.kernels[0].selected.key == COLD
    assert warm.label == "transferred"


def test_without_any_timings_in_cache_the_ceilings_of_the_level_are_all_that_is_known() -> None:
    machine = replace(CPU, fitted={COLD: fitted(20e-6)})
    assert not timed_in_cache(machine)
    assert rl.predict(ADD, machine, resident="l2").expected[0].label == "uncalibrated"
    assert not stays_in_cache(machine, [(ADD, 1.0)])


def test_a_step_stays_in_cache_as_long_as_the_cache_holds_what_it_writes() -> None:
    assert stays_in_cache(CPU, [(ADD, 16 * MIB // 40_000)])
    assert not stays_in_cache(CPU, [(ADD, 16 * MIB // 40_000 + 1)])


def test_timings_in_cache_are_fitted_apart_and_kept_in_the_machine_file() -> None:
    pytest.importorskip("scipy")
    sizes = [64 * 2**place for place in range(12)]
    rows = [{"op": "add", "dtype": "fp32", "n": n, "time_us": 3 + n * 12e-6} for n in sizes]
    machine = replace(CPU, fitted={})
    made = fit_cases(rows, machine, "timed for a test, on this machine", resident=True)
    assert all(key.resident for key in made)
    saved = read(text(replace(machine, fitted=made)), "fake.toml")
    assert set(saved.fitted) == set(made)
    warm = rl.predict(rl.ops.add(np.array([100.0, 50_000.0]), dtype="fp32"), saved, resident="l2")
    assert np.asarray(warm.time) == pytest.approx([3e-6, 3.6e-6], rel=0.2)


# -- tf32 is allowed, not asked for -----------------------------------------------------------------------------------


def test_work_in_tf32_is_the_same_work_in_fp32() -> None:
    allowed = rl.ops.gemm(8, 16, 32, dtype="tf32") + rl.ops.add(5, dtype="fp32")
    plain = computed_in(allowed, {"tf32": "fp32"})
    assert plain.flops == allowed.flops
    assert plain.bytes == allowed.bytes
    assert {dtype for _, dtype in plain.by_engine()} == {"fp32"}
    assert [kernel.dtype for step in plain.steps for kernel in step.work.kernels] == ["fp32"]
    assert computed_in(plain, {"tf32": "fp32"}) is plain


@pytest.mark.parametrize(
    ("name", "lacking"), [("h200-sxm", set()), ("v100-sxm2-16gb", {"tf32", "bf16"}), ("xeon-8480plus", {"tf32"})]
)
def test_what_machines_compute_in_other_formats(name: str, lacking: set[str]) -> None:
    assert set(formats_on(load(name))) == lacking
    assert set(formats_on(CPU)) == {"tf32", "bf16", "fp16"}


def test_a_cpu_without_bf16_converts_and_its_timings_in_fp32_serve_with_a_wider_interval() -> None:
    product, timed = rl.ops.gemm(64, 64, 64, dtype="bf16"), fitted(5e-6)
    machine = replace(CPU, fitted={Key("gemm", "fp32"): replace(timed, coefficients={"compute": 0.5, "launch": 5e-6})})
    with pytest.raises(rl.RidgelineError, match="does no bf16 arithmetic"):
        rl.predict(product, machine)
    converted = computed_in(product, formats_on(machine))
    made = rl.predict(converted, machine)
    assert made.expected[0].label == "transferred"
    assert float(made.high) / float(made.time) > 1.3**1.4
    assert converted.bytes == product.bytes


@pytest.mark.needs_torch
@pytest.mark.parametrize("mode", ["eager", "fused"])
@pytest.mark.parametrize("name", ["v100-sxm2-16gb", "xeon-8480plus"])
def test_convolutions_that_may_run_in_tf32_are_predicted_on_machines_without_it(name: str, mode: str) -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Conv2d(16, 16, 3)
    made = rl.predict(rl.trace(layer, torch.randn(2, 16, 32, 32)), name, mode=mode)
    (op,) = (op for op in made.ops if "conv" in op.name)
    assert op.time > 0
    assert op.unit.work is not None
    assert op.unit.work.dtype == "fp32"
    assert "not in the times" not in str(made)


@pytest.mark.needs_torch
@pytest.mark.parametrize("mode", ["eager", "fused"])
@pytest.mark.parametrize(("name", "dtype"), [("v100-sxm2-16gb", "bf16"), ("apple-m4", "bf16"), ("tpu-v5e", "fp16")])
def test_products_in_a_format_that_a_machine_lacks_are_in_the_times(name: str, dtype: str, mode: str) -> None:
    torch = pytest.importorskip("torch")
    wide = {"bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
    made = rl.predict(rl.trace(torch.nn.Linear(64, 60).to(wide), torch.randn(30, 64, dtype=wide)), name, mode=mode)
    assert not made.uncounted
    assert f"products in {dtype} are computed in fp32: {name} has no {dtype} arithmetic" in made.notes
    assert made.time >= made.floor > 0


@pytest.mark.needs_torch
def test_a_machine_that_has_the_format_converts_nothing() -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(64, 60).to(torch.bfloat16)
    made = rl.predict(rl.trace(layer, torch.randn(30, 64, dtype=torch.bfloat16)), "a100-sxm-80gb")
    assert "computed in fp32" not in str(made)


def test_data_that_a_cache_cannot_hold_are_said_not_to_fit_it() -> None:
    """6 GB were resident in the 63 MB of an L2 without a word."""
    (note,) = [text for text in rl.predict(rl.ops.add(n=1e9), "h200-sxm", resident="l2").notes if "holds" in text]
    assert note == "needs 6 GB and L2 holds 62.9 MB: the time is as if all of it were there"
    sweep = rl.predict(rl.ops.add(n=np.array([1e6, 1e9])), "h200-sxm", resident="l2")
    assert any(text.startswith("1 of 2 cases need up to 6 GB and L2 holds") for text in sweep.notes)
    assert not any("holds" in text for text in rl.predict(rl.ops.add(n=1e6), "h200-sxm", resident="l2").notes)
    assert not any("holds" in text for text in rl.predict(rl.ops.add(n=1e9), "h200-sxm").notes)


@pytest.mark.parametrize(
    "op", ["stream_copy", "stream_triad", "stream_add", "fill", "add", "relu", "softmax", "layernorm"]
)
@pytest.mark.parametrize("machine", ["h200-sxm", "h100-sxm", "a100-sxm-80gb", "mi300x"])
def test_operands_in_a_cache_take_no_longer_than_from_memory(op: str, machine: str) -> None:
    """Copies within the L2 of an H200 were measured slower than those of its memory, which cross that L2."""
    elements = np.array([1e4, 3e5, 3e6])
    sizes = {"rows": elements / 100, "cols": 100} if op in ("softmax", "layernorm") else {"n": elements}
    work = getattr(rl.ops, op)(**sizes, dtype="fp32")
    cold, held = rl.predict(work, machine), rl.predict(work, machine, resident="l2")
    assert np.all(held.floor <= cold.floor * 1.000001)
    assert np.all(held.time <= cold.time * 1.000001)
    assert np.all(held.low <= held.time)
    assert np.all(held.time <= held.high)
    assert "no longer than from memory" in held.expected[0].basis


@pytest.mark.parametrize(
    ("op", "least"), [("silu", 1.4), ("silu_backward", 1.4), ("dropout", 1.8), ("max_pool2d", 1.8)]
)
def test_ops_of_a_cpu_that_were_not_timed_are_less_certain_than_those_of_a_gpu(op: str, least: float) -> None:
    """Dropout of PyTorch takes 27 times as long as an addition on a Xeon, in an interval of 10 %."""
    machine = replace(CPU, fitted={Key("stream", "fp32"): fitted(20e-6)})
    sizes = {"batch": 8, "channels": 64, "h": 56, "w": 56} if op == "max_pool2d" else {"n": 1e6}
    expected = rl.predict(getattr(rl.ops, op)(**sizes, dtype="fp32"), machine).expected[0]
    assert expected.label == "transferred"
    assert expected.high / expected.time > least
    assert expected.low / expected.time < 1 / least
