"""The first lines of reconcile, import, seal, ledger and gate: the answer, 40 lines of 120 columns, one unit a column."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from commands import run

ROOT = Path(__file__).parents[2]
FIXTURES, EXAMPLES = ROOT / "tests" / "fixtures", ROOT / "examples"
DOCS_CASES = re.search(
    r"```csv cases\.csv\n(.*?)```", (ROOT / "docs" / "use" / "reconcile.md").read_text("utf-8"), re.S
)
TRACE_CASES = """name,op,n,rows,cols,m,k,dtype
aten::native_layer_norm,layernorm,,256,128,,,bf16
aten::_softmax,softmax,,256,128,,,bf16
aten::mm,gemm,128,,,256,128,bf16
aten::add_,add,16384,,,,,bf16
"""
MAX_LINES, MAX_WIDTH = 40, 120
PROFILES = [
    (FIXTURES / "ncu" / "h200_raw.csv", "docs"),
    (FIXTURES / "ncu" / "h200_details.csv", "docs"),
    (EXAMPLES / "faults" / "record" / "kernels.csv", EXAMPLES / "faults" / "cases.csv"),
    (EXAMPLES / "faults" / "record" / "trace.json.gz", EXAMPLES / "faults" / "cases.csv"),
    (EXAMPLES / "gemm_path" / "record" / "kernels.csv", EXAMPLES / "gemm_path" / "cases.csv"),
    (FIXTURES / "torch" / "trace_gpu.json.gz", "trace"),
    (FIXTURES / "torch" / "handmade_gpu.json", "trace"),
    (FIXTURES / "torch" / "trace_cpu.json.gz", "trace"),
]


@pytest.fixture(params=PROFILES, ids=lambda pair: str(Path(pair[0]).relative_to(ROOT)))
def reconcile(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ...]:
    """The words of a reconcile command."""
    profile, cases = request.param
    if isinstance(cases, str):
        assert DOCS_CASES is not None
        path = tmp_path / "cases.csv"
        path.write_text(DOCS_CASES[1] if cases == "docs" else TRACE_CASES)
        cases = path
    return ("reconcile", str(profile), "--cases", str(cases), "--on", "h200-sxm")


def test_reconcile_answers_in_forty_lines_of_120_columns(reconcile: tuple[str, ...]) -> None:
    result = run(*reconcile)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()  # warnings on standard error included
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= MAX_WIDTH
    answer = result.stdout.splitlines()
    assert re.match(
        r"[\d.]+ % of [\d.]+ (us|ms) explained: \d+ of \d+ kernels joined|0 % explained: no observed", answer[0]
    )
    if not answer[0].startswith("0 %"):
        assert "-bound" in answer[1] or answer[1].startswith("limiter unknown without counters")
        assert "inside the 80 % interval" in answer[1] or "outside the 80 % interval" in answer[1]
    assert "largest gaps (time above the roofline):" in answer or answer[0].startswith("0 %")


def test_no_gap_is_negative_and_coverage_is_in_the_document(reconcile: tuple[str, ...]) -> None:
    document = json.loads(run(*reconcile, "--json").stdout)
    assert 0 <= document["explained_share"] <= 1
    assert all(row["gap_us"] > 0 for row in document["largest_gaps"])
    assert len(document["largest_gaps"]) <= 3
    assert all(item["above_roofline_us"] >= 0 for item in document["items"])
    texts = json.dumps([item["sentence"] for item in document["items"]] + [document["sentence"]])
    assert not re.search(r"-[\d.]+ (ns|us|ms|s) above", texts)


def test_the_details_are_behind_v(reconcile: tuple[str, ...]) -> None:
    short, long = run(*reconcile).stdout, run(*reconcile, "-v").stdout
    assert "Time by cause" not in short
    assert long.splitlines()[:2] == short.splitlines()[:2]
    if not short.startswith("0 %"):
        assert "Time by cause" in long
    assert "more: -v" not in long


def test_times_of_a_column_have_one_unit(reconcile: tuple[str, ...]) -> None:
    lines = run(*reconcile).stdout.splitlines()
    heads = [line for line in lines if line.startswith("kernel  ")]
    for head in heads:
        assert re.search(r"measured (us|ms|s)  ", head)
        row = lines[lines.index(head) + 1]
        assert not re.search(r"\d (ns|us|ms|s)\b", row)


@pytest.mark.parametrize(
    "name", ["ncu/h200_raw.csv", "torch/trace_gpu.json.gz", "likwid/marked.csv", "plain/kernels.csv"]
)
def test_import_counts_kernels_and_names_the_largest(name: str) -> None:
    lines = run("import", str(FIXTURES / name)).output.splitlines()
    assert re.match(
        r"\d+ kernels?( in [\d,]+ launches)?, [\d.]+ (us|ms|s) in total; .* takes [\d.]+ % \(.+\)$", lines[0]
    )
    assert len(lines) <= 27
    assert max(map(len, lines)) <= MAX_WIDTH
    assert "cumulative" in lines[2]


def test_import_sorts_by_time_and_shows_all_with_v() -> None:
    words = ("import", str(FIXTURES / "torch" / "trace_gpu.json.gz"))
    short, long = run(*words).output, run(*words, "-v").output
    assert short.startswith("57 kernels in 219 launches, 481 us in total; aten::_cudnn_attention_... takes 4.9 %")
    assert "and 37 more: -v" in short
    assert len(long.splitlines()) >= 57 + 3
    shares = [float(share) for share in re.findall(r"  ([\d.]+) %  +[\d.]+ %  ", long)]
    assert shares == sorted(shares, reverse=True)


def test_seal_ledger_and_gate_answer_first(tmp_path: Path) -> None:
    book = ("--ledger", str(tmp_path / "ledger.sqlite"))
    cases = tmp_path / "cases.csv"
    cases.write_text("name,op,n\na,add,1000000\nb,relu,1000000\n")
    sealed = run("seal", str(cases), "--on", "h200-sxm", *book).output.splitlines()
    assert re.match(r"sealed 2 predictions as [0-9a-f]{8,} for h200-sxm at 20", sealed[0])
    assert run("ledger", *book).output.splitlines()[0] == "no settled predictions yet: 2 predictions sealed"
    assert run("ledger", "verify", *book).output.startswith("intact: 1 record, head ")
    broken = run("ledger", "verify", "--expect", "0" * 64, *book)
    assert broken.exit_code == 1
    assert broken.output.splitlines()[0].startswith("broken: no record has the expected hash 000")
    for name, factor in (("old", 1.0), ("new", 1.5)):
        rows = "".join(f"k,{factor * (100 + place % 7)}\n" for place in range(20))
        (tmp_path / f"{name}.csv").write_text("name,time_us\n" + rows)
    gate = run("gate", str(tmp_path / "old.csv"), str(tmp_path / "new.csv"))
    assert gate.exit_code == 1
    assert re.match(r"1 regression: k \+50 % \(p = \S+\)$", gate.output.splitlines()[0])
    assert run("gate", str(tmp_path / "old.csv"), str(tmp_path / "old.csv")).output.startswith(
        "no regression; 1 unchanged"
    )


def test_the_page_begins_with_the_lines_of_the_terminal(tmp_path: Path) -> None:
    faults, out = EXAMPLES / "faults", tmp_path / "gaps.html"
    words = ("reconcile", str(faults / "record" / "kernels.csv"), "--cases", str(faults / "cases.csv"))
    first, second, *_ = run(*words, "--on", "h200-sxm").stdout.splitlines()
    run(*words, "--on", "h200-sxm", "--out", str(out))
    page = html.unescape(out.read_text(encoding="utf-8").partition("<main>")[2]).replace("\xa0", " ")
    assert -1 < page.index(first) < page.index(second) < page.index("largest gaps")
