"""Timing library kernels on a CPU: which cases, cold operands, right answers, what Ctrl-C and other programs leave."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ridgeline.core.families import Key
from ridgeline.core.figure import Figure, Level
from ridgeline.core.fitted import Fitted
from ridgeline.core.machine import Machine
from ridgeline.core.observation import Observation
from ridgeline.core.work import Work
from ridgeline.machines.schema import read
from ridgeline.machines.write import text
from ridgeline.measure import session
from ridgeline.measure.cpu import calibration, direct_calls, draws, probes
from ridgeline.measure.cpu.calibration import Timings, call_cold, call_resident, limits, resident_limits, time_cases
from ridgeline.measure.cpu.draws import Limits, cases
from ridgeline.measure.cpu.library import NumPy, Operands, Torch
from ridgeline.measure.cuda import calls
from ridgeline.programs.ops import find

MIB = 1 << 20


def figure(unit: str, value: float) -> Figure:
    return Figure(unit, measured=value, measurement="a test", source="a test")


CPU = Machine(
    "fake",
    title="a fake CPU",
    vendor="none",
    kind="cpu",
    units={"core": 2},
    peaks={"vector.fp32": figure("flop/s", 80e9), "vector.fp64": figure("flop/s", 40e9)},
    levels=(
        Level("l2", figure("B/s", 200e9), figure("B", MIB)),
        Level("memory", figure("B/s", 40e9), figure("B", 4e9)),
    ),
)
SMALL = Limits(moved=2e5, flops=1e6)


def silent(done: int, total: int, label: str) -> None:
    return None


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_every_op_has_enough_cases_within_the_limits(library: str, quick: bool) -> None:
    most = limits(CPU, quick, 64 * MIB)
    listed = cases(library, ["fp32"], most, quick)
    counts = Counter(case["op"] for case in listed)
    wanted = {"gemm", "gemv", "add", "exp", "copy", "sum", "softmax", "layernorm"}
    wanted |= {"conv2d", "attention", "embedding", "rmsnorm", "cast", "gelu"} if library == "torch" else set()
    wanted |= set(draws.UNLIKE) if library == "torch" else set()
    wanted |= {*draws.TRAINING, *draws.FURTHER} if library == "torch" and not quick else set()
    assert wanted <= set(counts)
    assert min(counts.values()) >= 8
    for case in listed:
        work = find(case["op"])(**{key: value for key, value in case.items() if key != "op"})
        assert work.footprint <= most.moved
        assert work.flops <= most.flops


def test_sizes_reach_from_inside_the_cache_to_beyond_it() -> None:
    most = limits(CPU, True, 64 * MIB)
    sizes = [12.0 * case["n"] for case in cases("torch", ["fp32"], most, True) if case["op"] == "add"]
    assert min(sizes) < MIB / 8
    assert max(sizes) > 4 * MIB


def test_gemms_are_square_thin_and_odd() -> None:
    listed = [case for case in cases("torch", ["fp32"], limits(CPU, False, 64 * MIB), False) if case["op"] == "gemm"]
    assert any(case["m"] == case["n"] == case["k"] for case in listed)
    assert any(case["m"] <= 8 for case in listed)
    assert any(case["n"] % 8 for case in listed)


def test_only_the_call_on_cold_operands_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks, events = iter(range(100)), list[str]()
    monkeypatch.setattr(calibration, "perf_counter", lambda: (events.append("clock"), float(next(ticks)))[1])
    monkeypatch.setattr(calibration, "waited", lambda: None)
    runs = (lambda: events.append("warm"), lambda: events.append("timed"))
    timing = call_cold(lambda: events.append("flush"), runs, 2, loops=2)
    assert events == ["flush", "warm", "clock", "timed", "clock"] * 2
    assert timing.seconds == 2.0
    assert timing.busy == 1.0


def test_a_call_whose_threads_waited_counts_as_preempted(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks, waits = iter((0.0, 1.0)), iter((0.0, 1.0))
    monkeypatch.setattr(calibration, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(calibration, "waited", lambda: next(waits))
    assert call_cold(None, (lambda: None, lambda: None), 2, loops=1).busy == pytest.approx(0.5, abs=0.01)


def test_calls_on_operands_in_cache_are_timed_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks, events = iter((0.0, 1.0, 2.0, 52.0, 60.0, 61.0)), list[str]()
    monkeypatch.setattr(calibration, "perf_counter", lambda: (events.append("clock"), next(ticks))[1])
    monkeypatch.setattr(calibration, "waited", lambda: None)
    timing = call_resident(lambda: events.append("call"), 2, loops=3)
    assert events == ["call", *("clock", "call", "clock") * 3]
    assert timing.seconds == 3.0  # the second call, of 50 seconds, was disturbed
    assert timing.busy == 1.0


class FakeLibrary:
    """Calls that do nothing; from a given call on, Ctrl-C."""

    name = version = "fake"

    def __init__(self, stop_at: int = 1 << 30) -> None:
        self.calls, self.stop_at = 0, stop_at

    def build(self, case: dict[str, Any]) -> tuple[Any, Any]:
        return self.call, self.call

    def call(self) -> None:
        self.calls += 1
        if self.calls >= self.stop_at:
            raise KeyboardInterrupt

    def flush(self) -> None:
        pass


def test_ctrl_c_keeps_the_cases_that_were_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "waited", lambda: None)
    listed = cases("torch", ["fp32"], SMALL, True)[:60]
    timings = time_cases(listed, FakeLibrary(400), CPU, True, float("inf"), silent)  # type: ignore[arg-type]
    assert timings.stopped
    assert 0 < len(timings.rows) < 60
    assert timings.missing > 0
    assert "stopped by Ctrl-C" in timings.notes()[0]
    assert all(row["time_us"] > 0 for row in timings.rows)


def test_when_the_time_is_over_what_is_missing_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "waited", lambda: None)
    listed = cases("torch", ["fp32"], SMALL, True)[:60]
    timings = time_cases(listed, FakeLibrary(), CPU, True, float("-inf"), silent)  # type: ignore[arg-type]
    assert timings.rows == []
    assert timings.notes() == ("not measured (the time was used up): 60 of 60 library kernels",)


def test_cases_without_an_undisturbed_sample_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(np.arange(0, 1e6, 10.0))
    monkeypatch.setattr(calibration, "waited", lambda: float(next(clock)))
    listed = cases("torch", ["fp32"], SMALL, True)[:5]
    timings = time_cases(listed, FakeLibrary(), CPU, True, float("inf"), silent)  # type: ignore[arg-type]
    assert timings.rows == []
    assert timings.preempted == 5
    assert str(timings.notes()[0]).startswith("noisy: 5 library kernels were preempted")


def test_gradients_of_one_call_share_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "waited", lambda: None)
    (case,) = [case for case in cases("torch", ["fp32"], Limits(2e6, 5e8, 1), True, True) if "dgrad" in case["op"]][:1]
    timings = time_cases([case], FakeLibrary(), CPU, True, float("inf"), silent, True)  # type: ignore[arg-type]
    image, weights = timings.rows
    assert (image["op"], weights["op"]) == ("conv2d_dgrad", "conv2d_wgrad")
    assert image["time_us"] == weights["time_us"] > 0


def test_cases_in_cache_fit_a_quarter_of_it_and_go_down_to_single_elements() -> None:
    most = resident_limits(CPU, limits(CPU, True, 64 * MIB))
    assert most.moved == MIB / 4
    listed = cases("torch", ["fp32"], most, True, resident=True)
    assert min(case["n"] for case in listed if "n" in case) < 64
    assert {"conv2d_dgrad", "batchnorm_backward", "max_pool2d", "layernorm_backward"} <= {case["op"] for case in listed}


def test_notes_are_absent_where_all_was_timed() -> None:
    assert Timings(rows=[{"op": "add"}]).notes() == ()


def test_the_held_out_error_is_reported_by_family_and_backend() -> None:
    row = Fitted({}, 0.06, 0.2, 0.9, 1.1, 10, "a test")
    keys = ("gemm.fp32", "gemm-few.fp32", "rows.softmax.fp32@numpy")
    (note,) = calibration.summary({Key.parse(key): row for key in keys}, 30)
    assert note == "calibrated on 30 timings of library kernels; held-out median error: gemm 6 %, rows@numpy 6 %"
    (note,) = calibration.summary({}, 3)
    assert note.startswith("not calibrated: 3 undisturbed timings")


# -- the calls compute what the op says -------------------------------------------------------------------------------


def test_numpy_calls_compute_their_op() -> None:
    library = NumPy(1 << 16, 1 << 20)
    values = Operands(library.values, "fp64", 0)
    x = values.take(6, 40)
    softmax = library.build({"op": "softmax", "dtype": "fp64", "rows": 6, "cols": 40})[0]()
    assert np.allclose(softmax.sum(axis=1), 1)
    assert np.allclose(softmax, np.exp(x) / np.exp(x).sum(axis=1, keepdims=True))
    norm = library.build({"op": "layernorm", "dtype": "fp64", "rows": 6, "cols": 40})[0]()
    gamma = beta = values.take(40)
    assert np.allclose(norm, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gamma + beta)
    product = library.build({"op": "gemm", "dtype": "fp64", "m": 3, "n": 5, "k": 7})[0]()
    assert np.allclose(product, values.take(3, 7) @ values.take(5, 7).T)
    assert library.build({"op": "sum", "dtype": "fp64", "n": 50})[0]() == pytest.approx(values.take(50).sum())


@pytest.mark.parametrize("quick", [True, False])
def test_every_numpy_case_has_a_call(quick: bool) -> None:
    library = NumPy(1 << 16, 4 * MIB)
    listed = {case["op"]: case for case in cases("numpy", ["fp32", "fp64"], SMALL, quick)}
    for case in listed.values():
        runs = list(library.build(case))
        assert runs, case
        for run in runs:
            run()


@pytest.mark.needs_torch
def test_every_torch_case_has_a_call() -> None:
    pytest.importorskip("torch")
    library = Torch(1 << 16, 4 * MIB)
    for case in {case["op"]: case for case in cases("torch", ["fp32"], Limits(2e6, 5e8, 1), False, True)}.values():
        runs = list(library.build(case))
        assert runs, case
        for run in runs:
            run()


@pytest.mark.needs_torch
def test_direct_calls_compute_what_autograd_does() -> None:
    torch = pytest.importorskip("torch")
    pools = [calls.ValuePool(torch, "cpu", 1 << 20) for _ in range(2)]
    shapes: dict[str, dict[str, int]] = {
        "layernorm_backward": {"rows": 6, "cols": 32},
        "batchnorm_backward": {"batch": 3, "channels": 4, "pixels": 9},
        "attention_backward": {"batch": 1, "heads": 2, "seq_q": 8, "head_dim": 16},
    }
    for op, sizes in shapes.items():
        case = {"op": op, "dtype": "fp32", **sizes}
        pools[1]._values = pools[0]._values  # the same numbers
        usual = calls.build(case, torch, "cpu", pools[0])()
        direct = calls.build(case, torch, "cpu", pools[1], direct_calls.BUILDERS)()
        assert len(usual) == len(direct) == 3
        for one, other in zip(usual, direct, strict=True):
            assert one.shape == other.shape, op


@pytest.mark.needs_machine
def test_a_small_calibration_gives_times_with_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The structure alone: a busy machine may time few kernels, and then there are fewer coefficients."""
    pytest.importorskip("scipy")
    import ridgeline as rl

    monkeypatch.setattr(calibration, "BUDGET_SECONDS", {True: 4.0})
    monkeypatch.setattr(calibration, "waited", lambda: None)
    monkeypatch.setattr(draws, "DRAWS", {"add": draws.DRAWS["add"]})
    monkeypatch.setattr(calibration, "find_spec", lambda name: None)
    monkeypatch.setattr(calibration, "limits", lambda *given: Limits(4e6, 1e9))
    fitted, _ = calibration.fitted_families(CPU, True, lambda *step: None)
    made = rl.predict(rl.ops.add(50_000, dtype="fp32"), replace(CPU, fitted=fitted))
    assert made.floor <= made.time
    assert made.low <= made.time <= made.high
    assert {key.backend for key in fitted} <= {"", "numpy"}
    if fitted:
        assert "calibrated (stream.add.fp32" in str(made.expected[0].confidence)


