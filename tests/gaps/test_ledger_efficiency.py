"""The achieved share of roofline from the ledger, file names in complaints about cases, and small changes of the gate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from ledger_samples import Clock, item, row, seal

from ridgeline.app.cli import main
from ridgeline.gaps.ledger import Ledger
from ridgeline.render.tables.gaps import signed


def test_the_ledger_gives_an_efficiency(tmp_path: Path) -> None:
    """Floors of 5 us measured at 8, 6.25 and 6.25 us: 0.625, 0.8 and 0.8, median 0.8, quartiles 0.7125 and 0.8."""
    path, clock = tmp_path / "ledger.sqlite", Clock()
    book = Ledger(path, clock)
    sealed = seal(book, row("a"), row("b"), row("c"), row("d", bound="compute", floor_us=9.0))
    at = clock.after(seconds=1)
    times = {"a": 8.0, "b": 6.25, "c": 6.25, "d": 10.0}
    book.settle(sealed, [item(name, time, at) for name, time in times.items()])
    result = CliRunner().invoke(main, ["ledger", "efficiency", "--ledger", str(path), "--json"])
    compute, memory = json.loads(result.stdout)
    assert (compute["bound"], compute["cases"], compute["median"]) == ("compute", 1, 0.9)
    assert (memory["machine"], memory["cases"]) == ("h200-sxm", 3)
    assert (memory["median"], memory["low"], memory["high"]) == pytest.approx((0.8, 0.7125, 0.8))
    text = CliRunner().invoke(main, ["ledger", "efficiency", "--ledger", str(path)]).output
    assert text.splitlines()[0] == (
        "memory-bound kernels on h200-sxm reach 0.80 of roofline (median of 3, quartiles 0.71-0.80): "
        "predict with --efficiency 0.80"
    )


def test_a_ledger_without_measurements_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    seal(Ledger(path, Clock()), row("a"))
    result = CliRunner().invoke(main, ["ledger", "efficiency", "--ledger", str(path)])
    assert result.exit_code == 0
    assert result.output.startswith("no settled predictions with a roofline time: run `ridgeline seal`")


def test_a_complaint_about_sealed_cases_names_their_file(tmp_path: Path) -> None:
    cases = tmp_path / "kernels.jsonl"
    cases.write_text('{"op": "gemm", "m": 8, "n": 8, "k": -8}\n', encoding="utf-8")
    words = ["seal", str(cases), "--on", "h200-sxm", "--ledger", str(tmp_path / "l.sqlite")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "kernels.jsonl" in result.output
    assert "the cases" not in result.output


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (-0.0004, "-0.04 %"), (0.0009, "+0.09 %"), (0.000001, "0 %"), (0.054, "+5.4 %"), (-0.3, "-30 %")],
)
def test_a_change_has_a_sign(share: float, text: str) -> None:
    assert signed(share) == text
