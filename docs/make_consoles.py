"""Fill the consoles of the pages with what the commands print now.

    python docs/make_consoles.py            rewrite the pages whose consoles changed
    python docs/make_consoles.py --check    only say which would change (exit code 1 if any)

Of each page, in order: a fenced block with a file name after its language (csv kernels.csv) writes that file into an
empty folder, where `tests`, `benchmarks` and `examples` of the checkout can be reached; a `console` block runs its
commands there. Blocks of any other kind are text and stay as they are: use `text` for what a page cannot reproduce.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from click.testing import CliRunner

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))
from ridgeline.app.cli import main as ridgeline  # noqa: E402

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PICTURE = re.compile(r"--out \S+\.svg$")
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", flags=re.M | re.S)


def environment(folder: Path) -> dict[str, str]:
    """The checkout's own ridgeline, with no user folders."""
    stub = folder / "bin" / "ridgeline"
    stub.parent.mkdir()
    stub.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ridgeline "$@"\n', encoding="utf-8")
    stub.chmod(0o755)
    path = f"{stub.parent}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    home = folder / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "COLUMNS"))}
    return {**kept, "PATH": path, "HOME": str(home), "PYTHONPATH": str(ROOT / "src")}


def printed(command: str, folder: Path, variables: dict[str, str]) -> str:
    """What a command prints. ridgeline itself runs in this process: to start one for each command would take longer."""
    words, _, filters = command.partition(" | ")
    if not words.startswith("ridgeline ") or re.search("[;&<>`]", words):
        words, filters, output, errors = "", command, "", ""
    else:
        removed = {name: None for name in os.environ if name not in variables}
        with contextlib.chdir(folder):
            answer = CliRunner().invoke(ridgeline, shlex.split(words, comments=True)[1:], env={**removed, **variables})
        output, errors = answer.stdout, answer.stderr
    if filters:
        done = subprocess.run(
            ["sh", "-c", filters], cwd=folder, env=variables, input=output, capture_output=True, text=True, encoding="utf-8"
        )  # fmt: skip
        output, errors = done.stdout, errors + done.stderr
    return output + errors


def run(commands: str, folder: Path, variables: dict[str, str]) -> str:
    """A console with fresh output under each of its commands; pictures are drawn by make_pictures.py, which its test checks."""
    lines = []
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", commands, flags=re.M):
        lines.append(f"$ {command}")
        if PICTURE.search(command):
            lines += shown.splitlines()
            continue
        lines += [line.rstrip() for line in printed(command, folder, variables).splitlines()]
    return "\n".join(lines) + "\n"


def filled(page: Path) -> str:
    """The page with its consoles run anew."""
    with tempfile.TemporaryDirectory() as place:
        variables = environment(Path(place))
        folder = Path(place) / "page"
        folder.mkdir()
        for name in ("tests", "benchmarks", "examples"):
            (folder / name).symlink_to(ROOT / name)

        def block(match: re.Match[str]) -> str:
            language, name, text = match.groups()
            if name:
                (folder / name).write_text(text, encoding="utf-8")
            if language != "console":
                return match.group(0)
            return f"```console\n{run(text, folder, variables)}```"

        return BLOCK.sub(block, page.read_text(encoding="utf-8"))


def main() -> int:
    stale = False
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        fresh = filled(page)
        if fresh != text:
            stale = True
            print(f"{page.relative_to(ROOT)}: {'is stale' if '--check' in sys.argv else 'rewritten'}")
            if "--check" not in sys.argv:
                page.write_text(fresh, encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
