"""The command line itself: help, loading, signals, a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import run

from ridgeline.app.cli import COMMANDS
from ridgeline.app.cli.progress import signals_interrupt

ROOT = Path(__file__).parents[2]


def test_help_names_the_origin_and_every_command_explains_itself() -> None:
    text = run("--help").output
    assert "Williams, Waterman" in text
    for name in COMMANDS:
        assert run(name, "--help").exit_code == 0


def test_ctrl_c_while_the_modules_load_ends_in_one_word(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt", encoding="ascii")
    done = subprocess.run(
        [sys.executable, "-m", "ridgeline", "--help"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'src'}"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "Aborted!\n")


def test_a_full_place_for_the_answer_is_one_message(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ridgeline", "machines"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot be printed: No space left on device" in done.stderr


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_being_told_to_end_stops_long_work_as_ctrl_c_does(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    number = getattr(signal, name)
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), signals_interrupt():
        signal.raise_signal(number)
    assert signal.getsignal(number) == before
    assert f"told to end ({name})" in capsys.readouterr().err
