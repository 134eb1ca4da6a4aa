"""The pytest plugin: tests within tests, timed by a clock of their own, and the file they leave for the gate."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ridgeline.app import pytest_plugin
from ridgeline.app.pytest_plugin.check import Checked, find_machine, noise_of, timed
from ridgeline.core.figure import Figure, Level
from ridgeline.core.machine import Machine, two_number
from ridgeline.core.notes import DRIFT, Note
from ridgeline.core.observation import Observation
from ridgeline.gaps import gate
from ridgeline.prediction.predict import predict
from ridgeline.prediction.residence import holding
from ridgeline.programs import ops

pytest_plugins = "pytester"

# A machine of 1 Gflop/s: a product of 100^3 takes 2 ms at its roof. `spend` lets the clock run as a kernel would.
HEAD = """
    import pytest
    from ridgeline import ops
    from ridgeline.core.machine import two_number

    class Clock:
        t = 0.0
        def now(self):
            return self.t

    CLOCK = Clock()
    MACHINE = two_number(1e9, 1e12)
    WORK = ops.gemm(m=100, n=100, k=100, dtype="fp32")
    KNOWN = dict(work=WORK, machine=MACHINE, ceilings="stated", clock=CLOCK)

    def spend(*times):
        turn = [0]
        def kernel():
            CLOCK.t += times[turn[0] % len(times)]
            turn[0] += 1
        return kernel
"""


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs test code with the plugin and no other, on a machine that nobody else uses."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr("ridgeline.measure.conditions.Watch.conditions", lambda self: {})

    def run(body: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(HEAD + body)
        quiet = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # it was imported above
        return pytester.runpytest_inprocess("-p", "ridgeline.app.pytest_plugin", "-rs", *quiet, *options)

    return run


def test_a_fast_function_passes_and_a_slow_one_fails_with_the_figures(inner: Any) -> None:
    result = inner(
        """
    def test_fast(ridgeline_check):
        found = ridgeline_check(spend(2.5e-3), at_least=0.7, **KNOWN)
        assert found.fraction == pytest.approx(0.8)   # 2 ms of 2.5 ms
        assert found.low == pytest.approx(found.high)

    def test_slow(ridgeline_check):
        ridgeline_check(spend(20e-3), at_least=0.7, **KNOWN)
    """
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*test_slow: 10 % of roofline, required 70 %",
            "*measured 20 ms (median of 15 samples, spread 0 %)",
            "*roofline 2 ms, compute-bound (peak), stated ceilings of two-number",
            "*95 % interval 10 % to 10 %; below 70 % with 100 % confidence",
        ]
    )
    assert "Traceback" not in result.stdout.str()


def test_a_miss_that_the_samples_leave_open_is_measured_again_and_passes_with_a_warning(inner: Any) -> None:
    # 5.5 to 6 ms in turn: the median fraction is 0.348 and may be 0.34 or 0.36
    result = inner(
        """
    def test_near(ridgeline_check):
        checked = ridgeline_check(spend(5.75e-3, 5.5e-3, 5.9e-3, 5.6e-3, 6e-3, 5.7e-3, 5.8e-3), at_least=0.35, rounds=7, **KNOWN)
        assert checked.verdict == "open"
        assert len(checked.seen.samples) == 21
    """
    )
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*RidgelineWarning: inconclusive, counted as passed*"])


def test_faster_than_the_roof_is_a_broken_test(inner: Any) -> None:
    result = inner(
        """
    def test_magic(ridgeline_check):
        ridgeline_check(spend(1e-3), **KNOWN)

    def test_nothing_is_done(ridgeline_check):
        ridgeline_check(spend(1e-7), **KNOWN)

    def test_nothing_is_done_in_the_expected_time(ridgeline_check):
        ridgeline_check(spend(1e-7), of="expected", **KNOWN)

    def test_within_the_uncertainty_of_the_ceilings(ridgeline_check):
        ridgeline_check(spend(1.95e-3), **KNOWN)
    """
    )
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(["broken test, 200 % of roofline: the function does less than its counts*"])


def test_the_expected_time_can_be_asked_for_instead(inner: Any) -> None:
    result = inner(
        """
    def test_expected(ridgeline_check):
        # 78 % of the peak is what tuned kernels are expected to reach: 2.56 ms
        found = ridgeline_check(spend(3e-3), at_least=0.8, of="expected", **KNOWN)
        assert found.fraction == pytest.approx(2 / 0.78 / 3)

    def test_wrong(ridgeline_check):
        ridgeline_check(spend(1e-3), of="everything", **KNOWN)
    """
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*of is 'roof' or 'expected', got 'everything'"])


# A machine that others use: the clock also says how long threads ran and how long they waited for a core.
BUSY = """
    from ridgeline.measure.conditions import Usage, Watch

    class Busy(Clock):
        ran = waits = 0.0
        def usage(self):
            return Usage(self.ran, self.waits)

    CLOCK = Busy()
    KNOWN["clock"] = CLOCK

    def shared(seconds, *waits, slower=1.0):
        # a kernel of so many seconds, which neighbours slow down while it runs and keep from its core in between
        turn = [0]
        def kernel():
            wait = waits[turn[0] % len(waits)]
            turn[0] += 1
            CLOCK.ran += slower * seconds
            CLOCK.waits += wait
            CLOCK.t += slower * seconds + wait
        return kernel

    @pytest.fixture(autouse=True)
    def others(monkeypatch):
        monkeypatch.setattr(Watch, "conditions", lambda self: {"others_busy": 1.0})
        monkeypatch.setattr("ridgeline.measure.conditions.allowed_cpus", lambda: 2)
        monkeypatch.setattr("time.sleep", lambda seconds: None)
