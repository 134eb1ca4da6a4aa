"""How probes are timed, told with a clock that only moves when a probe says so."""

from __future__ import annotations

import pytest

from ridgeline.core.documents import to_document
from ridgeline.core.errors import RidgelineError
from ridgeline.core.notes import DRIFT, NOISE, STAND_IN, STOPPED, of_kind
from ridgeline.core.observation import from_document
from ridgeline.core.work import work
from ridgeline.measure.conditions import noise_note
from ridgeline.measure.protocol import (
    MAX_LOOPS,
    Probe,
    Series,
    Timing,
    calibrate,
    interleave,
    observation,
    sample,
    sustain,
    take_sample,
    warm_up,
)


class FakeClock:
    """Time that passes only when something is done."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time


class FakeProbe:
    """Work that takes `seconds` per loop; the story of all calls is kept in a list that several may share."""

    def __init__(
        self, clock: FakeClock, seconds: float = 1e-3, name: str = "a", story: list[str] | None = None
    ) -> None:
        self.clock, self.seconds, self.name = clock, seconds, name
        self.story = [] if story is None else story
        self.loops: list[int] = []

    def __call__(self, loops: int) -> None:
        self.loops.append(loops)
        self.story.append(self.name)
        self.clock.time += loops * self.seconds

    def probe(self, **more: object) -> Probe:
        return Probe(self.name, "l1", self, work(read={"a": (100, "fp64")}, dtype="fp64"), {"threads": 1}, **more)  # type: ignore[arg-type]


def test_warm_up_ends_by_time_however_fast_the_probe_is() -> None:
    for seconds in (1e-9, 1e-6, 1e-3, 0.03):
        clock = FakeClock()
        fake = FakeProbe(clock, seconds)
        warm_up(fake, clock, 0.05)
        assert 0.05 <= clock.time < 0.05 + max(0.05, seconds)
        assert len(fake.loops) < 200  # a fast probe is not called a million times to pass the time


def test_warm_up_calls_a_slow_probe_once() -> None:
    clock = FakeClock()
    fake = FakeProbe(clock, 3.0)
    assert warm_up(fake, clock, 0.05) == 1
    assert fake.loops == [1]


@pytest.mark.parametrize("seconds", [1e-9, 3.7e-8, 1e-6, 2e-3, 0.5])
def test_calibrated_loops_reach_the_least_time_and_not_much_more(seconds: float) -> None:
    clock = FakeClock()
    loops = calibrate(FakeProbe(clock, seconds), clock, 0.01)
    assert loops * seconds >= 0.01
    assert loops == 1 or loops * seconds <= 0.03


@pytest.mark.parametrize(("busy", "loops"), [(1.0, 10), (0.25, 40), (0.0, 100)])
def test_time_that_others_had_the_core_does_not_count_towards_a_sample(busy: float, loops: int) -> None:
    """10 ms are asked for and a loop takes 1 ms, of which it ran only a part (a tenth at least is believed)."""
    counted = calibrate(lambda count: Timing(0.001 * count, busy), FakeClock(), 0.01)
    assert loops <= counted <= 1.2 * loops


def test_a_probe_that_takes_no_time_is_refused() -> None:
    clock = FakeClock()
    with pytest.raises(RidgelineError, match="takes no time"):
        calibrate(FakeProbe(clock, 0.0), clock, 0.01)
    assert MAX_LOOPS > 1e12


def test_samples_are_seconds_per_loop_by_the_clock_or_by_the_probe_itself() -> None:
    clock = FakeClock()
    assert sample(FakeProbe(clock, 0.25), clock, 4) == Timing(0.25)
    assert sample(lambda loops: loops * 0.5, clock, 8) == Timing(0.5)
    assert sample(lambda loops: Timing(loops * 0.5, 0.9), clock, 8) == Timing(0.5, 0.9)


def test_probes_take_turns() -> None:
    clock, story = FakeClock(), list[str]()
    fakes = [FakeProbe(clock, 0.02, name, story) for name in "abc"]
    run = interleave([fake.probe() for fake in fakes], 3, clock, min_seconds=0.01, warm_seconds=0.01)
    # each is warmed and calibrated once, then one sample each per round
    assert story == list("aabbcc") + list("abc") * 3
    assert run.rounds == 3
    assert not run.partial
    assert [len(row.samples) for row in run.series] == [3, 3, 3]


def test_all_samples_are_kept_in_order_so_that_drift_shows() -> None:
    clock = FakeClock()
    fake = FakeProbe(clock, 0.02)

    def slower(loops: int) -> None:
        fake(loops)
        fake.seconds += 0.001

    run = interleave([Probe("a", "l1", slower)], 4, clock, min_seconds=0.01, warm_seconds=0.01)
    samples = run.series[0].samples
    assert samples == sorted(samples)
    assert len(set(samples)) == 4


def test_progress_counts_up_to_the_end() -> None:
    clock, seen = FakeClock(), list[tuple[int, int, str]]()
    interleave(
        [FakeProbe(clock, 0.02, name).probe() for name in "ab"],
        2,
        clock,
        lambda *step: seen.append(step),
        warm_seconds=0.0,
    )
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert seen[0] == (0, 6, "warm up a")
    assert seen[-1] == (6, 6, "done")


def test_stop_rule_goes_on_with_the_unsteady_probe_alone() -> None:
    clock, story = FakeClock(), list[str]()
    steady = FakeProbe(clock, 0.02, "steady", story)
    shaky = FakeProbe(clock, 0.02, "shaky", story)

    def shake(loops: int) -> None:
        shaky.seconds = 0.03 if shaky.seconds < 0.025 else 0.02
        shaky(loops)

    run = interleave(
        [steady.probe(), Probe("shaky", "l1", shake)], 4, clock, min_seconds=0.01, warm_seconds=0.0, max_rounds=9
    )
    assert [len(row.samples) for row in run.series] == [4, 9]
    assert run.rounds == 9
    settled = interleave([steady.probe()], 4, clock, min_seconds=0.01, warm_seconds=0.0, max_rounds=9)
    assert settled.rounds == 4
    assert "within the tolerance" in settled.why


def test_stop_rule_ends_when_the_time_is_used_up() -> None:
    clock = FakeClock()
    fakes = [FakeProbe(clock, 1.0, name) for name in "ab"]
    run = interleave([fake.probe() for fake in fakes], 50, clock, warm_seconds=0.0, budget=9.0)
    assert clock.time < 13
    assert 1 <= run.rounds < 50
    assert "used up" in run.why
    # so little time that not every probe gets ready: what is missing is named
    run = interleave([fake.probe() for fake in fakes], 50, FakeClock(), warm_seconds=0.0, budget=0.0)
    assert run.missing == ["a", "b"]
    assert run.partial


def test_ctrl_c_keeps_what_is_done() -> None:
    clock = FakeClock()
    first, second = FakeProbe(clock, 0.02, "first"), FakeProbe(clock, 0.02, "second")

    def interrupted(loops: int) -> None:
        second(loops)
        if len(second.loops) == 4:  # warm-up, calibration, one sample, and now
            raise KeyboardInterrupt

    run = interleave([first.probe(), Probe("second", "l2", interrupted)], 5, clock, min_seconds=0.01, warm_seconds=0.01)
    assert run.partial
    assert run.why == "stopped by Ctrl-C"
    assert [len(row.samples) for row in run.series] == [2, 1]
    told = observation(run.series[0], {"date": "today"}, "1", run.partial)
    (note,) = of_kind(told.notes, STOPPED)
    assert note.startswith("stopped early: 2")
    assert run.stopped


def test_ctrl_c_before_the_first_sample_names_what_is_missing() -> None:
    def stop(loops: int) -> None:
        raise KeyboardInterrupt

    clock = FakeClock()
    run = interleave([FakeProbe(clock, 0.02).probe(), Probe("b", "l1", stop)], 3, clock, warm_seconds=0.0)
    assert run.series == []
    assert run.missing == ["a", "b"]


def test_answers_are_checked_before_and_after_and_a_wrong_one_stops_the_run() -> None:
    clock, checks = FakeClock(), list[float]()
    fake = FakeProbe(clock, 0.02)
    interleave([fake.probe(check=lambda: checks.append(clock.time))], 3, clock, warm_seconds=0.0)
    assert len(checks) == 2
    assert checks[1] == clock.time

    def wrong() -> None:
        raise RidgelineError("probe a: 3 wrong values")

    with pytest.raises(RidgelineError, match="probe a"):
        interleave([fake.probe(check=wrong)], 3, clock, warm_seconds=0.0)


def test_prepare_runs_once_before_the_first_call() -> None:
    clock, story = FakeClock(), list[str]()
    interleave(
        [FakeProbe(clock, 0.02, "a", story).probe(prepare=lambda: story.append("ready"))], 2, clock, warm_seconds=0.0
    )
    assert story[0] == "ready"
    assert story.count("ready") == 1


# -- a second load ------------------------------------------------------------------------------------------------


def test_interrupted_samples_are_taken_again_and_kept_apart() -> None:
    clock = FakeClock()
    busy = iter([1.0, 1.0, 1.0, 0.5, 0.6, 1.0, 1.0])  # warm-up, calibration, then samples

    def call(loops: int) -> Timing:
        share = next(busy)
        clock.time += 0.02 / share
        return Timing(loops * 0.02 / share, share)

    run = interleave([Probe("a", "l1", call)], 3, clock, min_seconds=0.01, warm_seconds=0.0)
    row = run.series[0]
    assert row.samples == [0.02, 0.02, 0.02]
    assert [(turn, share) for turn, _, share in row.preempted] == [(1, 0.5), (1, 0.6)]
    told = observation(row, {}, "1")
    assert told.median == 0.02
    (note,) = of_kind(told.notes, NOISE)
    assert note == "noisy: 2 samples preempted"
    assert told.conditions["interrupted_samples"][0] == {"round": 1, "seconds": 0.04, "busy": 0.5}
    assert from_document(to_document(told)).conditions == told.conditions


def test_when_every_sample_is_preempted_the_best_is_used_and_the_notes_say_so() -> None:
    clock = FakeClock()

    def call(loops: int) -> Timing:
        clock.time += 0.04
        return Timing(loops * 0.04, 0.5)

    row = interleave([Probe("a", "l1", call)], 3, clock, min_seconds=0.01, warm_seconds=0.0).series[0]
    assert row.stand_in
    assert row.samples == [0.04]
    told = observation(row, {})
    (note,) = of_kind(told.notes, STAND_IN)
    assert note == "noisy: every sample was preempted; the best of them is used"
    assert told.conditions["stand_in_busy"] == 0.5


@pytest.mark.parametrize(
    ("samples", "word"),
    [
        ([1.00, 1.01, 1.00, 1.01, 1.30, 1.31, 1.30, 1.31], "drift"),
        ([1.30, 1.31, 1.30, 1.31, 1.00, 1.01, 1.00, 1.01], "faster"),
        ([1.00, 1.40, 1.01, 1.41, 1.00, 1.40, 1.01, 1.42], "bimodal"),
        ([1.00, 1.01, 1.01, 1.80, 1.00, 1.82, 1.01, 1.00], "bimodal"),
    ],
)
def test_noise_is_noticed(samples: list[float], word: str) -> None:
    note = noise_note(samples)
    assert note is not None
    assert note.kind == DRIFT
    assert word in note


@pytest.mark.parametrize(
    "samples",
    [
        [1.0] * 10,
        [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01],
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0],  # a single outlier is named by the Observation, not a second state
        [1.0, 1.001, 1.002, 1.003, 1.004, 1.005, 1.006],  # a drift far below what matters
        [1.0, 2.0],
    ],
)
def test_a_quiet_machine_gets_no_note(samples: list[float]) -> None:
    assert noise_note(samples) is None


def test_sustained_runs_until_the_rate_has_settled() -> None:
    clock = FakeClock()
    fake = FakeProbe(clock, 0.05)

    def throttles(loops: int) -> None:
        fake.seconds = min(0.1, fake.seconds + 0.002)
        fake(loops)

    row, run_in = sustain(Probe("a", "vector.fp64", throttles), clock, seconds=2.0, min_seconds=0.05)
    assert row.samples == [pytest.approx(0.1, rel=0.03)] * 10
    assert len(run_in) > 10
    assert min(run_in) < 0.06
    assert 2.0 <= clock.time < 4.2


def test_sustained_without_a_settled_rate_ends_at_twice_the_time() -> None:
    clock = FakeClock()
    fake = FakeProbe(clock, 0.05)

    def shake(loops: int) -> None:
        fake.seconds = 0.09 if fake.seconds == 0.05 else 0.05
        fake(loops)

    row, _ = sustain(Probe("a", "vector.fp64", shake), clock, seconds=1.0, min_seconds=0.05)
    assert 2.0 <= clock.time < 2.5
    assert len(row.samples) == 10


def test_sustained_keeps_preempted_samples_apart() -> None:
    clock = FakeClock()
    shares = iter([1.0, 1.0, 1.0, 0.4] + [1.0] * 200)

    def call(loops: int) -> Timing:
        clock.time += 0.05
        return Timing(0.05 * loops, next(shares))

    row, _ = sustain(Probe("a", "l1", call), clock, seconds=1.0, min_seconds=0.05)
    assert len(row.preempted) == 1
    assert not row.stand_in


def test_an_observation_carries_loops_conditions_and_version() -> None:
    probe = FakeProbe(FakeClock()).probe(notes=("nominal bytes",))
    told = observation(Series(probe, 7, [1.0, 1.1]), {"cpu": "any"}, "2.0")
    assert told.settings == {"threads": 1, "loops": 7}
    assert told.conditions == {"cpu": "any"}
    assert told.version == "2.0"
    assert told.notes == ("nominal bytes",)
    assert told.best_bandwidth == pytest.approx(800 / 1.0)


def test_one_preempted_call_does_not_end_the_calibration() -> None:
    """A loop takes a microsecond, and the first call waits 20 ms for its core: the sample must still last 10 ms."""
    first = iter([True])

    def call(loops: int) -> Timing:
        wait = 0.02 if next(first, False) else 0.0
        return Timing(1e-6 * loops + wait, 1.0 if not wait else 1e-3)

    assert calibrate(call, FakeClock(), 0.01) >= 10_000


def test_a_preempted_sample_is_shortened_until_it_fits_into_a_time_slice() -> None:
    """Another program has the core every other 2 ms: only samples below that are whole."""
    clock = FakeClock()

    def call(loops: int) -> Timing:
        ran = 1e-5 * loops
        share = 1.0 if ran < 0.002 else 0.45
        clock.time += ran / share
        return Timing(ran / share, share)

    row = Series(Probe("a", "l1", call), 600)
    take_sample(row, 0, clock)
    assert row.samples == pytest.approx([1e-5])
    assert not row.stand_in
    assert row.loops == 150
    assert [busy for *_, busy in row.preempted] == [0.45] * 4
