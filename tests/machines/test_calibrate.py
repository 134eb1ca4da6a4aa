"""Observations, the machine they make, and the file it is kept in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.documents import to_document
from ridgeline.core.figure import Figure, Level
from ridgeline.core.machine import Machine
from ridgeline.core.notes import LOWER_BOUND, NOT_DETECTED, PROVISIONAL, Note, of_kind
from ridgeline.core.observation import Observation, from_document
from ridgeline.core.work import work
from ridgeline.machines import schema
from ridgeline.machines import write as save
from ridgeline.machines.calibrate import CLOCK, DISPATCHED, HOST, HOST_CALLS, QUEUED, calibrate, measured_machine
from ridgeline.machines.merge import changes, merge

TIMES = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=50).map(tuple)


def seen(
    target: str, times: tuple[float, ...], flops: float = 0.0, moved: float = 0.0, **settings: object
) -> Observation:
    done = work(vector={"fma": (flops, "")}, read={"x": (moved, "int8", "")}, dtype="fp32")
    return Observation("probe", target, times, done, settings, {"date": "2026-11-15"})


@given(TIMES)
def test_best_is_never_beaten_and_the_median_lies_between(times: tuple[float, ...]) -> None:
    item = seen("hbm", times, moved=8.0)
    assert item.best <= item.median <= max(times)
    assert item.best_bandwidth >= item.work.bytes / item.median
    assert item.spread >= 0
    assert len(item.samples) == len(times)


def test_outliers_are_named_and_kept() -> None:
    item = seen("hbm", (1.0, 1.01, 0.99, 1.0, 1.02, 9.0), moved=1.0)
    assert item.outliers() == (5,)
    assert item.samples[5] == 9.0


@pytest.mark.parametrize("times", [(), (0.0,), (1.0, -1.0)])
def test_an_observation_needs_positive_samples(times: tuple[float, ...]) -> None:
    with pytest.raises(rl.RidgelineError, match="needs samples, all of them"):
        seen("hbm", times)


def test_document_round_trip_and_newer_schema_is_refused() -> None:
    item = seen("vector.fp32", (1.0, 2.0), flops=4.0, moved=8.0, threads=2)
    again = from_document(to_document(item))
    assert to_document(again) == to_document(item)
    with pytest.raises(rl.RidgelineError, match="newer"):
        from_document({**to_document(item), "schema": 99})


def test_measured_figures_stand_beside_the_stated_ones() -> None:
    machine = rl.machine("h200-sxm")
    made = calibrate(
        machine,
        [
            seen("tensor.bf16", (1.0, 1.1, 1.2), flops=790e12),
            seen("tensor.bf16", (1.0, 1.0), flops=700e12, burst=False),
            seen("hbm", (1.0, 1.02), moved=4.4e12, mix="read"),
            seen("hbm", (1.0, 1.02), moved=4.1e12, mix="copy"),
            seen("latency.hbm", (6e-7, 7e-7, 8e-7)),
            seen("launch", (2e-6, 3e-6, 4e-6)),
        ],
        {"driver": "580"},
    )
    peak = made.peaks["tensor.bf16"]
    assert (peak.stated, peak.measured, peak.sustained) == (machine.peaks["tensor.bf16"].stated, 790e12, 700e12)
    assert made.main.bandwidth.measured == 4.4e12
    assert made.main.mixes["copy"].measured == 4.1e12
    assert made.main.latency.value() == 7e-7
    assert made.launch.value() == 3e-6
    assert made.conditions["driver"] == "580"
    prediction = rl.predict(rl.ops.gemm(8192, 8192, 8192), made)
    assert prediction.bounds[0].kinds == "measured"
    assert rl.predict(rl.ops.gemm(8192, 8192, 8192), made, ceilings="stated").floor < prediction.floor


def test_what_the_host_takes_to_send_a_kernel_is_a_figure_of_its_own() -> None:
    """The dispatcher's 5 us are no launch of the device, even where nothing else was timed."""
    bare = replace(rl.machine("h100-sxm"), launch=Figure("s"))
    sent = replace(seen("launch", (4e-6, 5e-6, 6e-6)), name=DISPATCHED)
    alone = calibrate(bare, [sent])
    assert (alone.launch.value(), alone.dispatch.value()) == (None, 5e-6)
    assert alone.dispatch.measurement == "launch through the dispatcher: median of 3 samples"
    both = calibrate(bare, [sent, replace(sent, name=QUEUED, samples=(1e-6,))])
    assert (both.launch.value(), both.dispatch.value()) == (1e-6, 5e-6)
    assert bare.dispatch.value() is None
    again = schema.read(save.text(both), both.file).dispatch
    assert (again.measured, again.measurement, again.spread) == (5e-6, both.dispatch.measurement, both.dispatch.spread)
    assert to_document(both)["dispatch"] == 5e-6
    slower = calibrate(bare, [replace(sent, samples=(8e-6,))])
    (change,) = [change for change in changes(both, slower) if change.name == "dispatch"]
    assert (change.first, change.second, change.differs) == (5e-6, 8e-6, False)  # hosts vary by 40 % and more
    assert merge(slower, both).dispatch.value() == 5e-6


