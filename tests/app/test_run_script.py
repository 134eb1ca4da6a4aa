"""`ridgeline run -- python script.py` on scripts as users write them: steps, phases, shares; never how fast they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from ridgeline.app.cli import main
from ridgeline.app.run import program as job
from ridgeline.core.errors import InputError
from ridgeline.core.timeline import KERNEL, OPERATOR, Activity
from ridgeline.profilers import launch

SCRIPTS = Path(__file__).parents[2] / "examples" / "scripts"
TRACE = Path(__file__).parents[1] / "fixtures" / "torch" / "trace_cpu.json.gz"
MACHINE = "xeon-8480plus"  # of the catalog: nothing is measured
# Threads that wait for each other take long on a busy machine; and a GPU, where there is one, would run the programs.
SETTINGS = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "ridgeline", "run", "--on", MACHINE, *words]
    environment = {**os.environ, **SETTINGS, "XDG_CONFIG_HOME": str(folder / "config")}
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.needs_torch
@pytest.mark.parametrize(
    ("words", "phases"),
    [
        (("resnet_train.py", "--small", "--steps", "4"), {"forward", "backward", "optimizer"}),
        (("vit_amp.py", "--small", "--steps", "4"), {"forward", "backward", "optimizer"}),
        (("llama_block.py", "prefill", "--small", "--steps", "5"), {"forward"}),
    ],
    ids=lambda words: next(iter(words)) if isinstance(words, tuple) else "",
)
def test_unchanged_scripts_are_explained(
    words: tuple[str, ...], phases: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    recorded = launch.run_program((sys.executable, str(SCRIPTS / words[0]), *words[1:]), tmp_path, 3, 60.0)
    outcome = job.report_of(recorded, MACHINE, print)
    document = outcome.document()
    step = document["step"]
    assert (recorded.exit_code, recorded.library) == (0, "torch")
    # by calls: on a busy machine any one of them may take a tenth of the time
    explained, others = (sum(row["count"] for row in document[key]) for key in ("items", "coverage"))
    assert explained >= 0.95 * (explained + others)
    assert {row["op"] for row in document["coverage"]} <= {"aten::cat"}  # of a list of tensors no shapes are recorded
    assert step["steps"] >= 2
    assert {name for name, phase in step["phases"].items() if phase["device_us"] > 0} >= phases
    assert step["predicted_device_us"] > 0
    assert all(item["predicted_us"] > 0 for item in outcome.document()["items"])


@pytest.mark.parametrize(("waited", "named"), [(0.5, True), (0.02, False)])
def test_a_loaded_machine_is_named_with_the_share_of_time_without_a_core(waited: float, named: bool) -> None:
    facts = {"recorded_seconds": 2.0, "waited_seconds": waited}
    recorded = launch.Recorded(("python", "train.py"), TRACE, 0, "torch", "8 optimizer steps", facts=facts)
    made = job.report_of(recorded, MACHINE, print)
    notes = made.notes
    assert recorded.waited_share == waited / 2
    assert any("waited 25 % of the time for a core" in note for note in notes) == named
    assert ([move.rule for move in made.report.moves] == ["waits for cores"]) == named


def test_a_program_whose_children_do_the_work_is_told_so(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text('{"schemaVersion": 1, "traceEvents": []}')
    recorded = launch.Recorded(("python", "train.py"), trace, 0, "torch", "the entire run")
    with pytest.raises(InputError, match="processes that it starts are not recorded"):
        job.report_of(recorded, MACHINE, print)


FAILING = """
import sys
import torch
import ridgeline
print("from the program", sys.argv[1])
layer = torch.nn.Linear(64, 64)
for turn in range(12):
    with ridgeline.step():
        layer(torch.ones(32, 64)).relu().sum().backward()
