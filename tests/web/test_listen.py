"""`ridgeline serve`: what it refuses before it listens, and that it answers where it says."""

import signal
import subprocess
import sys
import urllib.request

import pytest
from click.testing import CliRunner

from ridgeline.app.cli import main

UNREACHABLE = "198.51.100.77"  # reserved for documentation, so no machine has it


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", UNREACHABLE], f"cannot listen on {UNREACHABLE}"),
        (["--port", "70000"], "70000"),
        (["--max-upload", "0 B"], "--max-upload must be positive"),
        (["--max-upload", "much"], "much"),
    ],
)
def test_bad_options_end_with_one_message(words, message):
    result = CliRunner().invoke(main, ["serve", "--no-open", *words])
    assert result.exit_code == 2
    assert message in result.output


def test_it_listens_on_loopback_where_it_says_and_ends_on_an_interrupt():
    command = [sys.executable, "-m", "ridgeline", "serve", "--no-open", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("explorer at http://127.0.0.1:")
        with urllib.request.urlopen(line.split()[2]) as reply:
            assert b"ridgeline" in reply.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) in (0, 130)