def test_what_calls_take_on_the_host_is_kept_in_the_machine_file() -> None:
    observed = [
        replace(seen(HOST, (time, time)), name=name)
        for name, time in zip(HOST_CALLS.values(), (3e-5, 4e-5), strict=True)
    ]
    made = calibrate(rl.machine("h100-sxm"), observed)
    again = schema.read(save.text(made), made.file)
    assert (again.eager_call.measured, again.backward_call.measured) == (3e-5, 4e-5)
    assert again.eager_call.spread == 0.35


def test_a_kernel_takes_the_bandwidth_of_its_own_mix() -> None:
    """Reads 4.4, triad 4.2, copy 4.0 TB/s: a sum reads only, a triad writes a third, a copy half."""
    rates = {"read": 4.4e12, "triad": 4.2e12, "copy": 4.0e12}
    made = calibrate(rl.machine("h200-sxm"), [seen("hbm", (1.0,), moved=rate, mix=mix) for mix, rate in rates.items()])
    sizes = [1e8, 2e8]
    for name, mix in (("dot", "read"), ("stream_triad", "triad"), ("stream_copy", "copy")):
        together = rl.predict(rl.ops.find(name)(sizes), made)
        assert list(together.floor) == pytest.approx(list(together.bytes / rates[mix]))
        assert [rl.predict(rl.ops.find(name)(size), made).floor for size in sizes] == pytest.approx(
            list(together.floor)
        )
    stated = rl.predict(rl.ops.dot(1e8), made, ceilings="stated")
    assert stated.floor == pytest.approx(stated.bytes / 4.8e12)
    between = rl.predict(rl.ops.gemm(1, 4096, 4096), made)  # which writes hardly anything
    assert between.bytes / rates["read"] < between.floor < between.bytes / rates["triad"]


def test_a_point_above_the_limit_is_a_finding_and_not_clamped() -> None:
    made = calibrate(rl.machine("h100-sxm"), [seen("tensor.bf16", (1.0,), flops=1700e12)])
    assert made.peaks["tensor.bf16"].measured == 1700e12
    assert any("1.7 PFLOP/s is 172 % of the limit" in note for note in made.notes)


def held(target: str, seconds: float, busy: float, **settings: object) -> Observation:
    """One sample of a gigabyte, preempted for the rest of the time."""
    item = seen(target, (seconds,), moved=1e9, **settings)
    return replace(item, conditions={**item.conditions, "stand_in_busy": busy})


def test_a_sample_that_shared_its_core_may_be_that_much_too_slow() -> None:
    machine = rl.machine("h200-sxm")
    figure = calibrate(machine, [held("hbm", 2.0, 0.5)]).main.bandwidth
    assert figure.measured == 1e9 / 2.0
    assert figure.spread == pytest.approx(1 / 0.5 - 1)
    assert "noisy: all samples preempted, the best for 50 % of its time" in figure.measurement
    alone = calibrate(machine, [seen("hbm", (1.0,), moved=1e9)])
    assert "one sample" in alone.main.bandwidth.measurement
    assert "spread" not in alone.main.bandwidth.measurement
    change = next(row for row in changes(calibrate(machine, [held("hbm", 2.0, 0.5)]), alone) if row.name == "hbm")
    assert (change.ratio, change.differs) == (2.0, False)


def test_a_best_that_only_beats_a_held_back_probe_is_as_unsure() -> None:
    """One core undisturbed at 1 GB/s, all cores at 0.9 GB/s while they got a third of their time: 2.7 GB/s are possible."""
    items = [seen("hbm", (1.0, 1.0), moved=1e9, threads=1), held("hbm", 1 / 0.9, 1 / 3, threads=2)]
    figure = calibrate(rl.machine("h200-sxm"), items).main.bandwidth
    assert figure.measured == 1e9
    assert figure.spread == pytest.approx(2.7 - 1)