# -- from the command to the saved machine ----------------------------------------------------------------------------

READ = Observation("read", "memory", (0.1,), Work(moves={("main", "a", "read"): 4e9}), {"mix": "read", "threads": 2})


@pytest.fixture
def measured_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "require", lambda: None)
    monkeypatch.setattr(session.detect, "here", lambda kind=None: CPU)
    monkeypatch.setattr(probes, "measure", lambda machine, quick, on_progress: [READ])


@pytest.mark.usefixtures("measured_cpu")
def test_calibrated_families_are_saved_with_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy")
    rows = [{"op": "add", "dtype": "fp32", "n": 1000 * 2**place, "time_us": 10.0 + 2**place} for place in range(12)]
    timings = Timings(rows=[*rows, *({**row, "backend": "numpy"} for row in rows)], libraries=["torch 2", "NumPy 2"])
    monkeypatch.setattr(calibration, "measure", lambda machine, quick, on_progress: timings)
    measured = session.measure("cpu", True, lambda *step: None, families=True)
    assert measured.machine is not None
    saved = read(text(measured.machine), "here.toml")
    assert {str(key) for key in saved.fitted} >= {"stream.add.fp32", "stream.add.fp32@numpy"}
    assert saved.fitted == measured.machine.fitted
    assert "cold caches" in saved.fitted[Key.parse("stream.add.fp32")].source
    assert any("held-out median error" in note for note in saved.notes)


@pytest.mark.usefixtures("measured_cpu")
def test_ctrl_c_while_kernels_are_timed_keeps_the_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> Timings:
        raise KeyboardInterrupt

    monkeypatch.setattr(calibration, "measure", stop)
    measured = session.measure("cpu", True, lambda *step: None, families=True)
    assert measured.machine is not None
    assert measured.machine.main.bandwidth.measured == pytest.approx(4e10)
    assert not measured.machine.fitted
    assert "not measured (stopped by Ctrl-C): the kernel families" in measured.notes
