"""`ridgeline import FILE --on MACHINE`: the answer on a screen, and the same kernels in every form."""

from __future__ import annotations

import json
from pathlib import Path

from commands import run

NCU = Path(__file__).parents[1] / "fixtures" / "ncu"


def test_the_answer_fits_a_screen() -> None:
    lines = run("import", str(NCU / "h200_raw.csv"), "--on", "h200-sxm").output.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 120
    assert lines[0].startswith("14 kernels, 7.62 ms on h200-sxm: ")
    assert "of roofline" in lines[0]


def test_json_csv_and_pictures_have_the_same_kernels(tmp_path: Path) -> None:
    file = str(NCU / "h200_faults.csv")
    rows = json.loads(run("import", file, "--on", "h200-sxm", "--json").output)
    assert [row["name"] for row in rows] == ["spill", "conflict"]
    assert rows[0]["diagnosis"][0]["rule"] == "spills"
    assert rows[0]["flops"]  # what import writes without a machine is still there
    for suffix in ("csv", "md", "json", "svg", "html"):
        out = tmp_path / f"kernels.{suffix}"
        run("import", file, "--on", "h200-sxm", "--out", str(out))
        text = out.read_text("utf-8")
        assert "spill" in text, suffix
        assert "conflict" in text, suffix


def test_times_without_counters_claim_no_share_of_roofline() -> None:
    trace = NCU.parent / "torch" / "trace_cpu.json.gz"
    first, second, *_ = run("import", str(trace), "--on", "xeon-8480plus").output.splitlines()
    assert "no counters" in first
    assert "of roofline" not in first
    assert "perf stat" in second
    assert "ncu" not in run("import", str(trace), "--on", "xeon-8480plus").output
