"""Quality of a measurement: what counts as noisy, what is provisional, which measurement may replace another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ridgeline.core.documents import to_document
from ridgeline.core.figure import Figure, Level
from ridgeline.core.machine import Machine
from ridgeline.core.notes import NOISE, PROVISIONAL, STAND_IN, Note
from ridgeline.core.observation import Observation
from ridgeline.measure.quality import Quality, quality, replaces


def machine(memory: float = 0.04, peak: float = 0.02, **conditions: str) -> Machine:
    level = Level("memory", Figure("B/s", measured=1e10, spread=memory), Figure("B"))
    peaks = {
        "vector.fp32": Figure("flop/s", measured=1e11, spread=peak),
        "special.fp32": Figure("flop/s", measured=1.0, spread=3.0),
    }
    return Machine("here", title="a CPU", kind="cpu", peaks=peaks, levels=(level,), conditions=conditions)


QUIET = Observation("read", "memory", (1.0, 1.0, 1.0))
LOUD = replace(QUIET, notes=(Note(NOISE, "noisy: 2 samples preempted"),))
LOST = replace(QUIET, notes=(Note(STAND_IN, "noisy: every sample was preempted"),))


def test_a_quiet_machine_has_one_short_line() -> None:
    assessed = quality([QUIET] * 3, machine())
    assert assessed == Quality(3, 0, 0.04)
    assert assessed.line == "noise +/-4 %"
    assert not assessed.provisional


def test_noise_is_said_once_with_a_count_and_the_spread_of_the_ceilings() -> None:
    assessed = quality([QUIET] * 34 + [LOUD] * 5 + [replace(QUIET, samples=(1.0, 2.0))], machine(memory=0.12))
    assert assessed.line == "noisy: 6 of 40 probes; ceilings +/-12 %"
    assert not assessed.provisional
    assert to_document(assessed)["line"] == assessed.line


@pytest.mark.parametrize(
    ("items", "made", "reason"),
    [
        ([QUIET], machine(memory=0.41), "memory +/-41 %"),
        ([QUIET], machine(peak=0.3), "vector.fp32 +/-30 %"),
        ([LOST, LOST, QUIET], machine(), "all samples preempted in 2 of 3 probes"),
    ],
)
def test_a_measurement_too_noisy_to_use_is_provisional(items: list[Observation], made: Machine, reason: str) -> None:
    assessed = quality(items, made)
    assert assessed.provisional
    assert assessed.reason == reason


def test_a_provisional_measurement_replaces_only_a_noisier_provisional_one() -> None:
    good, poor, worse = machine(), machine(0.4, **{PROVISIONAL: "memory"}), machine(0.8, **{PROVISIONAL: "memory"})
    assert replaces(good, poor)
    assert replaces(good, good)
    assert replaces(poor, worse)
    assert not replaces(poor, good)
    assert not replaces(worse, poor)


def test_a_peak_that_shared_its_cores_is_provisional() -> None:
    """Samples agree at half the peak of the measured clock: another process had a core, unless nothing was preempted."""
    half = {"vector.fp32": Figure("flop/s", measured=1e11, derived=2e11, spread=0.01)}
    probe = replace(QUIET, target="vector.fp32")
    preempted = replace(probe, notes=LOUD.notes)
    assert quality([QUIET, preempted], replace(machine(), peaks=half)).spread == pytest.approx(1.0)
    assert quality([QUIET, preempted], replace(machine(), peaks=half)).provisional
    assert not quality([QUIET, probe], replace(machine(), peaks=half)).provisional


def test_every_common_mix_of_the_memory_counts() -> None:
    """A read bandwidth whose samples were all preempted is noise, however well the writes agree."""
    mixes = {"read": Figure("B/s", measured=1e10, spread=1.2), "write": Figure("B/s", measured=4e10, spread=0.03)}
    (memory,) = machine().levels
    assessed = quality([QUIET], replace(machine(), levels=(replace(memory, mixes=mixes),)))
    assert (assessed.spread, assessed.provisional, assessed.reason) == (1.2, True, "memory read +/-120 %")
