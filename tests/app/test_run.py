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

from ridgeline.app import run
from ridgeline.app.cli import main
from ridgeline.app.cli.measure import run_result
from ridgeline.app.reports.measured import run_page
from ridgeline.app.reports.parts import reported_interrupt
from ridgeline.app.run import cpu as cpu_bench
from ridgeline.app.run.cpu import CALIBRATED, CpuBench
from ridgeline.app.run.job import seal_prediction
from ridgeline.core.errors import InputError, RidgelineError
from ridgeline.core.notes import STOPPED, Note
from ridgeline.gaps.ledger import Ledger, open_ledger
from ridgeline.machines.merge import merge
from ridgeline.measure.cpu import probes, suite
from ridgeline.prediction.predict import predict
from ridgeline.render.charts import measured

REPORT = Path("ridgeline-report.html")
MAX_LINES, MAX_WIDTH = 25, 120


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return open_ledger(tmp_path_factory.mktemp("ledger") / "ledger.sqlite")


@pytest.fixture(scope="module")
def outcome(book: Ledger) -> run.Outcome:
    return run.job(SmallBench(), ledger=book)


def job(tmp_path: Path, bench: SmallBench, **options: Any) -> run.Outcome:
    return run.job(bench, ledger=open_ledger(tmp_path / "ledger.sqlite"), **options)


def shown(outcome: run.Outcome, capsys: pytest.CaptureFixture[str], **options: bool) -> str:
    run_result(outcome, REPORT, **options).show()
    return capsys.readouterr().out


def items(outcome: run.Outcome) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in outcome.items}


# -- the chain ------------------------------------------------------------------------------------------------------


def test_every_kernel_was_predicted_sealed_and_run(outcome: run.Outcome) -> None:
    assert list(items(outcome)) == list(KERNELS)
    for item in outcome.items:
        assert 0 < item["floor_us"] <= item["predicted_us"] * (1 + 1e-12)  # the two are summed in different orders
        assert item["measured_us"] == pytest.approx(SECONDS[item["name"]] * 1e6)
        assert item["error"] == pytest.approx(item["predicted_us"] / item["measured_us"] - 1)
        assert item["vertical_gap"] is None  # no counters, so no observed intensity
    assert all(item["sealed"] for item in outcome.sealed["settled"]["items"])
    assert [row["name"] for row in outcome.sealed["predictions"]] == list(KERNELS)


def test_predictions_rest_on_ceilings_and_on_other_sizes_of_the_same_kernels(outcome: run.Outcome) -> None:
    triad, dot, product = outcome.items
    assert triad["floor_us"] == pytest.approx(3 * 8 * 2**20 / BANDWIDTH["memory"] * 1e6)
    assert dot["floor_us"] == pytest.approx(2 * 8 * 2**20 / BANDWIDTH["memory"] * 1e6)
    assert product["floor_us"] == pytest.approx(2 * 256**3 / PEAK["vector.fp32"] * 1e6)
    for item in outcome.items:  # the small CPU is the same at every size, so the fit must recover the sealed one
        assert item["predicted_us"] == pytest.approx(item["measured_us"], rel=0.03)
        assert item["inside"]
    assert CALIBRATED in outcome.notes
    assert (outcome.summary.inside, outcome.summary.kernels) == (3, 3)


def test_the_sealed_size_is_never_timed_before_it_is_sealed() -> None:
    workload = SmallBench().workload(machine())
    sealed = {(kernel.name, float(kernel.work.bytes)) for kernel in workload.kernels}
    assert not sealed & {(kernel.name, float(kernel.work.bytes)) for kernel in workload.calibration}
    assert min(suite.CALIBRATION_SHARES) < suite.SEALED_SHARE < max(suite.CALIBRATION_SHARES)


def test_a_kernel_slower_than_its_other_sizes_misses_its_interval(tmp_path: Path) -> None:
    slow = job(tmp_path, SmallBench(factors={"triad": 1.5}))
    triad = items(slow)["triad"]
    assert not triad["inside"]
    assert triad["error"] == pytest.approx(1 / 1.5 - 1, rel=0.1)
    assert slow.sentence == "2 of 3 predictions inside their 80 % interval, median error 0 %"
    assert slow.summary.next.startswith("triad: ")
    assert "above its roofline; memory at 53 % of 20 GB/s" in slow.summary.next


