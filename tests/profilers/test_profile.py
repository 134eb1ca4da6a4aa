"""Programs under a profiler, with stand-ins for the tools: the commands run, the fall-back steps, the self-check."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ridgeline.app.cli import main
from ridgeline.core.errors import InputError
from ridgeline.core.observation import Observation
from ridgeline.profilers import ncu
from ridgeline.profilers import profile as profiling
from ridgeline.profilers import self_check as checking
from ridgeline.profilers.self_check import EXPECTED

RECORDED = Path(__file__).parents[1] / "fixtures" / "ncu"


def counted(name: str, factor: float = 1.0) -> Observation:
    side, key, value = EXPECTED[name]
    return Observation(name, name, (1e-3,), **{side: {key: value * factor}})  # type: ignore[arg-type]


def test_the_self_check_holds_where_the_counts_are_those_of_the_definition() -> None:
    found = checking.compare([counted("product", 1.016), counted("copy", 0.99), counted("chain")])
    assert [one.holds for one in found] == [True, True, True]


@pytest.mark.parametrize(("name", "factor"), [("product", 0.5), ("product", 2.0), ("copy", 0.5), ("chain", 1.01)])
def test_a_wrong_count_breaks_it(name: str, factor: float) -> None:
    seen = [counted(other, factor if other == name else 1.0) for other in EXPECTED]
    assert [one.name for one in checking.compare(seen) if not one.holds] == [name]


def test_a_kernel_that_was_not_counted_breaks_it() -> None:
    found = {one.name: one for one in checking.compare([counted("copy")])}
    assert found["copy"].holds
    assert found["chain"].counted is None
    assert not found["chain"].holds


def test_counters_are_doubted_until_they_were_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    seen = [Observation("k", "k", (1.0,), tool="ncu", bytes={"hbm": 1.0}, conditions={"gpu": "NVIDIA H200"})]
    assert checking.unchecked(seen) == ["NVIDIA H200"]

    def profile(*_: object, **__: object) -> profiling.Profile:
        kernels = tuple(replace(counted(name), conditions={"gpu": "NVIDIA H200"}) for name in EXPECTED)
        return profiling.Profile("ncu", "counters", (), tmp_path / "x.csv", kernels)

    monkeypatch.setattr(checking, "profile", profile)
    assert all(one.holds for one in checking.self_check(tmp_path / "x.csv"))
    assert checking.unchecked(seen) == []


def fake_ncu(folder: Path, body: str) -> None:
    tool = folder / "ncu"
    tool.write_text(f"#!{sys.executable}\nimport sys\nout = sys.argv[sys.argv.index('--log-file') + 1]\n{body}\n")
    tool.chmod(0o755)


def test_ncu_runs_and_what_it_wrote_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = next(path for path in sorted(RECORDED.glob("*.csv")) if "raw" in path.name)
    fake_ncu(tmp_path, f"import shutil; shutil.copy({str(recorded)!r}, out)")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    told: list[str] = []
    found = profiling.profile(["python", "x.py"], "ncu", tmp_path / "k.csv", tell=told.append)
    assert found.step == "counters"
    assert found.observations
    assert told[0].startswith("running: ")
    assert "--clock-control none" in told[0]


def test_refused_counters_fall_back_to_timing_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ncu(tmp_path, "open(out, 'w').write('==ERROR== ERR_NVGPUCTRPERM - The user does not have permission')")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    script = tmp_path / "script.py"
    script.write_text("import torch\ntorch.softmax(torch.randn(64, 64), 1)\n")
    told: list[str] = []
    found = profiling.profile([sys.executable, str(script)], "ncu", tmp_path / "k.csv", tell=told.append)
    assert (found.tool, found.step) == ("torch", "timing only")
    assert any("ERR_NVGPUCTRPERM" in text for text in told)
    assert not any("--kernel" in text for text in told)
    profiling.profile([sys.executable, str(script)], "ncu", tmp_path / "k.csv", kernel="soft", tell=told.append)
    assert any("times kernels without counters and ignores --kernel" in text for text in told)
    assert any("softmax" in item.name for item in found.observations)


def test_a_script_that_fails_keeps_its_exit(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("raise SystemExit(3)\n")
    with pytest.raises(InputError, match="ended with code 3"):
        profiling.profile([sys.executable, str(script)], "torch", tmp_path / "u.json")


def test_what_cannot_be_run_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "INSTALLED", ())
    result = CliRunner().invoke(main, ["profile", "--with", "ncu", "--", "python", "x.py"])
    assert result.exit_code == 2
    assert "not on the PATH" in result.output
    result = CliRunner().invoke(main, ["profile"])
    assert result.exit_code == 2
    assert "no program" in result.output
    with pytest.raises(InputError, match="runs a Python script"):
        profiling.profile(["ls"], "torch", tmp_path / "x.json")


@pytest.mark.parametrize(
    ("options", "program", "told"),
    [
        ((), ("python", "-c", "print(1)"), "python script.py ... (or python -m module ...); got 'python -c print(1)'"),
        ((), ("python", "-u", "x.py"), "put code and options of python into a script"),
        ((), ("python", "-m"), "got 'python -m'"),
        ((), ("python", "missing.py"), "there is no script 'missing.py'"),
        (("--kernel", "gemm"), ("python", "x.py"), "--kernel goes with --with ncu only"),
        (("--launches", "3"), ("python", "x.py"), "--launches goes with --with ncu only"),
        (("--use", "full"), ("python", "x.py"), "--use goes with --with ncu only"),
        (("--kernel", "["), ("python", "x.py"), "'[' is not one: unterminated character set"),
        (("--launches", "-3"), ("python", "x.py"), "0 for all; got -3"),
    ],
)
def test_what_torch_does_not_take_is_one_message(
    options: tuple[str, ...], program: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiling, "_run", lambda *_: pytest.fail("it must not run"))
    result = CliRunner().invoke(main, ["profile", "--with", "torch", *options, "--", *program])
    assert result.exit_code == 2
    assert told in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize("wrong", [{"kernel": "["}, {"launches": -3}])
def test_ncu_is_not_started_with_what_it_cannot_mean(wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "find_ncu", lambda: pytest.fail("it must not run"))
    with pytest.raises(InputError, match=str(next(iter(wrong)))):
        profiling.profile(["python", "x.py"], "ncu", **wrong)


PLANTED = ("json", "torch", "numpy", "runpy", "gzip", "tempfile", "ridgeline", "sitecustomize", "typing")


@pytest.mark.parametrize("how", ["script here", "script elsewhere", "module"])
def test_torch_profiles_and_takes_no_file_of_the_current_folder_for_a_module_of_the_profiler(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script still finds its own modules; names of modules that are loaded already stay those of the profiler."""
    folder, script_folder = tmp_path / "here", tmp_path / ("here" if how != "script elsewhere" else "elsewhere")
    for place in {folder, script_folder}:
        place.mkdir()
    for name in PLANTED:
        (folder / f"{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')\nraise SystemExit(9)\n"
        )
    (script_folder / "own.py").write_text("SIDE = 32\n")
    (script_folder / "work.py").write_text(
        "import json, sys, torch, numpy, own\ntorch.randn(own.SIDE, 32) @ torch.randn(32, 32)\nassert sys.argv[1] == 'word'\n"
    )
    monkeypatch.chdir(folder)
    started = ["-m", "work"] if how == "module" else [str(script_folder / "work.py")]
    recorded = profiling.profile([sys.executable, *started, "word"], "torch", tmp_path / "t.json.gz")
    assert any("mm" in item.name for item in recorded.observations)
    assert not (tmp_path / "ran").exists()
