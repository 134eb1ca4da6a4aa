"""Draw the pictures of the docs with the commands printed in the docs: `python docs/make_pictures.py` (or `make pages`).

A command of a `console` block that ends in `--out NAME.svg` makes `docs/img/NAME.svg`. An image on a page belongs to the
last such command above it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "img"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"^\$ ridgeline (.* --out (\S+\.svg).*)$")
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*img/([\w-]+\.svg)\)")


def commands(page: Path) -> dict[str, str]:
    """The arguments of the command that makes each picture, by the name of its file."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return {match[2]: match[1] for line in lines if (match := COMMAND.match(line))}


def images(page: Path) -> list[tuple[str, str | None]]:
    """Every image on a page, with the file that the last drawing command above it makes."""
    shown: list[tuple[str, str | None]] = []
    made = None
    for line in page.read_text(encoding="utf-8").splitlines():
        command, image = COMMAND.match(line), IMAGE.search(line)
        if command:
            made = command[2]
        if image:
            shown.append((image[1], made))
    return shown


def all_commands() -> dict[str, str]:
    return {name: command for page in PAGES for name, command in commands(page).items()}


@contextmanager
def drawn(name: str, command: str) -> Iterator[Path]:
    """The file that a command writes, in an empty folder from which the checkout's examples can be reached."""
    from ridgeline.app.cli import main

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        for folder in ("tests", "benchmarks", "examples"):
            (Path(place) / folder).symlink_to(ROOT / folder)
        os.chdir(place)
        try:
            main(shlex.split(command), standalone_mode=False)
            yield Path(place) / name
        finally:
            os.chdir(before)


def draw_all() -> int:
    IMAGES.mkdir(exist_ok=True)
    makers = all_commands()
    for name, command in makers.items():
        with drawn(name, command) as picture:
            shutil.copyfile(picture, IMAGES / name)
    for old in IMAGES.glob("*.svg"):
        if old.name not in makers:
            print(f"{old.relative_to(ROOT)}: no page has the command that makes it")
    return 0


if __name__ == "__main__":
    sys.exit(draw_all())