def test_next_is_absent_where_every_kernel_is_close_to_its_roofline(tmp_path: Path) -> None:
    fast = job(tmp_path, SmallBench(factors={"triad": 0.82, "dot": 0.95, "gemm fp32": 0.73}))
    assert fast.summary.next == ""


def test_ceilings_were_measured_at_every_level(outcome: run.Outcome) -> None:
    measured_machine = outcome.machine
    assert {level.name: level.bandwidth.measured for level in measured_machine.levels} == pytest.approx(BANDWIDTH)
    latency = {level.name: level.latency.measured for level in measured_machine.levels}
    assert latency == pytest.approx(LATENCY, rel=0.01)
    assert {name: figure.measured for name, figure in measured_machine.peaks.items()} == pytest.approx(PEAK)


def test_phases_are_reported_in_order(tmp_path: Path) -> None:
    phases: list[str] = []
    job(tmp_path, SmallBench(), on_progress=lambda phase, *_: phases.append(phase))
    assert list(dict.fromkeys(phases)) == ["measure", "calibrate", "run"]


def test_the_ledger_holds_predictions_and_measurements(outcome: run.Outcome, book: Ledger) -> None:
    assert book.verify() == []
    report = book.report()
    assert (report["seals"], report["settled"], report["open"]) == (1, len(outcome.items), 0)


def test_without_a_usable_ledger_the_run_is_sealed_in_one_of_its_own(outcome: run.Outcome, tmp_path: Path) -> None:
    place = tmp_path / "ledger.sqlite"
    place.write_text("no ledger")
    seal = seal_prediction(open_ledger(place), predict(KERNELS["triad"], outcome.machine))
    assert place.read_text() == "no ledger"
    assert seal.ledger.find(seal.sealed.id).predictions == seal.sealed.predictions
    assert seal.note.startswith("sealed only in ")


