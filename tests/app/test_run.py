"""The main job and `measure` for real, on whatever CPU this is: short runs, checked for sense and not for speed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ridgeline.app import run
from ridgeline.app.cli import main
from ridgeline.core.errors import InputError, RidgelineError
from ridgeline.core.notes import CONDITIONS, DRIFT, NOT_MEASURED, STAND_IN, STOPPED, Note
from ridgeline.core.observation import Observation
from ridgeline.gaps import gap
from ridgeline.gaps.ledger import Ledger, open_ledger
from ridgeline.machines.calibrate import changes, merge
from ridgeline.machines.load import load, load_file, local
from ridgeline.measure import session as measuring
from ridgeline.measure.cpu import probes as cpu
from ridgeline.measure.cpu.suite import Kernel
from ridgeline.programs import ops
from ridgeline.render.charts import measured
from ridgeline.render.tables import findings


def command(*words: str) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return open_ledger(tmp_path_factory.mktemp("ledger") / "ledger.sqlite")


@pytest.fixture(scope="module")
def outcome(book: Ledger) -> run.Outcome:
    return run.job(ledger=book)


def test_every_kernel_was_predicted_sealed_and_run(outcome: run.Outcome) -> None:
    names = [item["name"] for item in outcome.items]
    assert names == ["triad", "dot", "gemv", "gemm fp32", "softmax", "layernorm", "stencil 3x3"]
    for item in outcome.items:
        assert 0 < item["floor_us"] <= item["predicted_us"] * (1 + 1e-12)  # the two are summed in different orders
        assert item["measured_us"] > 0
        assert item["error"] == pytest.approx(item["predicted_us"] / item["measured_us"] - 1)
        assert item["over_floor"] == pytest.approx(item["measured_us"] / item["floor_us"])
        assert item["vertical_gap"] is None  # no counters, so no observed intensity
    assert all(words in outcome.sentence for words in ("predicted within", "above the floor", "next is"))
    assert all(item["sealed"] for item in outcome.sealed["settled"]["items"])
    assert [row["name"] for row in outcome.sealed["predictions"]] == names


def test_ceilings_were_measured_at_every_level(outcome: run.Outcome) -> None:
    machine = outcome.machine
    assert machine.main.bandwidth.measured
    assert machine.levels[0].bandwidth.measured > machine.main.bandwidth.measured
    assert machine.peaks["vector.fp32"].measured > machine.peaks["vector.fp64"].measured
    assert machine.main.latency.measured > machine.levels[0].latency.measured
    assert {"read", "copy", "triad"} <= set(machine.main.mixes)


def test_the_report_is_one_offline_file_with_its_data(outcome: run.Outcome, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    findings.report(outcome, path)
    text = path.read_text(encoding="utf-8")
    assert text.count("<svg") >= 2
    assert not re.findall(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", text)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found
    document = json.loads(found[1])
    assert document["sealed"]["hash"] == outcome.sealed["hash"]
    assert len(document["items"]) == 7
    assert [item.name for item in tmp_path.iterdir()] == ["report.html"]


def test_landing_chart_has_both_points_of_every_kernel(outcome: run.Outcome) -> None:
    chart = measured.landing(outcome.machine, outcome.items)
    assert len([point for point in chart.points if point.role == "observed"]) == 7
    assert len([point for point in chart.points if point.role == "target"]) == 7


def test_the_predictions_stand_in_the_ledger_beside_what_was_measured(outcome: run.Outcome, book: Ledger) -> None:
    assert book.verify() == []
    report = book.report()
    assert (report["seals"], report["settled"], report["open"]) == (1, len(outcome.items), 0)


def test_without_a_usable_ledger_the_run_is_sealed_beside_it(outcome: run.Outcome, tmp_path: Path) -> None:
    place = tmp_path / "ledger.sqlite"
    place.write_text("no ledger")
    rows = list(outcome.sealed["predictions"])
    used, sealed, note = run._seal(open_ledger(place), rows, outcome.machine)
    assert place.read_text() == "no ledger"
    assert used.find(sealed.id).predictions == sealed.predictions
    assert "alone" in note


@pytest.mark.parametrize(
    ("share", "word"),
    [
        (0.3, "fault"),
        (0.55, "below"),
        (0.75, "good kernels"),
        (0.95, "roof"),
        (1.2, "above"),
    ],
)
def test_bands(share: float, word: str) -> None:
    assert word in gap.band(share, "measured")


def test_measure_saves_here_and_predict_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`measure cpu --quick`, then `--on here` with measured ceilings; the same file merged with itself is itself."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    result = command("measure", "cpu", "--quick", "--out", str(tmp_path / "m.toml"))
    assert result.exit_code == 0, result.output
    assert "measured ceilings" in result.output
    machine = local("cpu")
    assert machine.main.bandwidth.measured
    assert machine.conditions["date"]
    row = json.loads(command("predict", "stream_triad", "n=1e8", "--on", "here:cpu", "--json").stdout)
    assert row["ceilings"] == "measured"
    assert row["limiter"] == machine.main.name
    again = load_file(tmp_path / "m.toml")
    assert again.document()["peaks"] == machine.document()["peaks"]
    assert not any(change.differs for change in changes(machine, again))
    assert merge(machine, again).document()["levels"] == machine.document()["levels"]
    assert (
        command(
            "merge", str(tmp_path / "m.toml"), str(tmp_path / "m.toml"), "--out", str(tmp_path / "both.toml")
        ).exit_code
        == 0
    )


def test_a_saved_measurement_of_another_machine_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "ridgeline" / "machines"
    folder.mkdir(parents=True)
    (folder / "here-cpu.toml").write_text(
        'name = "here"\ntitle = "another"\nvendor = "x"\nkind = "cpu"\nsource = "a"\n[sources]\na = "b"\n[peak.vector]\n'
        'fp32 = { stated = "1 TFLOP/s" }\n[[level]]\nname = "ddr"\nbandwidth = "1 GB/s"\n'
    )
    assert any("measured on another machine" in note for note in local("cpu").notes)


def test_measurements_of_two_machines_are_not_merged(outcome: run.Outcome) -> None:
    with pytest.raises(InputError, match="two machines"):
        merge(outcome.machine, replace(outcome.machine, title="another"))


def test_no_gpu_gets_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if any(found.kind == "gpu" for found in measuring.detect.found()):
        pytest.skip("there is a GPU here")
    result = command("measure", "cuda", "--quick")
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
    result = command(*words)
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


# -- without a compiler ---------------------------------------------------------------------------------------------


def test_without_a_compiler_the_kernels_left_out_are_named_with_the_reason(
    outcome: run.Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(cpu, "measure", lambda *_, **__: ceilings_of(outcome))
    short = run.job(ledger=open_ledger(tmp_path / "ledger.sqlite"))
    assert [item["name"] for item in short.items] == ["gemm fp32"]
    left = [item["name"] for item in outcome.items if item["name"] != "gemm fp32"]
    assert f"Not run, because they are C: {', '.join(left)} (no C compiler found" in short.sentence


# -- stopped ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("measure", "cpu", "--quick"), ("run",)])
def test_ctrl_c_while_compiling_is_one_message(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(cpu, "build", stop)
    result = command(*words)
    assert result.exit_code == 2
    assert "stopped by Ctrl-C before" in result.stderr
    assert "nothing was written" in result.stderr
    assert list(tmp_path.iterdir()) == []


def ceilings_of(outcome: run.Outcome) -> list[Observation]:
    names = {item["name"] for item in outcome.items}
    return [item for item in outcome.observations if item.name not in names]


def test_ctrl_c_while_measuring_ends_the_run_and_keeps_the_ceilings(
    outcome: run.Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = ceilings_of(outcome)
    cut = [replace(first, notes=(*first.notes, Note(STOPPED, "stopped early: 1 of the planned samples"))), *others]
    monkeypatch.setattr(cpu, "measure", lambda *_, **__: cut)
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    stopped = run.job(ledger=ledger)
    assert stopped.items == ()
    assert "stopped by Ctrl-C" in stopped.sentence
    assert stopped.machine.main.bandwidth.measured == outcome.machine.main.bandwidth.measured
    assert not (tmp_path / "ledger.sqlite").exists()
    findings.tell(stopped, {"width": 80, "colour": False})
    assert stopped.sentence in capsys.readouterr().out
    findings.report(stopped, tmp_path / "report.html")
    assert stopped.sentence in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_ctrl_c_while_kernels_run_keeps_those_that_ran_and_names_the_others(
    outcome: run.Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def idle() -> None:
        return

    kernels = [
        Kernel("dot", ops.dot(1000, dtype="fp64"), idle, idle, "test"),
        Kernel("gemm", ops.gemm(64, 64, 64, dtype="fp32"), idle, idle, "test", library=True),
    ]
    monkeypatch.setattr(cpu, "measure", lambda *_, **__: ceilings_of(outcome))
    monkeypatch.setattr(run, "_kernels", lambda *_: (kernels, [], ""))

    def stop(phase: str, done: int, total: int, label: str) -> None:
        if phase == "run" and done == 2:  # warm-up and one sample are over
            raise KeyboardInterrupt

    stopped = run.job(on_progress=stop, ledger=open_ledger(tmp_path / "ledger.sqlite"))
    assert [item["name"] for item in stopped.items] == ["dot"]
    assert stopped.sentence.endswith("It was stopped by Ctrl-C: not run: gemm.")


def test_ctrl_c_while_the_report_is_drawn_is_told_and_leaves_nothing(
    outcome: run.Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measured, "landing", stop)
    with pytest.raises(RidgelineError, match=r"stopped by Ctrl-C while .*report.html was made"):
        findings.report(outcome, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


# -- what a reader must know ---------------------------------------------------------------------------------------


def test_remarks_say_each_thing_once() -> None:
    apart = [{"round": 0, "seconds": 2.0, "busy": 0.5}, {"round": 1, "seconds": 2.0, "busy": 0.5}]
    load = Note(CONDITIONS, "a second load: other programs used 1 CPUs' worth of time during the run")
    cut, held_back = Note(NOT_MEASURED, "not measured (x): y"), Note(STAND_IN, "no undisturbed sample could be had")
    drift = Note(DRIFT, "disturbed: samples drift: the second half is 9% slower")
    seen = [
        Observation("a", "l1", (1.0,), conditions={"interrupted_samples": apart}, notes=(load, "bytes are nominal", cut)),
        Observation("b", "l1", (1.0,), conditions={"interrupted_samples": apart[:1]}, notes=(load, held_back)),
        Observation("c", "l1", (1.0,), notes=(load, drift)),
    ]  # fmt: skip
    told = measuring.remarks(seen)
    assert told[:2] == (load, cut)
    assert "3 samples of 2 of 3 probes" in told[2]
    assert told[3].endswith("for b")
    assert told[4].endswith("for c")
    assert len(told) == 5


def test_a_kernel_whose_every_sample_was_disturbed_gets_no_verdict() -> None:
    told = run._disturbed(Observation("a", "l1", (1.0,), conditions={"stand_in_busy": 0.25}))
    assert told["spread"] == 1 / 0.25 - 1
    assert "no verdict" in told["band"]
    assert run._disturbed(Observation("a", "l1", (1.0,))) == {}


def test_a_disturbed_run_says_so_before_it_concludes() -> None:
    alone, held = (Observation("a", "l1", (1.0,), conditions=told) for told in ({}, {"stand_in_busy": 0.5}))
    assert run._caution([alone, held, held]).startswith("Other programs had the cores while 2 of 3 kernels ran")
    assert run._caution([alone]) == ""


def test_library_products_of_a_cpu_are_drawn_over_their_sizes(outcome: run.Outcome) -> None:
    chart = measured.gemm_sizes(outcome.machine, outcome.observations)
    assert any(line.label.startswith("fp32 NumPy") and len(line.points) >= 2 for line in chart.lines)


def test_charts_of_nothing_say_so(outcome: run.Outcome) -> None:
    calls: list[tuple[Any, ...]] = [
        (measured.working_sets, outcome.machine, ()),
        (measured.gemm_sizes, outcome.machine, ()),
        (measured.landing, outcome.machine, ()),
    ]
    for make, *arguments in calls:
        with pytest.raises(InputError):
            make(*arguments)


def test_a_stopped_measurement_does_not_take_away_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two ceilings only one was measured again before Ctrl-C, and slower; a whole run replaces both."""
    place = tmp_path / "here.toml"
    monkeypatch.setattr(measuring, "saved_file", lambda which=None: place)
    one = load("xeon-8480plus")

    def whole(peak: float | None, bandwidth: float | None, *notes: str) -> measuring.Measured:
        outer = replace(one.main, bandwidth=replace(one.main.bandwidth, measured=bandwidth))
        peaks = {"vector.fp64": replace(one.peaks["vector.fp64"], measured=peak)}
        machine = replace(one, peaks={**one.peaks, **peaks}, levels=(*one.levels[:-1], outer))
        seen = Observation("probe", "memory", (1.0,), notes=notes)
        return measuring.Measured("cpu", (seen,), machine)

    def kept() -> tuple[float | None, float | None]:
        found = load_file(place)
        return found.peaks["vector.fp64"].measured, found.main.bandwidth.measured

    measuring.keep(whole(8e11, 9e10))
    assert kept() == (8e11, 9e10)
    measuring.keep(whole(None, 7e10, Note(STOPPED, "stopped early: 1 of the planned samples were taken")))
    assert kept() == (8e11, 9e10)
    measuring.keep(whole(None, 7e10))
    assert kept() == (None, 7e10)
