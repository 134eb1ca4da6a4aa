"""Whether two versions of ridgeline answer the commands of `commands.txt` with the same numbers.

    python benchmarks/same_numbers.py record old.json --checkout ../ridgeline-old
    python benchmarks/same_numbers.py record new.json
    python benchmarks/same_numbers.py compare old.json new.json

Every command runs with `--json` in a process of its own, in the folder this file belongs to, so that both versions read
the same input files. Numbers, and words that name something (`memory`, `tensor.bf16`), must agree; sentences may
change, and keys may be added.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COMMANDS = Path(__file__).with_name("commands.txt")
TOLERANCE = 1e-9  # relative; sums taken in another order differ by less
IGNORED = {"ridgeline", "file"}  # the version itself, and where the checkout lies


def run(command: str, checkout: Path, inputs: Path) -> dict[str, Any]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout / "src"),
        "HOME": "/nonexistent",
        "XDG_CONFIG_HOME": "/nonexistent",
    }
    words = [sys.executable, "-m", "ridgeline", *shlex.split(command), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=inputs, env=environment)
    try:
        answer = json.loads(done.stdout) if done.stdout.strip() else None
    except ValueError:
        answer = None
    return {"code": done.returncode, "answer": answer, "error": done.stderr}


def record(out: Path, checkout: Path, inputs: Path) -> None:
    commands = [line for line in COMMANDS.read_text(encoding="utf-8").splitlines() if line.strip()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(lambda command: run(command, checkout, inputs), commands))
    out.write_text(json.dumps(dict(zip(commands, answers, strict=True)), indent=1), encoding="utf-8")
    codes = Counter(answer["code"] for answer in answers)
    print(f"{len(commands)} commands recorded; exit codes {dict(codes)}")


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Where a number or a name changed, or something is gone; `sentence changed` where only wording did."""
    if isinstance(old, dict) and isinstance(new, dict):
        kept = [key for key in old if key not in IGNORED]
        gone = [f"{path}.{key}: gone" for key in kept if key not in new]
        return gone + [line for key in kept if key in new for line in differences(old[key], new[key], f"{path}.{key}")]
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return [f"{path}: {len(old)} entries, now {len(new)}"]
        return [
            line
            for place, pair in enumerate(zip(old, new, strict=True))
            for line in differences(*pair, f"{path}[{place}]")
        ]
    if isinstance(old, str) and isinstance(new, str):
        if old == new:
            return []
        return ["sentence changed"] if " " in old or " " in new else [f"{path}: {old!r}, now {new!r}"]
    if isinstance(old, float | int) and isinstance(new, float | int):
        same = old == new or math.isclose(old, new, rel_tol=TOLERANCE) or (math.isnan(old) and math.isnan(new))
        return [] if same else [f"{path}: {old!r}, now {new!r}"]
    return [] if old == new else [f"{path}: {old!r}, now {new!r}"]


def compare(old_file: Path, new_file: Path) -> int:
    old, new = (json.loads(file.read_text(encoding="utf-8")) for file in (old_file, new_file))
    changed, sentences = 0, 0
    for command, before in old.items():
        after = new.get(command)
        lines = ["not recorded"] if after is None else differences(before["answer"], after["answer"])
        if after is not None and before["code"] != after["code"]:
            lines.append(f"exit code {before['code']}, now {after['code']}: {after['error'].strip()[-300:]}")
        sentences += lines.count("sentence changed")
        lines = [line for line in lines if line != "sentence changed"]
        if lines:
            changed += 1
            print(f"ridgeline {command}")
            print(
                "".join(f"    {line}\n" for line in lines[:6])
                + (f"    (+{len(lines) - 6})\n" if len(lines) > 6 else "")
            )
    print(f"{len(old)} commands compared: {changed} differ in a number or a name; {sentences} sentences changed")
    return 1 if changed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("--checkout", type=Path, default=ROOT, help="whose code answers (default: this one)")
    recording.add_argument("--inputs", type=Path, default=ROOT, help="where the commands run (default: this checkout)")
    comparing = verbs.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    asked = parser.parse_args()
    if asked.verb == "record":
        record(asked.out, asked.checkout, asked.inputs)
        return 0
    return compare(asked.old, asked.new)


if __name__ == "__main__":
    sys.exit(main())
