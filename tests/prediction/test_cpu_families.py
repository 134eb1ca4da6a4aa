"""CPU families: fits recover a CPU of known coefficients, intervals hold, no time implies a rate above a ceiling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.core.families import Hardware, Key, formula
from ridgeline.core.families.cpu import seconds_per_byte
from ridgeline.core.figure import Figure, Level
from ridgeline.core.fitted import Fitted
from ridgeline.core.machine import Machine
from ridgeline.core.work import Work, work
from ridgeline.machines.schema import read
from ridgeline.machines.write import text
from ridgeline.prediction.coefficients import kernels, select
from ridgeline.prediction.fit import fit_cases, fit_small
from ridgeline.prediction.hardware import hardware


def measured(unit: str, value: float) -> Figure:
    return Figure(unit, measured=value, measurement="a test", source="a test")


def level(name: str, capacity: float, bandwidth: float, instances: int = 1) -> Level:
    return Level(name, measured("B/s", bandwidth), measured("B", capacity), instances=instances)


CPU = Machine(
    "fake",
    title="a fake CPU",
    vendor="none",
    kind="cpu",
    units={"core": 2},
    peaks={"vector.fp32": measured("flop/s", 80e9), "vector.fp64": measured("flop/s", 40e9)},
    levels=(level("l1", 65536, 400e9, 2), level("l2", 1 << 20, 200e9, 2), level("l3", 32 << 20, 90e9), level("memory", 24e9, 40e9)),
)  # fmt: skip
TRUTH = {
    "memory": 0.5, "launch": 2e-5, "blend": 4.0, "element": 2.0, "row": 2e-8, "alone": 2.0, "grain": 3e5, "fork": 2e-5,
    "special": 100.0, "passes": 0.5, "again": 0.3,
}  # fmt: skip


def true_time(made: Work, truth: dict[str, float] = TRUTH) -> float:
    """Of the fake CPU, by the formula with known coefficients."""
    kernel, known = kernels(made)[0], hardware(CPU, "fp32")
    assert known is not None
    sizes = {name: np.asarray(value, dtype=np.float64) for name, value in kernel.sizes.items()}
    family = formula(Key(kernel.family, "fp32"), "cpu")
    return float(family.time(sizes, known, {name: truth[name] for name in family.coefficients if name in truth}))


def timed(op: str, count: int, seed: int, noise: float = 0.03) -> list[dict[str, object]]:
    rng = np.random.default_rng(seed)
    rows: list[dict[str, object]] = []
    for _ in range(count):
        cols = int(2 ** rng.uniform(5, 14))
        number = max(int(2 ** rng.uniform(10, 24)) // cols, 1)
        sizes = {"rows": number, "cols": cols} if op == "softmax" else {"n": number * cols}
        seconds = true_time(rl.ops.find(op)(**sizes, dtype="fp32")) * np.exp(rng.normal(0, noise))
        rows.append({"op": op, "dtype": "fp32", **sizes, "time_us": seconds * 1e6})
    return rows


@pytest.mark.parametrize("op", ["add", "exp", "softmax"])
def test_a_fit_recovers_a_cpu_of_known_coefficients(op: str) -> None:
    pytest.importorskip("scipy")
    fitted = fit_cases(timed(op, 40, 1), CPU, "a test")
    family = "rows" if op == "softmax" else "stream"
    row = fitted[Key(family, "fp32", op=op)]
    assert row.error < 0.08
    here = replace(CPU, fitted=fitted)
    errors, inside = [], []
    for case in timed(op, 120, 2):
        seconds = float(str(case.pop("time_us"))) * 1e-6
        made = rl.predict(rl.ops.find(str(case.pop("op")))(**case), here)
        errors.append(abs(float(made.time) / seconds - 1))
        inside.append(float(made.low) <= seconds <= float(made.high))
        assert made.time >= made.floor
    assert np.median(errors) < 0.06
    assert 0.65 <= np.mean(inside) <= 0.99


def test_calibrated_times_follow_overhead_at_one_end_and_bandwidth_at_the_other() -> None:
    pytest.importorskip("scipy")
    here = replace(CPU, fitted=fit_cases(timed("add", 40, 1), CPU, "a test"))
    small, large = (rl.predict(rl.ops.add(n, dtype="fp32"), here) for n in (1024, 16_000_000))
    assert small.time == pytest.approx(TRUTH["launch"], rel=0.15)
    assert large.time == pytest.approx(12 * 16e6 / (0.5 * 40e9), rel=0.15)
    assert str(small.expected[0].confidence).startswith("calibrated (stream.add.fp32, 40 timings): held-out error ")


# -- a handful of timings ---------------------------------------------------------------------------------------------


def stencil(rows: int) -> Work:
    """A kernel that is no op of the registry, as `ridgeline run` has one."""
    pixels = 4096.0 * rows
    counts = {
        "vector": {"taps": (17 * pixels, "")},
        "read": {"x": (pixels, "fp32", "")},
        "write": {"y": (pixels, "fp32", "")},
    }
    return replace(work(**counts, dtype="fp32"), name="stencil", family="stream")  # type: ignore[arg-type]


def kernel_of(name: str, size: int) -> Work:
    if name == "gemm":
        return rl.ops.gemm(size, size, size, dtype="fp32")
    return stencil(size) if name == "stencil" else rl.ops.softmax(size, 4096, dtype="fp32")


SIZES = {"gemm": ((384, 512, 768, 1536), 1024), "stencil": ((1000, 2000, 6000), 4000), "softmax": ((900, 2500, 7000, 9000), 5000)}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_a_few_timings_of_other_sizes_predict_a_size_with_an_honest_interval(name: str) -> None:
    rng = np.random.default_rng(3)
    sizes, asked = SIZES[name]
    errors, inside = [], []
    for _ in range(25):

        def seconds(size: int) -> float:
            floor = float(rl.predict(kernel_of(name, size), CPU).floor)
            return float((4e-6 + floor / 0.6) * np.exp(rng.normal(0, 0.04)))

        rows = [(kernel_of(name, size), [seconds(size)] * 5) for size in sizes]
        made = rl.predict(kernel_of(name, asked), replace(CPU, fitted=fit_small(rows, CPU)))
        truth = seconds(asked)
        errors.append(abs(float(made.time) / truth - 1))
        inside.append(float(made.low) <= truth <= float(made.high))
    assert np.median(errors) < 0.06
    assert np.mean(inside) >= 0.7


def test_the_interval_of_a_few_timings_is_never_narrower_than_the_noise_of_a_sample() -> None:
    def rows(noise: float) -> list[tuple[Work, list[float]]]:
        times = {size: float(rl.predict(stencil(size), CPU).floor) / 0.6 for size in (1000, 2000, 6000)}
        return [(stencil(size), [t * (1 - noise), t, t * (1 + noise)]) for size, t in times.items()]

    calm, noisy = (next(iter(fit_small(rows(noise), CPU).values())) for noise in (0.001, 0.3))
    assert calm.low <= 0.975 < 1.025 <= calm.high
    assert noisy.low < 0.82
    assert noisy.high > 1.2


def test_a_kernel_timed_at_one_size_is_left_to_the_ceilings() -> None:
    assert fit_small([(stencil(1000), [1e-3, 1.1e-3])], CPU) == {}


# -- the formula ------------------------------------------------------------------------------------------------------


def test_data_read_again_come_from_the_level_that_holds_them() -> None:
    known = hardware(CPU, "fp32")
    assert known is not None
    for size, bandwidth in ((1e3, 400e9), (6e5, 200e9), (9e6, 90e9), (1e9, 40e9)):
        assert seconds_per_byte(size, known) == pytest.approx(1 / bandwidth, rel=0.1)
    sizes = np.geomspace(1e3, 1e9, 200)
    assert np.all(np.diff(seconds_per_byte(sizes, known)) >= 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("family", ["gemm", "stream", "rows", "transpose", "attention", "decode", "conv", "moe"])
def test_no_share_of_a_ceiling_may_exceed_one(family: str) -> None:
    rows = formula(Key(family, "fp32"), "cpu").coefficients
    assert rows["memory"].high == 1.0
    assert family in ("stream", "rows", "transpose") or rows["compute"].high == 1.0


def test_a_core_count_does_not_change_what_a_gpu_needs() -> None:
    assert Hardware(1, 1.0, 1.0, 1.0).caches == ()
    gemm = Key("gemm", "fp32")
    assert formula(gemm) is not formula(gemm, "cpu")
    assert formula(gemm).shape == formula(gemm, "cpu").shape


def test_coefficients_of_a_cpu_come_back_from_its_file() -> None:
    fitted = fit_small([(stencil(size), [1e-6 * size]) for size in (1000, 2000, 6000)], CPU)
    assert fitted
    saved = read(text(replace(CPU, fitted=fitted)), "fake.toml")
    assert saved.fitted == fitted
    assert rl.predict(stencil(3000), saved).time == rl.predict(stencil(3000), replace(CPU, fitted=fitted)).time


def test_a_format_that_was_not_timed_takes_fp32_on_a_cpu_and_on_a_gpu_where_bytes_stream() -> None:
    row = next(iter(fit_small([(stencil(size), [1e-6 * size]) for size in (1000, 2000, 6000)], CPU).values()))
    key = Key("stream", "bf16", op="add")
    fitted = {Key("stream", "fp32"): row}
    chosen = select(replace(CPU, fitted=fitted), key)
    assert chosen is not None
    assert chosen.doubt > 0
    assert select(replace(CPU, kind="gpu", fitted=fitted), key) is not None
    rows = {Key("rows", "fp32", op="softmax"): row}
    assert select(replace(CPU, kind="gpu", fitted=rows), Key("rows", "bf16", op="softmax")) is None


def test_a_product_without_timings_does_not_run_at_the_rate_of_fma_chains() -> None:
    """A machine that was too busy to time its products answered 100 % of roofline; they took 2.4 times as long, outside the interval."""
    peak = Figure("flop/s", derived=80e9, derivation="clock", measured=79e9, measurement="a test", source="a test")
    machine = replace(CPU, peaks={"vector.fp32": peak})
    made = rl.predict(rl.ops.gemm(m=1024, n=1024, k=1024, dtype="fp32"), machine)
    assert made.time == pytest.approx(2 * 1024**3 / (0.78 * 80e9), rel=0.01)  # the usual share of what the clock gives
    assert made.high > 2.4 * made.floor
    assert str(made.expected[0].confidence).endswith("; `ridgeline measure cpu --calibrate` times them")
    streamed = rl.predict(rl.ops.stream_triad(n=10**8, dtype="fp32"), machine)
    assert streamed.efficiency > 0.99  # a measured bandwidth is what kernels get


@pytest.mark.parametrize("op", ["gemv", "gemm"])
def test_narrower_weights_do_not_leave_a_call_on_one_core(op: str) -> None:
    """Cores are started for elements: a gemv of int4 weights was said to run on one core, where int8 ones would have two."""
    row = Fitted(
        {"memory": 0.57, "launch": 1e-5, "element": 2.0, "row": 5e-9, "alone": 3.0, "grain": 1e5, "fork": 7e-6, "compute": 0.5},
        error=0.1, p90=0.2, low=0.8, high=1.3, cases=12, source="timed for a test, on this machine",
    )  # fmt: skip
    keys = [Key(family, "fp32") for family in ("rows", "gemm", "weight_only")]
    machine = replace(CPU, fitted=dict.fromkeys(keys, row))
    sizes = {"m": 16128, "n": 8} if op == "gemv" else {"m": 1, "n": 512, "k": 128}
    times = [
        float(rl.predict(getattr(rl.ops, op)(**sizes, dtype="fp32", weights=stored), machine).time)
        for stored in ("int4_g128", "int8", "fp32")
    ]
    assert times == sorted(times)