"""


def test_a_busy_machine_is_judged_by_the_time_that_the_function_ran(inner: Any) -> None:
    """2 ms at the roofline, 70 % required, one of two CPUs used by others: fair share lets them double a time."""
    result = inner(
        BUSY
        + """
    def test_fast_but_preempted(ridgeline_check):
        checked = ridgeline_check(shared(2.5e-3, 0, 4e-3, 9e-3), **KNOWN)
        assert checked.seen.samples == pytest.approx([2.5e-3] * len(checked.seen.samples))

    def test_fast_but_always_preempted(ridgeline_check):
        checked = ridgeline_check(shared(2.5e-3, 4e-3), **KNOWN)
        assert checked.fraction == pytest.approx(0.8)

    def test_ten_times_too_slow(ridgeline_check):
        ridgeline_check(shared(20e-3, 0, 30e-3), **KNOWN)

    def test_too_slow_by_what_neighbours_may_take(ridgeline_check):
        ridgeline_check(shared(4e-3, 0, 3e-3), **KNOWN)

    def test_once_undisturbed(ridgeline_check):
        checked = ridgeline_check(spend(*[8e-3] * 9, 6e-3), rounds=20, at_least=0.3, **KNOWN)
        assert checked.fraction < 0.3 < checked.best

    def test_nothing_is_done(ridgeline_check):
        ridgeline_check(shared(1e-7, 0, 1e-7), **KNOWN)
    """
    )
    result.assert_outcomes(passed=3, failed=2, skipped=1)
    text = result.stdout.str()
    assert "test_ten_times_too_slow: 10 % of roofline, best sample 10 %; noisy:" in text
    assert "cannot decide on this busy machine (neighbours may slow it 2 times)" in text
    assert "broken test" in text


def test_drift_is_judged_by_the_best_sample(inner: Any) -> None:
    result = inner(
        """
    def slower(first, later):
        start = CLOCK.t
        def kernel():  # 50 ms of warming up, about 30 ms of sampling, then something else begins to run
            CLOCK.t += first if CLOCK.t - start < 0.09 else later
        return kernel

    def test_drifting(ridgeline_check):
        ridgeline_check(slower(3e-3, 9e-3), rounds=10, at_least=0.9, **KNOWN)

    def test_drifting_but_fast_at_first(ridgeline_check):
        ridgeline_check(slower(2.1e-3, 9e-3), rounds=10, at_least=0.9, **KNOWN)

    def test_drifting_and_slow(ridgeline_check):
        ridgeline_check(slower(9e-3, 18e-3), rounds=10, at_least=0.9, **KNOWN)

    def test_drifting_but_good_enough(ridgeline_check):
        ridgeline_check(slower(3e-3, 9e-3), rounds=10, at_least=0.1, **KNOWN)
    """
    )
    result.assert_outcomes(passed=2, failed=2)  # what drifts at first is slow and steady later


def test_an_unknown_or_unmeasured_machine_is_a_reason_to_skip(
    inner: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))  # nothing was measured here
    result = inner(
        """
    def test_here(ridgeline_check):
        ridgeline_check(spend(1e-3), work=WORK)

    def test_elsewhere(ridgeline_check):
        ridgeline_check(spend(1e-3), work=WORK, machine="no-such-machine")

    def test_stated_only(ridgeline_check):
        ridgeline_check(spend(1e-3), work=WORK, machine="a100-sxm-80gb")
    """
    )
    result.assert_outcomes(skipped=3)
    text = result.stdout.str()
    assert "unknown machine 'no-such-machine'" in text
    assert "a100-sxm-80gb has no measured figure" in text
    assert text.count("no measured machine") == 3


def test_a_call_whose_work_is_not_known_says_what_to_give(inner: Any) -> None:
    result = inner(
        """
    def test_unknown(ridgeline_check):
        ridgeline_check(spend(1e-3), machine=MACHINE)

    def test_nothing_asked(ridgeline_check):
        ridgeline_check(spend(1e-3), at_least=0, **KNOWN)

    def test_a_word_for_a_share(ridgeline_check):
        ridgeline_check(spend(1e-3), at_least="half", **KNOWN)

    def test_no_rounds(ridgeline_record):
        ridgeline_record(spend(1e-3), rounds=0)
    """
    )
    result.assert_outcomes(failed=4)
    assert "During handling" not in result.stdout.str()
    result.stdout.fnmatch_lines(["*ridgeline_record: rounds is an integer of at least 1, got 0*"])
    result.stdout.fnmatch_lines(["*such as 0.7, got 'half'*"])
    result.stdout.fnmatch_lines(["*the work of this call is unknown; give it, as in work=ridgeline.ops.gemm*"])
    result.stdout.fnmatch_lines(["*at_least is a fraction above 0*"])


@pytest.mark.needs_machine
def test_a_real_function_is_timed_by_the_real_clock(inner: Any) -> None:
    result = inner(
        """
    def test_real(ridgeline_check):
        import numpy as np
        a = np.ones((64, 64), dtype=np.float32)
        found = ridgeline_check(np.matmul, (a, a), at_least=1e-9, machine=two_number(1e15, 1e18), ceilings="stated", rounds=5)
        assert found.prediction.work.name == "gemm"
        assert len(found.seen.samples) == 5
        assert found.seen.median > 0
        assert found.seen.conditions["cpus"] >= 1
    """
    )
    assert result.ret == 0


def test_an_error_of_the_function_is_its_own(inner: Any) -> None:
    result = inner(
        """
    def test_broken(ridgeline_record):
        def broken():
            raise ZeroDivisionError("mine")
        ridgeline_record(broken)
    """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ZeroDivisionError: mine"])


BODY = """
    def test_one(ridgeline_record, ridgeline_check):
        seen = ridgeline_record(spend(3e-3), clock=CLOCK, rounds=6)
        assert seen.samples == pytest.approx([3e-3] * 6)
        ridgeline_record(spend(3e-3), clock=CLOCK)
        ridgeline_check(spend(2e-3), name="product", **KNOWN)

    def test_two(ridgeline_record):
        ridgeline_record(spend({two}), name="two", clock=CLOCK)
