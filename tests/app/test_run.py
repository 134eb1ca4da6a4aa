"""The main job on a small CPU whose ceilings and kernels take known times; then once for real, checked for structure."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from small_cpu import BANDWIDTH, KERNELS, LATENCY, PEAK, SECONDS, SmallBench, ceilings, machine

from ridgeline.app import reports, run
from ridgeline.app.cli import main
from ridgeline.app.cli.measure import main_job
from ridgeline.app.cli.present import Result
from ridgeline.core.errors import InputError, RidgelineError
from ridgeline.core.notes import STOPPED, Note
from ridgeline.core.observation import Observation
from ridgeline.gaps.ledger import Ledger, open_ledger
from ridgeline.gaps.sentences import band
from ridgeline.machines.merge import merge
from ridgeline.measure.cpu import probes
from ridgeline.prediction.predict import predict
from ridgeline.render.charts import measured


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return open_ledger(tmp_path_factory.mktemp("ledger") / "ledger.sqlite")


@pytest.fixture(scope="module")
def outcome(book: Ledger) -> run.Outcome:
    return run.job(ledger=book, bench=SmallBench())


def show(outcome: run.Outcome) -> None:
    Result(terminal=lambda: main_job(outcome)).show()


# -- the chain ------------------------------------------------------------------------------------------------------


def test_every_kernel_was_predicted_sealed_and_run(outcome: run.Outcome) -> None:
    names = [item["name"] for item in outcome.items]
    assert names == list(KERNELS)
    for item in outcome.items:
        assert 0 < item["floor_us"] <= item["predicted_us"] * (1 + 1e-12)  # the two are summed in different orders
        assert item["measured_us"] == pytest.approx(SECONDS[item["name"]] * 1e6)
        assert item["error"] == pytest.approx(item["predicted_us"] / item["measured_us"] - 1)
        assert item["over_floor"] == pytest.approx(item["measured_us"] / item["floor_us"])
        assert item["vertical_gap"] is None  # no counters, so no observed intensity
    assert all(words in outcome.sentence for words in ("predicted within", "above the floor", "next is"))
    assert all(item["sealed"] for item in outcome.sealed["settled"]["items"])
    assert [row["name"] for row in outcome.sealed["predictions"]] == names


def test_predictions_rest_on_the_ceilings_that_were_measured(outcome: run.Outcome) -> None:
    triad, dot, product = outcome.items
    assert triad["floor_us"] == pytest.approx(3 * 8 * 2**20 / BANDWIDTH["memory"] * 1e6)
    assert dot["floor_us"] == pytest.approx(2 * 8 * 2**20 / BANDWIDTH["memory"] * 1e6)
    assert product["floor_us"] == pytest.approx(2 * 256**3 / PEAK["vector.fp32"] * 1e6)
    assert product["predicted_us"] == pytest.approx(product["floor_us"] / 0.8, rel=0.01)  # what the BLAS reaches


def test_ceilings_were_measured_at_every_level(outcome: run.Outcome) -> None:
    found = outcome.machine
    assert {level.name: level.bandwidth.measured for level in found.levels} == pytest.approx(BANDWIDTH)
    assert {level.name: level.latency.measured for level in found.levels} == pytest.approx(LATENCY, rel=0.01)
    assert {name: figure.measured for name, figure in found.peaks.items()} == pytest.approx(PEAK)
    assert {"read", "copy", "triad"} <= set(found.main.mixes)


def test_phases_are_told_in_order(tmp_path: Path) -> None:
    phases: list[str] = []
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    run.job(on_progress=lambda phase, *_: phases.append(phase), ledger=ledger, bench=SmallBench())
    assert list(dict.fromkeys(phases)) == ["measure", "run"]


def test_the_predictions_stand_in_the_ledger_beside_what_was_measured(outcome: run.Outcome, book: Ledger) -> None:
    assert book.verify() == []
    report = book.report()
    assert (report["seals"], report["settled"], report["open"]) == (1, len(outcome.items), 0)


def test_without_a_usable_ledger_the_run_is_sealed_beside_it(outcome: run.Outcome, tmp_path: Path) -> None:
    place = tmp_path / "ledger.sqlite"
    place.write_text("no ledger")
    seal = run.seal_prediction(open_ledger(place), predict(KERNELS["triad"], outcome.machine))
    assert place.read_text() == "no ledger"
    assert seal.ledger.find(seal.sealed.id).predictions == seal.sealed.predictions
    assert "alone" in seal.note


def test_kernels_left_out_are_named_at_the_end_of_the_sentence(tmp_path: Path) -> None:
    left_out = "Not run, because they are C: triad (no C compiler found)."
    short = run.job(ledger=open_ledger(tmp_path / "ledger.sqlite"), bench=SmallBench(left_out=left_out))
    assert short.sentence.endswith(f" {left_out}")


def test_without_a_compiler_only_numpys_product_is_left_and_the_reason_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(run, "BLAS_SPIN_SECONDS", 0.0)
    workload = run.Bench().workload(machine())
    assert [kernel.name for kernel in workload.kernels] == ["gemm fp32"]
    assert workload.left_out.startswith(f"Not run, because they are C: {', '.join(run.COMPILED)} (no C compiler found")


# -- what is shown ------------------------------------------------------------------------------------------------


def test_the_report_is_one_offline_file_with_its_data(outcome: run.Outcome, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    reports.run_page(outcome, path)
    text = path.read_text(encoding="utf-8")
    assert text.count("<svg") >= 2
    assert not re.findall(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", text)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert data
    document = json.loads(data[1])
    assert document["sealed"]["hash"] == outcome.sealed["hash"]
    assert len(document["items"]) == len(KERNELS)
    assert [item.name for item in tmp_path.iterdir()] == ["report.html"]


def test_the_terminal_shows_ceilings_kernels_and_the_roofline(
    outcome: run.Outcome, capsys: pytest.CaptureFixture[str]
) -> None:
    show(outcome)
    text = capsys.readouterr().out
    parts = ["measured ceilings of a small CPU", "predicted, sealed, run, reconciled", outcome.sentence, "FLOP/B"]
    assert sorted(parts, key=text.index) == parts


def test_landing_chart_has_both_points_of_every_kernel(outcome: run.Outcome) -> None:
    chart = measured.landing(outcome.machine, outcome.items)
    assert len([point for point in chart.points if point.role == "observed"]) == len(KERNELS)
    assert len([point for point in chart.points if point.role == "target"]) == len(KERNELS)


def test_library_products_of_a_cpu_are_drawn_over_their_sizes(outcome: run.Outcome) -> None:
    chart = measured.gemm_sizes(outcome.machine, outcome.observations)
    assert any(line.label.startswith("fp32 NumPy") and len(line.points) >= 2 for line in chart.lines)


def test_charts_of_nothing_say_so(outcome: run.Outcome) -> None:
    for make in (measured.working_sets, measured.gemm_sizes, measured.landing):
        with pytest.raises(InputError):
            make(outcome.machine, ())


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
    assert word in band(share, "measured")


def test_measurements_of_two_machines_are_not_merged(outcome: run.Outcome) -> None:
    with pytest.raises(InputError, match="two machines"):
        merge(outcome.machine, replace(outcome.machine, title="another"))


# -- stopped ------------------------------------------------------------------------------------------------------


def test_ctrl_c_while_compiling_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probes, "build", stop)
    result = CliRunner().invoke(main, ["run"])
    assert result.exit_code == 2
    assert "stopped by Ctrl-C before" in result.stderr
    assert "nothing was written" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_measuring_ends_the_run_and_keeps_the_ceilings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = ceilings()
    cut = [replace(first, notes=(Note(STOPPED, "not measured (stopped by Ctrl-C): later parts"),)), *others]
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    stopped = run.job(ledger=ledger, bench=SmallBench(cut))
    assert stopped.items == ()
    assert "stopped by Ctrl-C" in stopped.sentence
    assert stopped.machine.main.bandwidth.measured == BANDWIDTH["memory"]
    assert not (tmp_path / "ledger.sqlite").exists()
    show(stopped)
    assert stopped.sentence in capsys.readouterr().out
    reports.run_page(stopped, tmp_path / "report.html")
    assert stopped.sentence in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_ctrl_c_while_kernels_run_keeps_those_that_ran_and_names_the_others(tmp_path: Path) -> None:
    def stop(phase: str, done: int, total: int, label: str) -> None:
        if phase == "run" and done == 3:  # two warm-ups and one sample are over
            raise KeyboardInterrupt

    stopped = run.job(on_progress=stop, ledger=open_ledger(tmp_path / "ledger.sqlite"), bench=SmallBench())
    assert [item["name"] for item in stopped.items] == ["triad"]
    assert stopped.sentence.endswith("It was stopped by Ctrl-C: not run: dot, gemm fp32.")


def test_ctrl_c_while_the_report_is_drawn_is_told_and_leaves_nothing(
    outcome: run.Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "report.html"
    monkeypatch.setattr(measured, "landing", stop)
    with pytest.raises(RidgelineError, match=r"stopped by Ctrl-C while .*report.html was made"), reports.reported_interrupt(path):  # fmt: skip
        reports.run_page(outcome, path)
    assert list(tmp_path.iterdir()) == []


# -- other programs on the machine ----------------------------------------------------------------------------------


def test_a_kernel_whose_every_sample_was_disturbed_gets_no_verdict() -> None:
    verdict = run._without_verdict(Observation("a", "l1", (1.0,), conditions={"stand_in_busy": 0.25}))
    assert verdict["spread"] == 1 / 0.25 - 1
    assert "no verdict" in verdict["band"]
    assert run._without_verdict(Observation("a", "l1", (1.0,))) == {}


def test_a_disturbed_run_says_so_before_it_concludes() -> None:
    alone, held = (Observation("a", "l1", (1.0,), conditions=given) for given in ({}, {"stand_in_busy": 0.5}))
    assert run._caution([alone, held, held]).startswith("Other programs had the cores while 2 of 3 kernels ran")
    assert run._caution([alone]) == ""


# -- for real -------------------------------------------------------------------------------------------------------


@pytest.mark.needs_machine
def test_ridgeline_run_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The structure of the answer, which holds on any CPU, fast or slow, quiet or busy, with a compiler or without."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    result = CliRunner().invoke(main, ["run", "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    names = [item["name"] for item in document["items"]]
    assert names in (["triad", "dot", "gemv", "gemm fp32", "softmax", "layernorm", "stencil 3x3"], ["gemm fp32"])
    for item in document["items"]:
        assert 0 < item["floor_us"] <= item["predicted_us"] * (1 + 1e-12)
        assert item["measured_us"] > 0
        assert item["error"] == pytest.approx(item["predicted_us"] / item["measured_us"] - 1)
    assert document["machine"]["levels"][-1]["bandwidth"]["measured"] > 0
    assert any(peak["measured"] for peak in document["machine"]["peaks"].values())
    assert document["sealed"]["settled"]
    assert document["sentence"]
    assert (tmp_path / "ridgeline-report.html").stat().st_size > 10_000