sys.exit(5)
"""


@pytest.mark.needs_torch
def test_the_command_passes_on_output_and_exit_code_and_writes_the_report(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    keep = ("--keep", "kept.json.gz", "--report", "page.html", "--steps", "6")
    ended = command(tmp_path, "--json", *keep, "--", sys.executable, "failing.py", "7")
    assert ended.returncode == 5, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)  # nothing of the program is in it
    assert "from the program 7" in ended.stderr
    assert document["program"]["recorded"] == "6 ridgeline.step()"
    assert document["program"]["exit_code"] == 5
    assert document["program"]["unprofiled_steps"] >= 3
    assert document["step"]["recognised_by"] == "marked"
    assert 2 <= document["step"]["steps"] <= 6
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert (tmp_path / "kept.json.gz").is_file()
    again = CliRunner().invoke(main, ["reconcile", str(tmp_path / "kept.json.gz"), "--on", MACHINE, "--json"])
    assert json.loads(again.stdout)["step"]["steps"] == document["step"]["steps"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "--", "bash", "x.sh"), "is run neither by Python nor by torchrun"),
        (("run", "python", "none.py", "--lr", "1"), "there is no script 'none.py'"),
        (("run", "--full", "--", "python", "none.py"), "--full has no effect with a program"),
        (("run", "--steps", "3"), "--steps has no effect without a program"),
        (("run", "--on", "h200-sxm"), "cpu or cuda; a program takes any machine"),
        (("run", "--on", "no-such", "--", "python", "none.py"), "unknown machine 'no-such'"),
        (("run", "--report", "no/such/x.html", "--", "python", "none.py"), "the folder 'no/such' does not exist"),
    ],
)
def test_what_cannot_be_run_is_refused_with_one_message(words: tuple[str, ...], message: str) -> None:
    ended = CliRunner().invoke(main, list(words))
    assert (ended.exit_code, message in ended.stderr) == (2, True), ended.stderr


def test_a_program_without_a_library_ends_with_2_or_its_own_code(tmp_path: Path) -> None:
    for body, code in (("print('seen')", 2), ("raise SystemExit(4)", 4)):
        (tmp_path / "plain.py").write_text(body)
        ended = command(tmp_path, "--", sys.executable, "plain.py")
        assert ended.returncode == code
        assert "imported neither torch nor jax" in ended.stderr


def test_the_machine_is_the_one_asked_for_else_where_it_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    calibrated = SimpleNamespace(fitted={"gemm": 1})
    monkeypatch.setattr("ridgeline.machines.load.load", lambda name: asked.append(name) or calibrated)
    monkeypatch.setattr("ridgeline.machines.files.saved_measurement", lambda which=None: Path("here.toml"))

    def times(kind: str) -> Any:
        return SimpleNamespace(activities=[Activity(kind, "k")])

    for kind, on in ((KERNEL, None), (OPERATOR, None), (OPERATOR, "h200-sxm"), (KERNEL, "cuda"), (OPERATOR, "cpu")):
        job.machine_for(times(kind), on, print, None)
    assert asked == ["here:gpu", "here:cpu", "h200-sxm", "here:gpu", "here:cpu"]


def test_a_cpu_that_was_never_measured_is_measured_first(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    measured = SimpleNamespace(machine="the machine")
    saved: list[Path | None] = [None]
    monkeypatch.setattr("ridgeline.machines.files.saved_measurement", lambda which=None: saved[0])
    monkeypatch.setattr("ridgeline.machines.load.load", lambda name: SimpleNamespace(fitted={}))
    monkeypatch.setattr("ridgeline.measure.session.measure", lambda *words: measured)
    monkeypatch.setattr("ridgeline.measure.session.keep", lambda item, say: kept.append(item))
    said: list[str] = []
    times: Any = SimpleNamespace(activities=[Activity(OPERATOR, "k")])
    assert job.machine_for(times, None, said.append, None) == "the machine"
    assert (kept, said[0].startswith("no ceilings of this CPU yet")) == ([measured], True)
    saved[0] = Path("here.toml")  # as `ridgeline run` leaves it: ceilings without timings of library kernels
    assert job.machine_for(times, None, said.append, None) == "the machine"
    assert said[1].startswith("library kernels of this CPU were never timed")


def test_the_compiled_programs_of_jax_are_kept_with_its_trace(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "profile" / "now"
    folder.mkdir(parents=True)
    (folder / "host.trace.json.gz").write_text("trace")
    (folder / "host.xplane.pb").write_text("programs")
    recorded = launch.Recorded(("python", "x.py"), folder / "host.trace.json.gz", 0, "jax", "the entire run")
    kept = job.keep_trace(recorded, tmp_path / "mine.trace.json.gz")
    assert [path.name for path in kept] == ["mine.trace.json.gz", "mine.xplane.pb"]
    assert kept[1].read_text() == "programs"
    assert [path.name for path in job.keep_trace(recorded, tmp_path / "mine.gz")] == ["mine.gz"]