"""


def test_samples_are_written_for_the_gate(inner: Any, pytester: pytest.Pytester) -> None:
    first = inner(BODY.replace("{two}", "1e-3"), "--ridgeline-out", "old.json")
    first.assert_outcomes(passed=2)
    first.stdout.fnmatch_lines(["ridgeline: 4 timings written to old.json"])
    second = inner(BODY.replace("{two}", "0.002"), "--ridgeline-out", "new.json")
    second.assert_outcomes(passed=2)
    old = gate.load(pytester.path / "old.json")
    own = next(name for name in old if name.endswith("::test_one"))
    assert set(old) == {own, f"{own} (2)", "product", "two"}
    assert old["two"].samples == pytest.approx([1e-3] * 15)
    new = gate.load(pytester.path / "new.json")
    assert set(new) == set(old)
    # the others were really timed, and how much they changed on a busy machine decides about `two` as well
    (item,) = gate.compare({"two": old["two"]}, {"two": new["two"]}).items
    assert item.verdict == gate.SLOWER
    assert json.loads((pytester.path / "old.json").read_text())["schema"] == 1


def test_workers_bring_their_samples_together(inner: Any, pytester: pytest.Pytester) -> None:
    result = inner(BODY.replace("{two}", "1e-3"), "-p", "xdist", "-n", "2", "--ridgeline-out", "all.json")
    result.assert_outcomes(passed=2)
    assert len(gate.load(pytester.path / "all.json")) == 4


def test_a_place_that_cannot_be_written_is_refused_before_anything_runs(inner: Any, pytester: pytest.Pytester) -> None:
    result = inner("def test_never(): raise AssertionError", "--ridgeline-out", "none/such.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*the folder 'none' does not exist; create it first*"])
    result = inner("def test_never(): raise AssertionError", "--ridgeline-out", str(pytester.path))
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_a_file_that_fails_at_the_end_is_told(
    inner: Any, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(records: Any, out: str) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(pytest_plugin.Records, "write", full)
    result = inner("def test_nothing(): pass", "--ridgeline-out", "out.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["ridgeline: the disk is full"])


# -- parts ----------------------------------------------------------------------------------------------------


def seen(samples: tuple[float, ...] = (2.0,) * 5, **conditions: Any) -> Observation:
    return Observation("k", "k", samples, conditions=conditions)


def test_certainty_follows_the_spread() -> None:
    made = predict(ops.gemm(m=100, n=100, k=100, dtype="fp32"), two_number(1e6, 1e9))  # 2 s at the roof
    sure = Checked(seen((4.0, 4.01, 3.99, 4.02, 4.0)), made, "roof", 0.7)
    assert (sure.fraction, sure.missing, sure.verdict) == (0.5, 1.0, "fail")
    vague = Checked(seen((2.0, 2.5, 2.9, 3.2, 4.0)), made, "roof", 0.7)
    assert vague.fraction == pytest.approx(2 / 2.9)
    assert 0.5 < vague.missing < 0.95
    assert vague.verdict == "open"
    assert vague.low < vague.fraction < vague.high


def test_other_programs_are_no_excuse_on_a_large_machine() -> None:
    assert noise_of(seen(cpus=2, others_busy=0.5)) == "other processes used 0.5 of 2 CPUs"
    assert noise_of(seen(cpus=64, others_busy=0.5)) == ""
    assert noise_of(seen(device="NVIDIA H200")) == ""
    assert noise_of(replace(seen(), notes=(Note(DRIFT, "noisy: samples drift"), "other"))) == "samples drift"


def test_data_that_stay_in_a_cache_are_held_to_its_roof() -> None:
    def level(name: str, size: float, speed: float | None) -> Level:
        return Level(name, Figure("B/s", measured=speed), Figure("B", stated=size))

    machine = Machine("m", levels=(level("l1", 1e4, None), level("l2", 1e6, 1e12), level("dram", 1e9, 1e11)))
    assert holding(machine, 4e3, "measured") == "l2"  # l1 would hold it, but nobody measured it
    assert holding(machine, 5e5, "measured") == "l2"
    assert holding(machine, 6e5, "measured") is None


def test_here_is_where_the_tensors_are(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("ridgeline.machines.load.load", asked.append)
    for device in (None, SimpleNamespace(index=0), SimpleNamespace(index=3)):
        find_machine("here", device)
    find_machine("h200-sxm", None)
    assert asked == ["here:cpu", "here:gpu", "here:gpu3", "h200-sxm"]
    own = two_number(1.0, 1.0)
    assert find_machine(own, None) is own


def test_functions_of_cuda_tensors_are_timed_between_two_events(monkeypatch: pytest.MonkeyPatch) -> None:
    device_time = [0.0]

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at = device_time[0]

        def synchronize(self) -> None:
            pass

        def elapsed_time(self, end: Event) -> float:
            return (end.at - self.at) * 1e3  # milliseconds, as CUDA gives them

    class Tensor:
        is_cuda, device = True, SimpleNamespace(index=1)

    used: list[Any] = []
    cuda = SimpleNamespace(
        Event=Event, device=lambda which: used.append(which) or nullcontext(), get_device_name=lambda which: "a GPU"
    )
    stand_in = SimpleNamespace(
        Tensor=Tensor, nn=SimpleNamespace(Module=type("Module", (), {})), cuda=cuda, __version__="9"
    )
    monkeypatch.setitem(sys.modules, "torch", stand_in)

    class Clock:
        t = 0.0

        def now(self) -> float:  # the host returns at once, long before the device is done
            self.t += 1e-3
            return self.t

    def kernel(x: Tensor) -> None:
        device_time[0] += 4e-3

    found = timed(kernel, (Tensor(),), rounds=5, clock=Clock())
    assert found.samples == pytest.approx([4e-3] * 5)
    assert {key: found.conditions[key] for key in ("device", "torch")} == {"device": "a GPU", "torch": "9"}
    assert set(map(id, used)) == {id(Tensor.device)}
