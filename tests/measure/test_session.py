"""One measurement from probes to file, with made-up observations instead of probes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import ridgeline as rl
from ridgeline.core.documents import to_document
from ridgeline.core.errors import RidgelineError
from ridgeline.core.families.key import Key
from ridgeline.core.figure import Figure, Level
from ridgeline.core.fitted import Fitted
from ridgeline.core.machine import Machine
from ridgeline.core.notes import NOT_MEASURED, STOPPED, Note
from ridgeline.core.observation import Observation
from ridgeline.core.work import Work
from ridgeline.machines.files import load_file
from ridgeline.measure import session
from ridgeline.measure.cpu import probes as cpu

MACHINE = Machine("here", title="a CPU", vendor="x", kind="cpu", levels=(Level("memory", Figure("B/s"), Figure("B")),))
READ = Observation(
    "read", "memory", (0.1,), Work(moves={("main", "a", "read"): 2e9}), {"mix": "read", "threads": 1},
    {"date": "2026-01-01", "cpu": "a CPU"}, notes=(Note(NOT_MEASURED, "not measured (no C probes): latencies"),),
)  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of one memory, whose only probe reads 20 GB/s; where it would be kept."""
    file = tmp_path / "folder" / "here.toml"
    monkeypatch.setattr(session.detect, "here", lambda kind=None: MACHINE)
    monkeypatch.setattr(session, "saved_file", lambda which=None: file)
    monkeypatch.setattr(cpu, "measure", lambda machine, quick, on_progress: [READ])
    return file


def test_probes_become_a_machine_and_a_file(place: Path) -> None:
    measured = session.measure("cpu", True, lambda *step: None)
    assert measured.machine is not None
    assert measured.machine.main.bandwidth.measured == pytest.approx(2e10)
    assert measured.notes == READ.notes
    assert measured.machine.conditions == {"date": "2026-01-01", "cpu": "a CPU", "quality": "noise +/-3 %"}
    assert measured.quality is not None
    assert measured.quality.line == "noise +/-3 %"
    assert session.keep(measured) == [place, place]
    kept = load_file(place)
    assert kept.main.bandwidth.measured == pytest.approx(2e10)
    assert READ.notes[0] in kept.notes


def test_a_stopped_run_keeps_what_an_earlier_one_measured(place: Path) -> None:
    measured = session.measure("cpu", True, lambda *step: None)
    session.keep(measured)
    slower = replace(READ, samples=(0.2,))
    stopped = replace(slower, notes=(Note(STOPPED, "stopped early: 1 of the planned samples were taken"),))
    for item, bandwidth in ((stopped, 2e10), (slower, 1e10)):
        machine = session.measured_machine([item], MACHINE)
        session.keep(session.Measured("cpu", (item,), machine))
        assert load_file(place).main.bandwidth.measured == pytest.approx(bandwidth)


def test_measuring_again_keeps_the_calibration(place: Path) -> None:
    """Only --calibrate times library kernels; a measurement without it has no coefficients of its own."""
    measured = session.measure("cpu", True, lambda *step: None)
    assert measured.machine is not None
    fitted = {Key("gemm", "fp32"): Fitted({"launch": 1e-6}, 0.1, 0.2, 0.9, 1.1, 30, "timed on this machine")}
    session.keep(replace(measured, machine=replace(measured.machine, fitted=fitted)))
    session.keep(measured)
    (kept,) = load_file(place).fitted.values()
    assert (kept.coefficients["launch"], kept.source) == (1e-6, "timed on this machine")


@pytest.mark.parametrize("name", ["rtx-4090", "h200-sxm"])
def test_measuring_a_gpu_of_the_catalog_again_keeps_its_calibration(name: str, place: Path) -> None:
    """A GPU of the catalog comes with coefficients of the catalog's timings, or of other GPUs, and neither is of this machine."""
    machine = rl.machine(name)
    measured = session.Measured("cuda", (READ,), machine)
    key = Key("gemm", "bf16")
    row = Fitted({"launch": 1e-6}, 0.1, 0.2, 0.9, 1.1, 30, "timed on this machine")
    session.keep(replace(measured, machine=replace(machine, fitted={**machine.fitted, key: row})))
    session.keep(measured)
    kept = load_file(place).calibrated
    assert kept.keys() == machine.calibrated.keys() | {key}
    assert (kept[key].coefficients["launch"], kept[key].source) == (1e-6, "timed on this machine")


def test_a_calibration_on_a_busy_machine_keeps_the_families_that_it_could_not_time(place: Path) -> None:
    """One with all cores taken fitted rows and streams alone, and a GEMM was then predicted at the peak, at less than half its time."""
    measured = session.measure("cpu", True, lambda *step: None)
    assert measured.machine is not None

    def calibrated(launch: float, *families: str) -> session.Measured:
        fitted = {
            Key(name, "fp32"): Fitted({"launch": launch}, 0.1, 0.2, 0.9, 1.1, 30, f"{launch}") for name in families
        }
        return replace(measured, machine=replace(measured.machine, fitted=fitted))  # type: ignore[type-var]

    session.keep(calibrated(1e-6, "gemm", "rows"))
    session.keep(calibrated(2e-6, "rows"))
    kept = {key.family: row.coefficients["launch"] for key, row in load_file(place).fitted.items()}
    assert kept == {"gemm": 1e-6, "rows": 2e-6}


def test_a_provisional_measurement_is_not_saved_over_a_better_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session.keep(session.measure("cpu", True, lambda *step: None))
    noisy = replace(READ, samples=(0.2, 0.4), settings={**READ.settings, "mix": "read"})
    monkeypatch.setattr(cpu, "measure", lambda machine, quick, on_progress: [noisy])
    measured = session.measure("cpu", True, lambda *step: None)
    assert measured.quality is not None
    assert measured.quality.provisional
    assert any("measure again on a quiet machine" in note for note in measured.notes)
    said: list[str] = []
    assert session.keep(measured, said.append) == []
    assert said[0].startswith("not saved: this measurement is provisional (memory read +/-")
    assert "run `ridgeline measure cpu` on a quiet machine" in said[0]
    assert load_file(place).main.bandwidth.measured == pytest.approx(2e10)
    # without an earlier measurement it is saved, and marked
    place.unlink()
    assert session.keep(measured, said.append) == [place, place]
    assert load_file(place).conditions["provisional"] == measured.quality.reason


def test_ctrl_c_before_anything_is_one_message(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> list[Observation]:
        raise KeyboardInterrupt

    monkeypatch.setattr(cpu, "measure", stop)
    with pytest.raises(RidgelineError, match="stopped by Ctrl-C before there was anything to keep"):
        session.measure("cpu", True, lambda *step: None)
    assert not place.exists()


def test_the_document_of_a_measurement() -> None:
    document = to_document(session.Measured("cpu", (READ,), MACHINE, READ.notes))
    assert list(document) == ["schema", "ridgeline", "what", "machine", "observations", "notes"]
    assert document["schema"] == 1
    assert document["machine"]["title"] == "a CPU"
    assert document["observations"][0]["samples"] == [0.1]
    assert document["notes"] == ["not measured (no C probes): latencies"]
    assert to_document(session.Measured("collective", (READ,), None))["machine"] is None