@pytest.mark.parametrize(
    ("name", "target", "least"), [("h200-sxm", "hbm", 0.01), ("h200-sxm", "l2", 0.05), ("xeon-8480plus", "ddr", 0.03)]
)
def test_a_figure_reports_at_least_what_whole_runs_differ_by(name: str, target: str, least: float) -> None:
    """However near each other its samples lie; the memory of a CPU serves others too."""
    made = calibrate(rl.machine(name), [seen(target, (1.0, 1.0, 1.0), moved=1e9)])
    level = next(level for level in made.levels if level.name == target)
    assert level.bandwidth.spread == least
    assert made.main.name == target or target == "l2"


def test_no_observations_are_refused() -> None:
    with pytest.raises(rl.RidgelineError, match="no observations"):
        calibrate(rl.machine("h100-sxm"), [])


def measured_cpu(rate: float, share: float, cores: int = 2) -> Machine:
    """A CPU on which a library reached a share of the peak that was measured with it."""
    peak = Figure("flop/s", measured=rate, measurement="probe", spread=0.01)
    reached = Figure("", measured=share, source="library", measurement="library")
    return replace(
        rl.machine("xeon-8480plus"), units={"core": cores}, peaks={"vector.fp32": peak}, efficiency={"gemm.vector.fp32": reached}
    )  # fmt: skip


def test_a_ceiling_measured_on_a_disturbed_machine_widens_the_interval_and_is_told() -> None:
    """With a spread of 91 % the machine may be 1.9 times as fast; the interval then begins below half the time."""
    quiet = measured_cpu(4e10, 1.0)
    memory = replace(quiet.main, bandwidth=Figure("B/s", measured=3e11, spread=0.01), mixes={})
    quiet = replace(quiet, levels=(memory,))
    loud = replace(quiet, peaks={"vector.fp32": replace(quiet.peaks["vector.fp32"], spread=0.91)})
    work = rl.ops.gemm(m=1024, n=1024, k=1024, dtype="fp32")
    calm, rough = (rl.predict(work, machine, engine="vector") for machine in (quiet, loud))
    assert rough.time == calm.time
    doubt = 1 + 0.91 - 0.03
    assert calm.low == pytest.approx(max(0.8 * calm.time, calm.bounds[0].floor)), "not below the floor"
    assert rough.low == pytest.approx(max(0.8 * rough.time, rough.bounds[0].floor) / doubt)
    assert rough.low < 0.55 * rough.time
    assert not calm.bounds[0].notes
    assert "ceiling is noisy (+/-91 %)" in rough.bounds[0].notes[0]


def test_measuring_replaces_what_detection_could_not_find_out() -> None:
    """By the kind of the note: the same words without it stay."""
    notes = (
        Note(NOT_DETECTED, "No peaks: the clock is not known."),
        "No peaks: somebody's own remark",
        "A virtual machine.",
    )
    bound = replace(seen("memory", (1.0,), moved=1.0), notes=(Note(LOWER_BOUND, "NumPy"), "lower bound: plain text"))
    made = measured_machine([bound, bound], Machine("here", notes=notes))
    assert made.notes == ("No peaks: somebody's own remark", "A virtual machine.", "NumPy")


def cpu(**more: object) -> Machine:
    levels = tuple(Level(name, Figure("B/s"), Figure("B")) for name in ("l1", "memory"))
    return Machine("here", title="a CPU", vendor="x", kind="cpu", units={"core": 4}, levels=levels, **more)  # type: ignore[arg-type]


def test_ceilings_of_a_cpu_come_from_all_its_cores_and_never_from_fewer() -> None:
    """One core reads 20 GB/s and all four 50; of l1 only one core was measured, so it has no ceiling."""
    items = [
        seen("memory", (1.0,), moved=20e9, threads=1, mix="read"),
        seen("memory", (1.0,), moved=50e9, threads=4, mix="read"),
        seen("memory", (1.0,), moved=60e9, threads=2, mix="copy"),
        seen("l1", (1.0,), moved=90e9, threads=1, mix="read"),
        seen("vector.fp32", (1.0,), flops=30e9, threads=1),
        seen("latency.memory", (1e-7,), threads=1),
    ]
    made = calibrate(cpu(), items)
    assert made.main.bandwidth.measured == 50e9
    assert set(made.main.mixes) == {"read"}
    assert made.main.latency.measured == 1e-7
    assert made.levels[0].bandwidth.measured is None
    assert "vector.fp32" not in made.peaks
    assert {name: figure.measured for name, figure in made.per_core.items()} == {
        "memory": 20e9,
        "l1": 90e9,
        "vector.fp32": 30e9,
    }
    again = schema.read(save.text(made), "here")
    assert {name: figure.measured for name, figure in again.per_core.items()} == {
        name: figure.measured for name, figure in made.per_core.items()
    }


