"""The command line as a target: the words of a command, one per line, run in this process."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from fuzz import checks
from fuzz.inputs import workspace

FIXTURES = Path(__file__).parents[1] / "fixtures"
# These run programs or take seconds on purpose; only their options are tried.
SLOW = ("measure", "run", "profile")
SIZES = [".svg", ".png", ".pdf", ".html"]
EXIT_CODES = (0, 1, 2)


def command(data: bytes) -> None:
    """No traceback, a known exit code, clean text on both outputs."""
    arguments = data.decode("utf-8", "surrogateescape").replace("\0", "").split("\n")[:40]
    arguments = [harmless(word) for word in arguments if word]
    if any(name in arguments for name in SLOW) and "--help" not in arguments:
        arguments.append("--help")
    code, out, err = run(arguments)
    checks.hold(code in EXIT_CODES, f"exit code {code}: {err[-2000:]}")
    checks.shown(out, "standard output")
    checks.shown(err, "standard error")
    if code == 2:
        checks.hold(bool(err.strip()), "exit code 2 without a message")


def harmless(word: str) -> str:
    """Paths stay in the folder of the run; a picture takes a second, so files are tables."""
    for suffix in SIZES:
        word = word.replace(suffix, ".md")
    name = word.rpartition("=")[2].rpartition("/")[2]
    for folder in ("ncu", "torch", "jax", "perf", "likwid", "rocprof", "advisor", "plain"):
        if (FIXTURES / folder / name).is_file():
            return str(FIXTURES / folder / name)
    return word if "/" not in word or (word.startswith("-") is False and "." not in word) else word.replace("/", "_")


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """A folder and a home of its own."""
    place = workspace() / "home"
    place.mkdir(exist_ok=True)
    before, folder = dict(os.environ), Path.cwd()
    os.environ.update(
        {"HOME": str(place), "RIDGELINE_DEBUG": "1", "COLUMNS": "100", "NO_COLOR": "1"}
        | {f"XDG_{kind}_HOME": str(place / kind) for kind in ("CONFIG", "CACHE", "DATA")}
    )
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)


def run(arguments: list[str]) -> tuple[int, str, str]:
    """Exit code and both outputs; an exception that leaves the command goes on."""
    from ridgeline.app.cli import main
    from ridgeline.core.intake import limits

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code = 0
    with apart(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main.main(arguments, prog_name="ridgeline")
        except SystemExit as done:
            code = done.code if isinstance(done.code, int) else 0 if done.code is None else 1
        finally:
            limits._given.clear()
            sys.stdout.flush()
    texts = [stream.buffer.getvalue().decode("utf-8", "backslashreplace") for stream in (out, err)]  # type: ignore[attr-defined]
    return code, texts[0], texts[1]


def traceback_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
