"""Programs of several ranks: rank 0 is recorded, the others run as they are; what a trace of gloo holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ridgeline.core.errors import InputError
from ridgeline.core.timeline import COMMUNICATION
from ridgeline.gaps.steps.report import program_report
from ridgeline.machines.load import load
from ridgeline.profilers import torchrun
from ridgeline.profilers.load import timeline

TRACE = Path(__file__).parents[1] / "fixtures" / "torch" / "ddp_gloo.json.gz"
RUNNER = "import json, os, sys; print(json.dumps(['recorded', *sys.argv[1:]]))\n"
PROGRAM = "import json, sys; print(json.dumps(['alone', *sys.argv[1:]]))\n"


@pytest.mark.parametrize(
    ("words", "ranks"),
    [
        (["torchrun", "train.py"], True),
        (["/opt/env/bin/torchrun", "--nproc-per-node", "2", "train.py"], True),
        (["python3", "-m", "torch.distributed.run", "train.py"], True),
        (["python", "train.py", "torchrun"], False),
        (["python", "-m", "train"], False),
        (["python", "-m"], False),
        (["mpirun", "train.py"], False),
        ([], False),
    ],
)
def test_commands_that_start_ranks_are_recognised(words: list[str], ranks: bool) -> None:
    assert torchrun.is_torchrun(words) == ranks


@pytest.mark.parametrize(("rank", "recorded"), [("0", True), ("1", False), (None, True)])
def test_only_rank_0_runs_under_the_recorder(rank: str | None, recorded: bool, tmp_path: Path) -> None:
    """torchrun calls the interpreter as `python -u program arguments`; the paths have blanks and quotes in them."""
    folder = tmp_path / "a folder's"
    folder.mkdir()
    runner, program = tmp_path / "the runner.py", tmp_path / "program.py"
    runner.write_text(RUNNER)
    program.write_text(PROGRAM)
    path = torchrun.rank_interpreter([sys.executable, "-m", "torch.distributed.run"], runner, folder, '{"steps": 5}')
    environment = {key: value for key, value in os.environ.items() if key != "RANK"}
    ended = subprocess.run(
        [path, "-u", program, "--rate", "0.1"],
        env={**environment, **({} if rank is None else {"RANK": rank})},
        capture_output=True,
        text=True,
        check=True,
    )
    alone = ["alone", "--rate", "0.1"]
    wrapped = ["recorded", str(folder), '{"steps": 5}', str(program), "--rate", "0.1"]
    assert json.loads(ended.stdout) == (wrapped if recorded else alone)


def test_the_interpreter_is_that_of_the_first_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="there is no 'torchrun'"):
        torchrun.interpreter(["torchrun", "train.py"])
    made = tmp_path / "torchrun"
    made.write_text("#!/opt/env/bin/python3.12\nimport sys\n")
    made.chmod(0o755)
    assert torchrun.interpreter(["torchrun", "train.py"]) == "/opt/env/bin/python3.12"
    made.write_text("#!/bin/sh\nexec something\n")
    with pytest.raises(InputError, match=r"python -m torch\.distributed\.run"):
        torchrun.interpreter(["torchrun", "train.py"])


def test_collectives_of_gloo_are_communication() -> None:
    """Three steps of a model with two layers: one bucket of gradients, so one all-reduce a step, and no kernel of a GPU."""
    recorded = timeline(TRACE)
    view = program_report(recorded, load("xeon-8480plus")).view
    groups = [item.group for item in (*view.items, *view.uncounted)]
    reductions = [group for group in groups if group.owner.name == "c10d::allreduce_"]
    assert view.kept.on_host
    assert view.steps >= 2
    assert {group.phase for group in reductions} == {COMMUNICATION}
    assert sum(group.count for group in reductions) == 1
    assert (view.phases[COMMUNICATION]["device_us"] or 0.0) > 0
    assert view.explained_share > 0.9
