"""`ridgeline measure` and `merge` on a small CPU whose ceilings are known: what is shown, written, kept and refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import run
from small_cpu import BANDWIDTH, ceilings, machine

from ridgeline.app.cli.measure import SUFFIXES
from ridgeline.core.documents import to_document
from ridgeline.core.notes import CONDITIONS, DRIFT, NOT_MEASURED, STOPPED, Note
from ridgeline.core.observation import Observation
from ridgeline.machines.files import load_file
from ridgeline.machines.load import load, local
from ridgeline.machines.merge import changes, merge
from ridgeline.measure import session
from ridgeline.measure.cpu import probes


@pytest.fixture
def small_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`measure cpu` finds and measures the small CPU, and keeps it in a folder of the test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("ridgeline.machines.detect.local.here", lambda which=None, system=None: machine())
    monkeypatch.setattr(probes, "measure", lambda *_, **__: ceilings())


@pytest.mark.usefixtures("small_cpu")
def test_measure_saves_here_and_predict_uses_it(tmp_path: Path) -> None:
    """`measure cpu`, then `--on here` with measured ceilings; the same file merged with itself is itself."""
    file = str(tmp_path / "m.toml")
    result = run("measure", "cpu", "--out", file)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("memory 20 GB/s read, 20 GB/s triad | fp64 50 GFLOP/s | fp32 100 GFLOP/s; nois")
    assert lines[1] == "a small CPU"
    assert len(lines) <= 12
    assert lines[-1] == "latency  L1 1 ns, L2 4 ns, memory 90.1 ns"
    details = run("measure", "cpu", "--no-save", "-v").stdout
    assert "measured ceilings of a small CPU" in details
    assert "latencies" in details
    assert result.stderr.splitlines()[-1] == f"wrote {file}"
    saved = local("cpu")
    assert saved.main.bandwidth.measured == BANDWIDTH["memory"]
    assert saved.conditions["date"]
    row = json.loads(run("predict", "stream_triad", "n=1e8", "--on", "here:cpu", "--json").stdout)
    assert row["ceilings"] == "measured"
    assert row["limiter"] == saved.main.name
    again = load_file(tmp_path / "m.toml")
    assert to_document(again)["peaks"] == to_document(saved)["peaks"]
    assert not any(change.differs for change in changes(saved, again))
    assert to_document(merge(saved, again))["levels"] == to_document(saved)["levels"]
    assert run("merge", file, file, "--out", str(tmp_path / "both.toml")).exit_code == 0


@pytest.mark.usefixtures("small_cpu")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_measurement_is_written_by_its_suffix(suffix: str, tmp_path: Path) -> None:
    out = tmp_path / "written" / f"measured{suffix}"
    out.parent.mkdir()
    result = run("measure", "cpu", "--no-save", "--out", str(out))
    assert result.exit_code == 0, result.output
    assert out.stat().st_size > 200
    assert [item.name for item in out.parent.iterdir()] == [out.name]


@pytest.mark.usefixtures("small_cpu")
def test_the_page_begins_with_the_answer(tmp_path: Path) -> None:
    out = tmp_path / "measured.html"
    first = run("measure", "cpu", "--no-save").stdout.splitlines()[0]
    run("measure", "cpu", "--no-save", "--out", str(out))
    roofs = first.partition(";")[0]  # the noise is that of each run
    assert "GB/s read" in roofs
    assert roofs in out.read_text(encoding="utf-8").partition("<main>")[2][:1000]


@pytest.mark.usefixtures("small_cpu")
def test_an_earlier_measurement_is_compared_with(tmp_path: Path) -> None:
    file = str(tmp_path / "m.toml")
    run("measure", "cpu", "--no-save", "--out", file)
    text = run("measure", "cpu", "--no-save", "--against", file).stdout
    assert text.startswith("0 of 20 ceilings changed beyond the spread\n")
    assert "compared with the earlier measurement" in text
    document = json.loads(run("measure", "cpu", "--no-save", "--against", file, "--json").stdout)
    assert {row["verdict"] for row in document["against"]["rows"]} == {"unchanged"}


@pytest.mark.usefixtures("small_cpu")
def test_what_cannot_be_written_is_shown_and_saved_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What took minutes must not be lost."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    monkeypatch.setattr(session, "keep", lambda measured, say: [Path("saved.toml")])
    result = run("measure", "cpu", "--out", str(tmp_path / "m.toml"))
    assert result.exit_code == 2
    assert "memory 20 GB/s" in result.stdout
    assert "wrote saved.toml" in result.stderr
    assert "No space left on device" in result.stderr


def test_a_saved_measurement_of_another_machine_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "ridgeline" / "machines"
    folder.mkdir(parents=True)
    (folder / "here-cpu.toml").write_text(
        'name = "here"\ntitle = "another"\nvendor = "x"\nkind = "cpu"\nsource = "a"\n[sources]\na = "b"\n[peak.vector]\n'
        'fp32 = { stated = "1 TFLOP/s" }\n[[level]]\nname = "ddr"\nbandwidth = "1 GB/s"\n'
    )
    assert any("measured on another machine" in note for note in local("cpu").notes)


def test_no_gpu_gets_one_clear_message() -> None:
    if any(device.kind == "gpu" for device in session.detect.devices()):
        pytest.skip("there is a GPU here")
    result = run("measure", "cuda", "--quick")
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert "gpu" in result.stderr.lower()


@pytest.mark.parametrize(
    "words",
    [
        ("measure", "--out", "m.xyz"),
        ("measure", "--against", "none.toml"),
        ("merge", "a.toml", "b.toml", "--out", "c.toml"),
    ],
)
def test_bad_input(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_compiling_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(probes, "build", stop)
    result = run("measure", "cpu", "--quick")
    assert result.exit_code == 130
    assert "stopped by Ctrl-C before" in result.stderr
    assert "nothing was written" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_remarks_say_each_thing_once() -> None:
    load = Note(CONDITIONS, "loaded machine: other processes used 1 CPUs on average")
    cut = Note(NOT_MEASURED, "not measured (22 s budget): library GEMM")
    drift = Note(DRIFT, "noisy: drift: the second half is 9 % slower than the first")
    seen = [
        Observation("a", "l1", (1.0,), notes=(load, "bytes are nominal", cut)),
        Observation("b", "l1", (1.0,), notes=(load, drift)),
    ]
    assert session.remarks(seen) == (load, cut)


def test_a_stopped_measurement_does_not_take_away_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two ceilings only one was measured again before Ctrl-C, and slower; a whole run replaces both."""
    place = tmp_path / "here.toml"
    monkeypatch.setattr(session, "saved_file", lambda which=None: place)
    xeon = load("xeon-8480plus")

    def measured(peak: float | None, bandwidth: float | None, *notes: str) -> session.Measured:
        outer = replace(xeon.main, bandwidth=replace(xeon.main.bandwidth, measured=bandwidth))
        peaks = {"vector.fp64": replace(xeon.peaks["vector.fp64"], measured=peak)}
        changed = replace(xeon, peaks={**xeon.peaks, **peaks}, levels=(*xeon.levels[:-1], outer))
        return session.Measured("cpu", (Observation("probe", "memory", (1.0,), notes=notes),), changed)

    def kept() -> tuple[float | None, float | None]:
        saved = load_file(place)
        return saved.peaks["vector.fp64"].measured, saved.main.bandwidth.measured

    session.keep(measured(8e11, 9e10))
    assert kept() == (8e11, 9e10)
    session.keep(measured(None, 7e10, Note(STOPPED, "stopped early: 1 of the planned samples were taken")))
    assert kept() == (8e11, 9e10)
    session.keep(measured(None, 7e10))
    assert kept() == (None, 7e10)