def test_a_library_product_defines_a_peak_only_where_no_probe_of_the_unit_ran() -> None:
    product = seen("vector.fp32", (1.0,), flops=90e9, threads=4, library="BLAS")
    probe = seen("vector.fp32", (1.0,), flops=80e9, threads=4)
    assert calibrate(cpu(), [product, probe]).peaks["vector.fp32"].measured == 80e9
    alone = measured_machine([product], cpu())
    assert alone.peaks["vector.fp32"].measured == 90e9
    assert any("peak taken from the library GEMM, because no FMA probe ran" in note for note in alone.notes)


def test_peaks_are_derived_from_the_measured_clock() -> None:
    """64 flop per cycle; /proc/cpuinfo said 2 GHz, and 64 additions took 20 ns: 3.2 GHz."""
    base = {"vector.fp32": Figure("flop/s", derived=64 * 2e9, derivation="base clock")}
    cycles = seen(CLOCK, (2.1e-8, 2e-8), threads=4, cycles=64)
    machine = cpu(peaks=base, per_cycle={"vector.fp32": 64.0}, clocks={"vector": Figure("Hz", derived=2e9)})
    made = calibrate(machine, [cycles, seen("vector.fp32", (1.0,), flops=200e9, threads=4)])
    assert made.clocks["vector"].measured == pytest.approx(3.2e9)
    assert made.peaks["vector.fp32"].derived == pytest.approx(64 * 3.2e9)
    assert "measured clock" in made.peaks["vector.fp32"].derivation
    assert not any("of the limit" in note for note in made.notes)
    assert schema.read(save.text(made), "here").per_cycle == {"vector.fp32": 64.0}


def test_a_rate_is_as_sure_as_its_fastest_samples_agree() -> None:
    """Three samples of a second agree; those that another process slowed down do not make the ceiling unsure."""
    busy = seen("memory", (1.0, 1.01, 1.0, 3.0, 4.0, 2.5, 2.0), moved=50e9, threads=4, mix="read")
    assert calibrate(cpu(), [busy]).main.bandwidth.spread == 0.03
    few = seen("memory", (1.0, 2.0, 3.0), moved=50e9, threads=4, mix="read")
    assert (calibrate(cpu(), [few]).main.bandwidth.spread or 0) > 0.25


def test_a_provisional_machine_says_so_in_its_predictions() -> None:
    machine = replace(measured_cpu(4e10, 1.0), conditions={PROVISIONAL: "memory +/-41 %"})
    work = rl.ops.gemm(m=64, n=64, k=64, dtype="fp32")
    (note,) = of_kind(rl.predict(work, machine, engine="vector").bounds[0].notes, PROVISIONAL)
    assert note == "provisional ceilings (memory +/-41 %): run `ridgeline measure cpu` on a quiet machine"
    quiet = rl.predict(work, replace(machine, conditions={}), engine="vector")
    assert not any(of_kind(quiet.bounds[0].notes, PROVISIONAL))


def test_a_load_that_was_preempted_all_along_gives_no_sustained_rate() -> None:
    burst = seen("memory", (1.0,), moved=50e9, threads=4, mix="read")
    lasting = held("memory", 1.0, 0.3, threads=4, mix="read", burst=False)
    assert calibrate(cpu(), [burst, lasting]).main.bandwidth.sustained is None
    steady = seen("memory", (1.25, 1.25), moved=50e9, threads=4, mix="read", burst=False)
    assert calibrate(cpu(), [burst, lasting, steady]).main.bandwidth.sustained == pytest.approx(40e9)


def test_the_ridge_is_against_the_bandwidth_of_reads() -> None:
    """Writes may be twice as fast as reads; they feed no arithmetic."""
    h200 = rl.machine("h200-sxm")
    read, peak = h200.main.mixes["read"].measured, h200.peaks["tensor.bf16"].measured
    assert read is not None
    assert peak is not None
    assert h200.ridges()["tensor.bf16"] == h200.ridge("tensor.bf16") == pytest.approx(peak / read)
    assert h200.ridge("tensor.bf16", ceilings="stated") == pytest.approx(989.4e12 / 4.8e12, rel=1e-3)
