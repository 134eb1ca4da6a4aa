"""Every option of every command, every table, chart and memory level: an answer or one message, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from every_option import BASES, DTYPES, MACHINES, PICTURES, Words, mixtures, singles
from small_cpu import SmallBench, ceilings, machine

from amount import WIDE, some
from ridgeline.app import run as main_job
from ridgeline.app.cli import main
from ridgeline.app.reports import gaps as gap_pages
from ridgeline.app.reports import measured as measured_pages
from ridgeline.core.errors import InputError
from ridgeline.core.trace import Trace
from ridgeline.machines import write as machine_file
from ridgeline.machines.load import load
from ridgeline.measure import session
from ridgeline.measure.cpu import probes
from ridgeline.profilers import launch, profile
from ridgeline.programs.trace import target_program
from ridgeline.render.charts import CHARTS
from ridgeline.render.tables.named import TABLES
from traces import perceptron

FIXTURES = Path(__file__).parents[1] / "fixtures"
CASES = "op,name,m,n,k,time_us\ngemm,gemm,512,512,512,4.5\ngemm,other,64,64,64,2.5\n"
OBSERVED = "name,time_us\ngemm,4.5\ngemm,4.6\nother,2.5\n"
MIXTURES = 8 if WIDE else 2  # lines of several options for each command


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a file of every kind, in which nothing takes minutes: this machine is a small CPU."""
    folder = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for kind in ("CONFIG", "DATA", "CACHE"):
            patch.setenv(f"XDG_{kind}_HOME", str(folder / kind.lower()))
        (folder / "cases.csv").write_text(CASES, encoding="utf-8")
        (folder / "cases.jsonl").write_text('{"op": "gemm", "m": 8, "n": 8, "k": 8}\n', encoding="utf-8")
        for name in ("observed.csv", "before.csv", "after.csv"):
            (folder / name).write_text(OBSERVED, encoding="utf-8")
        (folder / "script.py").write_text("", encoding="utf-8")
        (folder / "machine.toml").write_text(machine_file.text(load("rtx-4090")), encoding="utf-8")
        shutil.copy(FIXTURES / "plain" / "kernels.csv", folder / "kernels.csv")
        shutil.copy(FIXTURES / "ncu" / "h200_raw.csv", folder / "counters.csv")
        shutil.copy(FIXTURES / "torch" / "handmade_gpu.json", folder / "trace.json")
        _fake_hardware(patch, folder)
        for path in ("other.sqlite", "sealed.sqlite"):
            seal = checked(("seal", "cases.csv", "--on", "h200-sxm", "--ledger", path, "--json"))
            (folder / "seal.json").write_text(seal.stdout, encoding="utf-8")
        yield folder


def _fake_hardware(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setattr("ridgeline.machines.detect.local.here", lambda which=None, system=None: machine())
    patch.setattr(probes, "measure", lambda *_, **__: ceilings())
    measured = session.measure("cpu", True, lambda *_: None)
    patch.setattr(session, "measure", lambda *_, **__: measured)
    outcome = main_job.job(SmallBench(), ledger=None)
    patch.setattr(main_job, "job", lambda *_, **__: outcome)
    patch.setattr(measured_pages, "run_page", lambda outcome, out: out.write_text("a page"))
    patch.setattr(gap_pages, "step_page", lambda report, out, theme=None: out.write_text("a page"))
    trace = FIXTURES / "torch" / "trace_gpu.json.gz"
    ran = launch.Recorded(("python", "script.py"), trace, 0, "torch", "8 optimizer steps")
    patch.setattr(launch, "run_program", lambda *_, **__: ran)

    def profiled(command: Any, tell: Any) -> str:
        source = "torch/trace_gpu.json.gz" if str(command.out).endswith(".gz") else "ncu/h200_raw.csv"
        shutil.copy(FIXTURES / source, folder / command.out)
        return ""

    patch.setattr(profile, "_run", profiled)
    patch.setattr(profile, "find_ncu", lambda: "ncu")
    trace = perceptron()

    def traced(text: str, *_: Any, **__: Any) -> Trace:
        if not text.startswith("program.py"):
            raise InputError(f"no file '{text}'")
        return trace

    patch.setattr(target_program, "trace_target", traced)


def checked(words: Words) -> Result:
    """The result of a command line, which is an answer or one clean message."""
    result = CliRunner().invoke(main, list(words))
    line = "ridgeline " + " ".join(words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"{line} ended in {result.exception!r}") from result.exception
    assert result.exit_code in (0, 1, 2), line
    assert "Traceback" not in result.output, line
    assert all(text.isprintable() for text in result.output.split("\n")), line
    assert not re.search(r"\b(?:nan|NaN|Infinity)\b", result.stdout), line
    if result.exit_code == 2:
        assert len(re.findall(r"^(?:ridgeline|Error): ", result.stderr, re.M)) == 1, f"{line}\n{result.stderr}"
        assert not result.stdout, line
    elif "--json" in words:
        json.loads(result.stdout)
    return result


def code(line: Words, seal: str) -> int:
    return checked(tuple(seal if word == "SEAL" else word for word in line)).exit_code


@pytest.mark.parametrize("command", sorted(BASES))
def test_every_option_of_a_command(command: str, place: Path) -> None:
    seal = json.loads((place / "seal.json").read_text(encoding="utf-8"))["id"]
    for name, lines, others in singles(command):
        codes = [code(line, seal) for line in lines]
        answered = min(codes) < 2 or any(code(line, seal) < 2 for line in others)
        assert answered, f"{command} {name} never led to an answer"
    for line in mixtures(command, MIXTURES):
        checked(line)
    assert not [name for name in os.listdir(place) if ".part" in name]


@pytest.mark.parametrize("name", TABLES)
def test_every_table_of_every_kind_of_machine_and_format(name: str, place: Path) -> None:
    for on, dtype in zip(MACHINES, DTYPES, strict=True):
        checked(("table", name, "--on", on))
        checked(("table", name, "--on", "h200-sxm", "--dtype", dtype))
    assert checked(("table", name, "--on", "h200-sxm", "--json")).exit_code == 0


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_of_every_kind_of_machine(name: str, place: Path) -> None:
    place_of = list(CHARTS).index(name)
    for number, on in some([*enumerate(MACHINES)][place_of % 4 :], 4):
        dtype = DTYPES[(number + place_of) % len(DTYPES)]
        checked(("chart", name, "--on", on, *(("--dtype", dtype) if number % 2 else ())))
    out = f"{name}{(*PICTURES, '.json', '.csv', '.md')[place_of % 7]}"
    result = checked(("chart", name, "--on", "h200-sxm", "--out", out))
    assert (result.exit_code == 0) == (place / out).exists()


@pytest.mark.parametrize("on", MACHINES)
def test_every_memory_level_of_every_kind_of_machine(on: str, place: Path) -> None:
    chosen = load(on)
    dtype = "fp32" if any(name.endswith("fp32") for name in chosen.peaks) else "bf16"
    for level in chosen.levels:
        for extra in ((), ("--levels",), ("--levels", "--json"), ("--explain",)):
            words = ("predict", "gemm", "m=8", "n=8", "k=8", "--on", on, "--dtype", dtype, "--resident", level.name)
            result = checked((*words, *extra))
            known = level.name != chosen.main.name and level.bandwidth.value() is not None
            assert result.exit_code == (0 if known else 2), result.output
