"""A traced program is sealed before the run; a profile of the run settles it call by call, once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ridgeline as rl
from ridgeline.app.cli import main
from ridgeline.core.errors import InputError
from ridgeline.core.timeline import BACKWARD
from ridgeline.core.trace import INPUT, LIBRARY, PARAMETER, Trace
from ridgeline.gaps.ledger import Ledger, Sealed
from ridgeline.gaps.steps.report import program_report
from ridgeline.gaps.traced import STEP, ProgramSettlement, rows_of, seal_program, settle_program
from ridgeline.prediction.traced import predict_trace
from ridgeline.profilers.load import timeline
from ridgeline.programs.trace import target_program
from ridgeline.render.tables.settled import program_settlement_answer, program_settlement_table
from traces import Builder

H200 = rl.machine("h200-sxm")
PROFILE = Path(__file__).parents[1] / "fixtures" / "torch" / "handmade_gpu.json"  # recorded on 2026-09-21
BEFORE, LATER = datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC)


def program(forward: str = "aten::addmm") -> Trace:
    """The two products of the profile, one of them perhaps under another name, and an op that the profile lacks."""
    b = Builder()
    b.buffer("bias", (512,), PARAMETER)
    b.buffer("x", (1024, 4096), INPUT)
    b.buffer("w", (4096, 512), PARAMETER)
    b.buffer("y", (1024, 512))
    b.buffer("g", (512, 1024))
    b.buffer("dw", (512, 4096))
    reads = ["bias", "x", "w"] if forward == "aten::addmm" else ["x", "w"]
    b.call(forward, reads, ["y"], sort=LIBRARY)
    b.call("aten::relu", ["y"], ["y"])
    b.call("aten::mm", ["g", "x"], ["dw"], sort=LIBRARY, phase=BACKWARD)
    return b.trace()


def sealed_in(path: Path, trace: Trace) -> Sealed:
    return seal_program(Ledger(path, lambda: BEFORE), predict_trace(trace, H200))


def settled(path: Path, sealed: Sealed) -> ProgramSettlement:
    recorded = timeline(PROFILE)
    return settle_program(Ledger(path, lambda: LATER), sealed, program_report(recorded, H200), recorded, PROFILE)


def test_the_rows_of_a_seal_are_the_step_and_its_calls() -> None:
    predicted = predict_trace(program(), H200)
    total, *rows = rows_of(predicted)
    assert total["name"] == STEP
    assert total["time_us"] == pytest.approx(sum(row["time_us"] * row["count"] for row in rows))
    assert rows[0]["name"] == "addmm 1024x4096·4096x512 bf16, forward"
    assert rows[0]["shape"] == {"m": 1024.0, "n": 512.0, "k": 4096.0}


def test_a_profile_settles_the_calls_by_name_and_lists_the_others(tmp_path: Path) -> None:
    sealed = sealed_in(tmp_path / "ledger.sqlite", program())
    assert sealed.environment["program"]["mode"] == "eager"
    made = settled(tmp_path / "ledger.sqlite", sealed)
    assert {row.name: row.how for row in made.joined} == {
        "addmm 1024x4096·4096x512 bf16, forward": "name",
        "mm 512x1024·1024x4096 bf16, backward": "name",
    }
    by_name = {row.name.partition(" ")[0]: row for row in made.joined}
    assert by_name["addmm"].measured == pytest.approx(61.5e-6)
    assert by_name["addmm"].error == pytest.approx(by_name["addmm"].predicted / 61.5e-6 - 1)
    assert made.unmatched["predicted"] == ["relu 1024x512 bf16, forward"]
    assert "memset, other" in made.unmatched["observed"]
    assert made.step_measured_us == pytest.approx(366.5)
    assert made.joined_share == pytest.approx(101.5 / 366.5)
    assert made.settled is not None
    assert all(item["sealed"] for item in made.settled.items)
    assert len(made.settled.items) == 3


def test_a_call_with_another_name_on_the_device_is_joined_by_its_work(tmp_path: Path) -> None:
    made = settled(tmp_path / "ledger.sqlite", sealed_in(tmp_path / "ledger.sqlite", program("aten::mm")))
    how = {row.name: (row.how, row.measured) for row in made.joined}
    assert how["mm 1024x4096·4096x512 bf16, forward"] == ("work", pytest.approx(61.5e-6))
    assert "joined by work" in program_settlement_table(made).text()


def test_products_of_other_sizes_are_never_joined(tmp_path: Path) -> None:
    b = Builder()
    b.buffer("x", (1024, 4096), INPUT)
    b.buffer("w", (4096, 2048), PARAMETER)
    b.buffer("y", (1024, 2048))
    b.buffer("g", (512, 1024))
    b.buffer("dw", (512, 4096))
    b.call("aten::mm", ["x", "w"], ["y"], sort=LIBRARY)
    b.call("aten::mm", ["g", "x"], ["dw"], sort=LIBRARY, phase=BACKWARD)
    made = settled(tmp_path / "ledger.sqlite", sealed_in(tmp_path / "ledger.sqlite", b.trace()))
    assert [row.name for row in made.joined] == ["mm 512x1024·1024x4096 bf16, backward"]
    assert made.unmatched["predicted"] == ["mm 1024x4096·4096x2048 bf16, forward"]


def test_a_second_settlement_is_a_repeat_and_an_old_profile_no_evidence(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    sealed = sealed_in(path, program())
    settled(path, sealed)
    again = settled(path, sealed).settled
    assert again is not None
    assert all(item["repeat"] for item in again.items)
    late = seal_program(Ledger(path, lambda: LATER), predict_trace(program(), H200))
    after = settled(path, late)
    assert after.settled is not None
    assert not any(item["sealed"] for item in after.settled.items)
    assert "not sealed evidence: measured at 2026-09-21" in program_settlement_answer(after)[-1]


def test_another_program_and_another_machine_are_refused(tmp_path: Path) -> None:
    b = Builder()
    b.buffer("x", (8, 8), INPUT)
    b.call("aten::relu", ["x"], ["x"])
    sealed = sealed_in(tmp_path / "a.sqlite", b.trace())
    with pytest.raises(InputError, match=r"no operator of handmade_gpu\.json is one of the sealed program"):
        settled(tmp_path / "a.sqlite", sealed)
    other = seal_program(Ledger(tmp_path / "b.sqlite", lambda: BEFORE), predict_trace(program(), "h100-sxm"))
    with pytest.raises(InputError, match="is for h100-sxm, not h200-sxm"):
        settled(tmp_path / "b.sqlite", other)


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def test_the_command_line_closes_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_program, "trace_target", lambda *_, **__: program())
    ledger = ("--ledger", str(tmp_path / "ledger.sqlite"))
    first = run("trace", "p.py:step", "--on", "h200-sxm", "--seal", "--note", "before", *ledger)
    assert first.exit_code == 0
    (line,) = (line for line in first.stdout.splitlines() if line.startswith("sealed 4 predictions as "))
    seal = line.split()[4]
    result = run("reconcile", str(PROFILE), "--seal", seal, *ledger)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("device time of a step: predicted ")
    assert "addmm 1024x4096·4096x512 bf16, forward" in result.stdout
    assert run("reconcile", str(PROFILE), str(PROFILE), "--seal", seal, *ledger).exit_code == 2
