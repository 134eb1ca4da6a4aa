"""The command line itself: help, loading, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from commands import run

from ridgeline.app.cli import COMMANDS, main, message
from ridgeline.app.cli.measure import signals_interrupt

ROOT = Path(__file__).parents[2]


def test_help_names_the_origin_and_every_command_explains_itself() -> None:
    text = run("--help").output
    assert "Williams, Waterman" in text
    for name in COMMANDS:
        assert run(name, "--help").exit_code == 0


def test_every_command_is_found_under_its_name() -> None:
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        assert command.name == name
    assert main.get_command(context, "nothing") is None


def loaded(*words: str) -> set[str]:
    """Modules that a command loads."""
    code = f"import sys\nfrom ridgeline.app.cli import main\nmain({list(words)}, standalone_mode=False)\nprint('\\n', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_help_loads_no_numpy_and_a_command_only_its_own_module() -> None:
    assert not loaded("--help") & {"numpy", "rich"}
    commands = {name.rpartition(".")[2] for name in loaded("predict", "add", "n=8", "--on", "t4", "--dtype", "fp16") if name.startswith("ridgeline.app.cli.")}  # fmt: skip
    assert commands == {"command", "echo", "predict", "options", "present"}


def test_ctrl_c_while_the_modules_load_ends_silently(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt", encoding="ascii")
    done = subprocess.run(
        [sys.executable, "-m", "ridgeline", "--help"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'src'}"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_stops_long_work_as_ctrl_c_does(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    number = getattr(signal, name)
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), signals_interrupt():
        signal.raise_signal(number)
    assert signal.getsignal(number) == before
    assert f"stopped by {name}; what was measured is kept" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "words", "example"),
    [
        ("--layout", "conv2d batch=1 --layout nhwc --on l4", "layout=nhwc"),
        ("--layout", "conv2d --layout=nhwc", "layout=nhwc"),
        ("--layout", "conv2d --layout --on l4", "layout=nchw"),
        ("--causal", "attention --causal heads=8", "causal=yes"),
        ("--m", "gemm --m 128", "m=128"),
    ],
)
def test_an_argument_with_dashes_is_shown_as_it_was_meant(option: str, words: str, example: str) -> None:
    """`--layout nhwc` was answered with layout=4096."""
    assert message(click.NoSuchOption(option), words.split()).endswith(f"without dashes, as {example}")


def test_a_size_with_dashes_is_told_from_an_option() -> None:
    assert message(click.NoSuchOption("--m")).endswith("arguments of an op are given without dashes, as m=4096")
    assert message(click.NoSuchOption("--onn", possibilities=["--on"])).endswith(
        "no such option '--onn'. Did you mean '--on'?"
    )
