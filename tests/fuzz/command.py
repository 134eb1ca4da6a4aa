"""The command line as a target: the words of a command, one per line, run in this process."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from fuzz import checks
from fuzz.inputs import as_file, workspace

PROFILES = {path.name: path for path in Path(__file__).parents[1].glob("fixtures/*/*.csv")}
# These run programs or take seconds on purpose; only their options are tried.
SLOW = ("measure", "run", "profile")
PICTURES = [".svg", ".png", ".pdf", ".html"]
EXIT_CODES = (0, 1, 2)
READERS = ("import", "predict", "gate", "reconcile", "seal", "eval", "machines", "merge", "ledger")


def command(data: bytes) -> None:
    """No traceback, a known exit code, clean text on both outputs."""
    arguments = data.decode("utf-8", "surrogateescape").replace("\0", "").split("\n")[:40]
    arguments = [harmless(word) for word in arguments if word]
    if any(name in arguments for name in SLOW) and "--help" not in arguments:
        arguments.append("--help")
    checked(arguments)


def command_with_file(data: bytes) -> None:
    """A command on a file: its words in the first line, FILE.suffix among them; the content of that file below."""
    first, _, content = data.partition(b"\n")
    words = first.decode("utf-8", "surrogateescape").replace("\0", "").split()
    if not words or words[0] not in READERS:
        return
    paths = {word: str(as_file(content, word.lower())) for word in words if re.fullmatch(r"FILE\.[a-z]{2,7}", word)}
    checked([paths.get(word) or harmless(word) for word in words])


def checked(arguments: list[str]) -> None:
    code, out, err = run(arguments)
    places = re.findall(r'/src/ridgeline/(\S+)", line (\d+)', err)
    checks.hold(code in EXIT_CODES, f"exit code {code} at {'/'.join(places[-1]) if places else '?'}: {err[-300:]}")
    checks.quiet(out, "standard output")
    checks.quiet(err, "standard error")
    if code == 2:
        checks.hold(bool(err.strip()), "exit code 2 without a message")


def harmless(word: str) -> str:
    """Paths stay in the folder of the run; a picture takes a second, so files are tables."""
    for suffix in PICTURES:
        word = word.replace(suffix, ".md")
    name = word.rpartition("=")[2].rpartition("/")[2]
    if name in PROFILES:
        return str(as_file(PROFILES[name].read_bytes(), name))  # a copy, because the word may follow --out
    return word.replace("/", "_") if word.startswith("/") or "../" in word else word


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """A folder and a home of its own."""
    place = workspace() / "home"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
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
    from ridgeline.app import cli
    from ridgeline.core.intake import limits

    # no character is unprintable in the streams of the program either
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True) for _ in range(2))
    before, sys.argv = sys.argv, ["ridgeline", *arguments]
    code = 0
    with apart(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.run()
        except SystemExit as done:
            code = done.code if isinstance(done.code, int) else 0 if done.code is None else 1
        finally:
            sys.argv = before
            limits._given.clear()
    texts = [stream.buffer.getvalue().decode("utf-8") for stream in (out, err)]  # type: ignore[attr-defined]
    return code, texts[0], texts[1]
