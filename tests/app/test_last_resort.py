"""What no command expected is one line and exit code 70; outputs that cannot show an answer cause no traceback."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ridgeline.app import last_resort
from ridgeline.app.cli.echo import harmless

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
PATIENCE = 300.0  # seconds until a process that never ends is a failure
PREDICT = ("predict", "gemm", "m=8", "n=8", "k=8", "--on", "h200-sxm")


def hear_interrupts() -> None:
    """In a new process: the tests themselves may run where Ctrl-C is ignored, as in the background of a shell."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**ENVIRONMENT, **variables},
        preexec_fn=hear_interrupts, timeout=PATIENCE,
    )  # fmt: skip


def guarded(body: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A process whose command is a body of Python, under the last resort."""
    lines = "\n".join("    " + line for line in body.splitlines())
    return python(
        f"import sys\nfrom ridgeline.app.last_resort import guarded\ndef command():\n{lines}\nsys.exit(guarded(command))",
        **variables,
    )


def ridgeline(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    variables = options.pop("env", {})
    assert isinstance(variables, dict)
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": {**ENVIRONMENT, **variables}, **options}
    return subprocess.run([sys.executable, "-m", "ridgeline", *words], text=True, check=False, **given)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("1 / 0", "unexpected ZeroDivisionError: division by zero; this is a fault of ridgeline"),
        ("def deeper(): deeper()\ndeeper()", "unexpected RecursionError"),
        ("raise MemoryError", "out of memory"),
        ("raise ImportError('libblas.so: failed to map segment from shared object')", "out of memory"),
        ("raise OSError(12, 'Cannot allocate memory')", "out of memory"),
        ("raise ValueError('\\x1b[2Jtwo\\nlines')", "unexpected ValueError: two; this"),
        ("raise ValueError('\\udcff')", "unexpected ValueError"),
        ("sys.excepthook(ValueError, ValueError('lost'), None)\nreturn 70", "unexpected ValueError: lost"),
    ],
)
def test_an_unexpected_error_is_one_line_and_exit_code_70(body: str, says: str) -> None:
    done = guarded(body)
    assert done.returncode == last_resort.FAULT
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"ridgeline: {says}")
    assert "\x1b" not in done.stderr


def test_the_traceback_is_shown_to_whoever_asks() -> None:
    done = guarded("1 / 0", RIDGELINE_DEBUG="1")
    assert done.returncode == last_resort.FAULT
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(("body", "code"), [("return 2", 2), ("sys.exit(1)", 1), ("sys.exit()", 0), ("return 0", 0)])
def test_other_exit_codes_stay(body: str, code: int) -> None:
    done = guarded(body)
    assert (done.returncode, done.stderr) == (code, "")


def test_ctrl_c_is_silent_even_where_a_library_turns_it_into_another_error() -> None:
    turned = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    while True: pass\nexcept KeyboardInterrupt:\n    raise ImportError('multiarray')"
    lost = "import os, signal\nclass Lost:\n    def __del__(self): raise KeyboardInterrupt\nLost()\nwhile True: pass"
    for body in (turned, lost):
        done = guarded(body)
        assert (done.returncode, done.stderr) == (last_resort.INTERRUPTED, "")


def test_ctrl_c_during_a_command_is_silent() -> None:
    """A few moments of the loading of modules and of the work; the interpreter's own start is not ours."""
    code = (
        "from ridgeline import __main__ as start\ncommand = start._command\n"
        "def told():\n    print('started', flush=True)\n    return command()\n"
        "start._command = told\nstart.main()"
    )
    for wait in (0.02, 0.1, 0.2, 0.4):
        words = [sys.executable, "-c", code, *PREDICT, "--out", "/dev/null/no.svg"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(words, text=True, env=ENVIRONMENT, preexec_fn=hear_interrupts, **pipes) as process:  # type: ignore[call-overload]
            process.stdout.readline()
            time.sleep(wait)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        assert "Traceback" not in errors
        assert "ignored" not in errors
        assert process.returncode in (2, last_resort.INTERRUPTED, -signal.SIGINT)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_output_without_our_characters_gets_others(encoding: str) -> None:
    for words in (PREDICT, ("chart", "pyramid", "--on", "h200-sxm"), ("machines", "\udcff\u2192")):
        done = ridgeline(*words, env={"PYTHONIOENCODING": encoding}, encoding="latin-1")
        assert "Traceback" not in done.stderr
        assert (done.stdout + done.stderr).isascii() or "latin" in encoding
        assert done.returncode == (2 if words[0] == "machines" else 0)


def test_closed_streams_cause_nothing(tmp_path: Path) -> None:
    out = tmp_path / "answer.json"
    for redirections in (">&-", "2>&-", ">&- 2>&- <&-"):
        out.unlink(missing_ok=True)
        line = f"'{sys.executable}' -m ridgeline {' '.join(PREDICT)} --json --out '{out}' {redirections}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, env=ENVIRONMENT)
        assert done.returncode == 0, done.stderr
        assert out.read_text(encoding="utf-8").startswith("{")
        assert not done.stderr or done.stderr.startswith("wrote ")


def test_a_reader_that_leaves_is_not_an_error_of_ours() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = ridgeline("glossary", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (last_resort.CLOSED_PIPE, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_place_for_the_answer_is_one_message() -> None:
    with Path("/dev/full").open("w") as full:
        done = ridgeline("glossary", stdout=full)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "cannot be printed: No space left on device" in done.stderr
        assert ridgeline("--help", stdout=full).returncode == 2
        assert ridgeline("glossary", "--nosuch", stdout=full, stderr=full).returncode == 2


def test_little_memory_is_one_line() -> None:
    """Whether it is enough depends on the machine; a traceback is wrong on all of them."""
    for size in (170, 250):

        def limit(size: int = size) -> None:
            resource.setrlimit(resource.RLIMIT_AS, (size * 10**6, size * 10**6))

        done = ridgeline(*PREDICT, preexec_fn=limit)
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") <= 1


def test_an_array_larger_than_memory_is_one_line() -> None:
    done = guarded("import numpy\nnumpy.ones(1 << 57)")
    assert (done.returncode, done.stderr.count("\n")) == (last_resort.FAULT, 1)
    assert "out of memory" in done.stderr


def test_only_colours_and_lines_reach_a_terminal() -> None:
    assert harmless("a\x1b[31mb\nc") == "a\x1b[31mb\nc"
    assert harmless("a\x1b[2Jb\x07\x9b\r\u202ec") == "a [2Jb    c"
