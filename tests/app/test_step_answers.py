"""`ridgeline reconcile TRACE --on MACHINE` with nothing else given: the step first, 40 lines of 120 columns, every output."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from pathlib import Path

import pytest
from commands import run

FIXTURES = Path(__file__).parents[1] / "fixtures"
TRACES = ["torch/trace_gpu.json.gz", "torch/trace_cpu.json.gz", "torch/handmade_gpu.json"]
MAX_LINES, MAX_WIDTH = 40, 120
FIRST = (
    r"step [\d.]+ (us|ms|s)( profiled)? · (device busy|operators) [\d.]+ (us|ms|s) \([\d.]+ %\) · (host|device)-bound[\w ]* · "
    r"(predicted (step )?[\d.]+ (us|ms|s) \[[\d.]+-[\d.]+\]( unprofiled)?|no prediction)$"
)


@pytest.fixture(params=TRACES)
def words(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return ("reconcile", str(FIXTURES / request.param), "--on", "h200-sxm")


def test_a_trace_alone_answers_in_forty_lines(words: tuple[str, ...]) -> None:
    result = run(*words)
    lines = result.output.splitlines()
    assert re.match(FIRST, result.stdout.splitlines()[0]), result.stdout
    assert any(re.search(r"[<\d.]+ % explained", line) for line in lines[:4])
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= MAX_WIDTH
    assert "worth most (gain per step):" in lines or "no move is worth half a percent of the step" in lines


def test_the_document_adds_up(words: tuple[str, ...]) -> None:
    document = json.loads(run(*words, "--json").stdout)
    step = document["step"]
    times = sum(item["measured_us"] * item["count"] for item in document["items"])
    rest = sum(row["us"] for row in document["coverage"])
    assert step["explained_share"] == pytest.approx(times / (times + rest), abs=0.02)
    assert sum(phase["device_us"] for phase in step["phases"].values()) == pytest.approx(times + rest, rel=0.05)
    assert 0 <= step["explained_share"] <= 1
    for item in document["items"]:
        assert item["joined_by"] in ("correlation", "nvtx", "shape", "name")
        assert item["confidence"] in ("high", "medium", "low")
        assert item["predicted_us"] >= item["floor_us"] > 0
    for move in document["moves"]:
        assert move["gain_us"] <= step["wall_us"]
        assert move["evidence"]


def test_forward_and_backward_of_a_recorded_step_are_apart() -> None:
    document = json.loads(run("reconcile", str(FIXTURES / TRACES[0]), "--on", "h200-sxm", "--json").stdout)
    phases = document["step"]["phases"]
    assert phases["forward"]["device_us"] > 0
    assert phases["backward"]["device_us"] > 0
    assert all(item["phase"] == "backward" for item in document["items"] if "backward" in item["op"])


def test_every_output_is_written(words: tuple[str, ...], tmp_path: Path) -> None:
    for suffix in (".html", ".svg", ".csv", ".md", ".json"):
        out = tmp_path / f"step{suffix}"
        run(*words, "--out", str(out))
        assert out.stat().st_size > 500
    page = (tmp_path / "step.html").read_text("utf-8")
    assert "Device time by phase" in page
    assert "Operators" in page
    first = next(csv.reader(io.StringIO((tmp_path / "step.csv").read_text("utf-8"))))
    assert first[:2] == ["phase", "device_us"]


def test_verbose_lists_all_operators_with_lines_and_kernels(words: tuple[str, ...]) -> None:
    short, long = run(*words).stdout, run(*words, "-v").stdout
    assert long.splitlines()[0] == short.splitlines()[0]
    assert "Operators by device time per step" in long
    assert "more operators: -v" not in long


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("perf/software.csv",), "give either --seal ID or --cases FILE with it"),
        (("torch/trace_gpu.json.gz", "torch/trace_cpu.json.gz"), "takes one trace"),
    ],
)
def test_what_is_no_trace_gets_one_message(words: tuple[str, ...], message: str) -> None:
    result = run("reconcile", *(str(FIXTURES / word) for word in words), "--on", "h200-sxm")
    assert result.exit_code == 2
    assert message in result.output
    assert result.output.count("\n") == 1


def test_a_profile_with_counters_is_shown_kernel_by_kernel() -> None:
    profile = str(FIXTURES / "ncu" / "h200_raw.csv")
    alone, imported = run("reconcile", profile, "--on", "h200-sxm"), run("import", profile, "--on", "h200-sxm")
    assert alone.exit_code == 0
    assert alone.stdout == imported.stdout


def test_options_of_sealed_predictions_are_refused_without_them() -> None:
    trace = str(FIXTURES / TRACES[0])
    refused = run("reconcile", trace, "--on", "h200-sxm", "--ledger", "book.sqlite")
    assert "--ledger has no effect without --seal" in refused.output
    refused = run("reconcile", trace, "--on", "h200-sxm", "--kernel", "mm", "--out", "x.svg")
    assert "--kernel has no effect" in refused.output


def test_the_page_shows_every_move_with_all_its_evidence(words: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "step.html"
    assert run(*words, "--out", str(out)).exit_code == 0
    text = html.unescape(out.read_text(encoding="utf-8")).replace("\xa0", " ")
    body = text[: text.index('id="dots"')]
    moves = json.loads(run(*words, "--json").stdout)["moves"]
    cards = body[body.index("What to change") : body.index("Device time by phase")]
    assert cards.count("<li>") == len(moves)
    for move in moves:
        for evidence in move["evidence"]:
            assert evidence[1:] in cards
    assert "<title>Where a step of " in body