def test_without_a_home_the_run_is_sealed_in_a_ledger_of_its_own(
    outcome: run.Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")
    seal = seal_prediction(None, predict(KERNELS["triad"], outcome.machine))
    assert "your data folder is not known" in seal.note


# -- other programs on the machine ----------------------------------------------------------------------------------


def test_on_a_loaded_machine_times_are_cpu_times_and_no_kernel_is_blamed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = job(tmp_path, SmallBench(busy=0.5))
    for item in loaded.items:
        assert item["measured_us"] == pytest.approx(SECONDS[item["name"]] * 1e6)  # the wall clock says twice that
        assert item["predicted_us"] == pytest.approx(item["measured_us"], rel=0.03)
        assert item["noisy"]
        assert item["band"].startswith("noisy")
    assert loaded.summary.next == ""
    text = shown(loaded, capsys)
    assert "noisy: 3 of 3 kernels" in text


def test_a_kernel_above_its_roofline_gets_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    above = job(tmp_path, SmallBench(factors={"dot": 0.6}))
    dot = items(above)["dot"]
    assert dot["finding"] == "above the roofline (150 %): memory ceiling measured too low: repeat with --full"
    text = shown(above, capsys)
    assert f"dot: {dot['finding']}" in text
    assert not re.search(r"-\d[\d.]* [mu]s above", text)  # no negative gap


def test_noisy_ceilings_are_called_provisional(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scattered = [
        replace(
            item, samples=tuple(sample * factor for sample, factor in zip(item.samples, (1, 2, 3, 4, 5), strict=True))
        )
        for item in ceilings()
    ]
    text = shown(job(tmp_path, SmallBench(scattered)), capsys)
    assert re.search(r"noise \+/-\d\d\d? %", text)
    assert "provisional ceilings" in text


# -- what is shown ------------------------------------------------------------------------------------------------


def test_the_answer_comes_first_and_in_25_lines(outcome: run.Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(outcome, capsys).splitlines()
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= MAX_WIDTH
    assert lines[0].startswith("ridgeline run   a small CPU, 2 cores, quick, ")
    assert lines[1].startswith(" roofs   memory 20 GB/s read, 20 GB/s triad | fp32 100 GFLOP/s | fp64 50 GFLOP/s")
    assert lines[1].endswith("noise +/-3 %")
    assert lines[2] == " result  3 of 3 predictions inside their 80 % interval, median error 0 %"
    assert lines[3] == " next    triad: 315 us above its roofline; memory at 80 % of 20 GB/s"
    assert lines[4].split() == ["kernel", "bound", "measured", "predicted", "[80", "%]", "error", "%", "of", "roofline"]
    assert [line.split()[0] for line in lines[5:8]] == ["triad", "dot", "gemm"]
    assert re.search(r" 80  ████████··$", lines[5])
    assert lines[-1].startswith(" sealed before the run ")
    assert lines[-1].endswith(f"report {REPORT}   more: -v --plot --json")


def test_times_of_the_table_share_one_unit(outcome: run.Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    table = shown(outcome, capsys).splitlines()[5:8]
    units = {unit for line in table for unit in re.findall(r"\d (us|ms|s)\b", line)}
    assert len(units) == 1


def test_verbose_adds_ceilings_and_plot_the_roofline(outcome: run.Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    plain = shown(outcome, capsys)
    verbose = shown(outcome, capsys, verbose=True)
    assert verbose.startswith(plain)
    assert "vector.fp64" in verbose
    assert CALIBRATED in verbose
    assert "FLOP/" in shown(outcome, capsys, plot=True).removeprefix(plain)


def test_json_goes_without_options_of_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["run", "--json", "--plot"])
    assert result.exit_code == 2
    assert "leave out -v and --plot" in result.stderr


def test_the_document_has_the_answer_too(outcome: run.Outcome) -> None:
    document = outcome.document()
    assert {"machine", "sealed", "items", "sentence", "observations"} <= set(document)
    assert (document["inside"], document["kernels"], document["effort"]) == (3, 3, "quick")
    assert document["noise"] == pytest.approx(0.03, abs=0.02)
    json.dumps(document)


def test_the_report_is_one_offline_file_with_its_data(outcome: run.Outcome, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    run_page(outcome, path)
    text = path.read_text(encoding="utf-8")
    assert text.count("<svg") >= 2
    assert CALIBRATED in text
    assert not re.findall(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", text)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert data
    document = json.loads(data[1])
    assert document["sealed"]["hash"] == outcome.sealed["hash"]
    assert len(document["items"]) == len(KERNELS)
    assert [item.name for item in tmp_path.iterdir()] == ["report.html"]


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


def test_measurements_of_two_machines_are_not_merged(outcome: run.Outcome) -> None:
    with pytest.raises(InputError, match="two machines"):
        merge(outcome.machine, replace(outcome.machine, title="another"))


# -- the suite ------------------------------------------------------------------------------------------------------


MIB = 2.0**20


@pytest.mark.parametrize(
    ("cache", "free", "expected"),
    [
        (32 * MIB, 22e9, 64 * MIB),  # beyond the last cache
        (1 * MIB, 22e9, 32 * MIB),  # never small
        (300 * MIB, 100e9, 600 * MIB),  # what a virtual machine reports
        (1024 * MIB, 500e9, 682 * MIB),  # touched within a second or two
        (300 * MIB, 1.2e9, 95 * MIB),  # a machine of 2 GB keeps three quarters of its free memory
    ],
)
def test_arrays_are_beyond_the_cache_and_within_the_memory(cache: float, free: float, expected: float) -> None:
    assert suite.array_bytes(cache, free) == pytest.approx(expected, abs=MIB)
    assert 3 * suite.array_bytes(cache, free) <= max(suite.MAX_MEMORY_SHARE * free, 3 * MIB)


def test_without_a_compiler_numpy_kernels_run_and_the_reason_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(cpu_bench, "BLAS_SPIN_SECONDS", 0.0)
    monkeypatch.setattr(suite, "MIN_ARRAY_BYTES", 1 << 20)
    workload = CpuBench().workload(machine())
    assert [kernel.name for kernel in workload.kernels] == ["copy", "add", "gemv", "gemm fp32"]
    assert workload.left_out.startswith("NumPy kernels in place of the C suite: no C compiler found")
    for kernel in workload.kernels:
        kernel.probe().check()  # type: ignore[attr-defined]


@pytest.mark.needs_compiler
@pytest.mark.parametrize("cpus", [[0], [0, 0]], ids=["one thread", "two threads"])
def test_the_c_kernels_compute_what_they_should_at_every_size(cpus: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    from ridgeline.measure.cpu.build import build

    monkeypatch.setattr(suite, "MIN_ARRAY_BYTES", 1 << 20)
    small = suite.Suite(build().library, machine(), [-1 for _ in cpus])
    check = small.exponential()
    check.call(1)
    assert check.check
    check.check()
    for make in small.makers:
        for share in (suite.SEALED_SHARE, *suite.CALIBRATION_SHARES):
            kernel = make(share)
            check = kernel.probe()
            assert check.check
            check.check()  # raises where a result is wrong
            assert float(kernel.work.bytes) > 0


# -- stopped ------------------------------------------------------------------------------------------------------


def test_ctrl_c_while_compiling_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probes, "build", stop)
    result = CliRunner().invoke(main, ["run", "--on", "cpu"])
    assert result.exit_code == 130
    assert "stopped by Ctrl-C before" in result.stderr
    assert "nothing was written" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_measuring_ends_the_run_and_keeps_the_ceilings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = ceilings()
    cut = [replace(first, notes=(Note(STOPPED, "not measured (stopped by Ctrl-C): later parts"),)), *others]
    stopped = job(tmp_path, SmallBench(cut))
    assert stopped.items == ()
    assert "stopped by Ctrl-C" in stopped.sentence
    assert stopped.stopped  # exit code 130
    assert stopped.machine.main.bandwidth.measured == BANDWIDTH["memory"]
    assert not (tmp_path / "ledger.sqlite").exists()
    assert stopped.sentence in shown(stopped, capsys)
    run_page(stopped, tmp_path / "report.html")
    assert stopped.sentence in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_ctrl_c_while_kernels_run_keeps_those_that_ran_and_names_the_others(tmp_path: Path) -> None:
    def stop(phase: str, done: int, total: int, label: str) -> None:
        if phase == "run" and done == 3:  # two warm-ups and one sample are over
            raise KeyboardInterrupt

    stopped = job(tmp_path, SmallBench(), on_progress=stop)
    assert [item["name"] for item in stopped.items] == ["triad"]
    assert stopped.remarks[0] == "stopped by Ctrl-C: not run: dot, gemm fp32"
    assert stopped.stopped


def test_ctrl_c_while_calibrating_keeps_the_ceilings(tmp_path: Path) -> None:
    def stop(phase: str, done: int, total: int, label: str) -> None:
        if phase == "calibrate":
            raise KeyboardInterrupt

    stopped = job(tmp_path, SmallBench(), on_progress=stop)
    assert stopped.items == ()
    assert not (tmp_path / "ledger.sqlite").exists()


def test_ctrl_c_while_the_report_is_drawn_is_one_message_and_leaves_nothing(
    outcome: run.Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "report.html"
    monkeypatch.setattr(measured, "landing", stop)
    with pytest.raises(RidgelineError, match=r"stopped by Ctrl-C while .*report.html was made"), reported_interrupt(path):  # fmt: skip
        run_page(outcome, path)
    assert list(tmp_path.iterdir()) == []


# -- for real -------------------------------------------------------------------------------------------------------


@pytest.mark.needs_machine
def test_ridgeline_run_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The structure of the answer, which holds on any CPU, fast or slow, quiet or busy, with a compiler or without."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name, seconds in (("QUICK_BUDGET", 3.0), ("CALIBRATION_BUDGET", 2.0), ("RUN_BUDGET", 1.0)):
        monkeypatch.setattr(cpu_bench, name, seconds)
    result = CliRunner().invoke(main, ["run", "--on", "cpu", "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    names = {item["name"] for item in document["items"]}
    assert names
    assert names <= {"triad", "dot", "gemv", "softmax", "layernorm", "stencil 3x3", "gemm fp32", "copy", "add"}
    for item in document["items"]:
        assert 0 < item["floor_us"] <= item["predicted_us"] * (1 + 1e-12)
        assert item["low_us"] <= item["predicted_us"] <= item["high_us"]
        assert item["measured_us"] > 0
        assert item["finding"] or item["share_of_roof"] <= 1.03
    assert document["machine"]["levels"][-1]["bandwidth"]["measured"] > 0
    assert document["sealed"]["settled"]
    assert document["sentence"]
    assert (tmp_path / "ridgeline-report.html").stat().st_size > 10_000
