"""Kills programs while they write, at random moments, and counts what became of their files.

    python benchmarks/kills.py [--kills 1000] [--seed 1] [--only PART_OF_A_NAME]

A case is a function that writes into a folder over and over, and a check of what is in the folder afterwards. Each kill
is SIGKILL to a process of its own, a random time after its first write began. A check raises where something is lost or
half-visible; at the end the next command must work.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from ridgeline.machines.files import load_file
from ridgeline.machines.load import load
from ridgeline.measure.session import store

Begin = Callable[[], None]  # called by a writer when it is about to write
Write = Callable[[Path, Begin], None]
Check = Callable[[Path], str]  # says in a word what was there

MAX_SECONDS = 0.02  # from the first write to the kill: some writes long, so that most kills hit one


def killed(
    write: Write, check: Check, folder: Path, kills: int, seed: int, longest: float = MAX_SECONDS
) -> Counter[str]:
    """How often the check said what, over so many kills of a writer in one folder."""
    moments = random.Random(seed)
    words: Counter[str] = Counter()
    for _ in range(kills):
        readable, writable = os.pipe()
        process = os.fork()
        if not process:
            try:
                write(folder, partial(os.close, writable))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)  # a writer that ends has failed: it writes until it is killed
        os.close(writable)
        os.read(readable, 1)  # ends when the writer has closed its end
        os.close(readable)
        time.sleep(moments.random() * longest)
        os.kill(process, signal.SIGKILL)
        if not os.WIFSIGNALED(os.waitpid(process, 0)[1]):
            raise RuntimeError("the writer ended before it was killed")
        words[check(folder)] += 1
    return words


# -- machine files ----------------------------------------------------------------------------------------------------


def write_machines(folder: Path, begin: Begin) -> None:
    machine, file = load("epyc-9654"), folder / "ridgeline" / "machines" / "here-cpu.toml"
    if not file.is_file():
        store(machine, file)
    begin()
    for number in count():
        store(replace(machine, notes=(*machine.notes, "note " * (number % 1000))), file)


def check_machines(folder: Path) -> str:
    """The machine file is complete, and nothing else is there but drafts, which no listing takes for a file."""
    place = folder / "ridgeline" / "machines"
    machine = load_file(place / "here-cpu.toml")
    if machine.name != "epyc-9654" or not machine.levels:
        raise RuntimeError("the saved machine is another one")
    files = [path.name for path in place.iterdir() if path.is_file()]
    if files != ["here-cpu.toml"]:
        raise RuntimeError(f"files that are no machine: {files}")
    drafts = [path for path in place.iterdir() if path.is_dir()]
    for draft in drafts:  # a save an hour later would remove them
        shutil.rmtree(draft)
    return "killed within a save" if drafts else "killed between saves"


def list_machines(folder: Path) -> None:
    """The next command, as the user of the folder calls it."""
    command = [sys.executable, "-m", "ridgeline", "machines"]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "XDG_CONFIG_HOME": str(folder)}
    )
    if "broken" in done.stdout:
        raise RuntimeError(done.stdout)


CASES: dict[str, tuple[Write, Check, Callable[[Path], None]]] = {
    "saves of a machine file": (write_machines, check_machines, list_machines),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="A part of the name of a case.")
    given = parser.parse_args()
    for name, (write, check, next_command) in CASES.items():
        if given.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            words = killed(write, check, Path(folder), given.kills, given.seed)
            next_command(Path(folder))
        counts = ", ".join(f"{number} {word}" for word, number in words.most_common())
        print(f"{name}: {given.kills} kills, nothing lost, nothing half-visible, the next command works ({counts})")


if __name__ == "__main__":
    main()
