"""`python -m fuzz`: every target for some time, two at once; a table of what was found, and a file for each finding."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fuzz.engine import Session, fuzz
from fuzz.run import KINDS, Finding
from fuzz.targets import TARGETS


def main() -> None:
    options = arguments()
    chosen = options.targets.replace(",", " ").split() or list(TARGETS)
    unknown = [name for name in chosen if name not in TARGETS]
    if unknown:
        sys.exit(f"unknown target {unknown[0]}; there is {', '.join(TARGETS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    print(header(), flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        sessions = list(pool.map(lambda name: one(name, options), chosen))
    total = sum(len(session.findings) for session in sessions)
    print(f"{sum(session.inputs for session in sessions):,} inputs, {total} findings, seed {options.seed}")
    sys.exit(1 if total else 0)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="for each target")
    parser.add_argument("--targets", default="", help="names, separated by commas or spaces; all where left out")
    parser.add_argument("--jobs", type=int, default=2, help="targets at once")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed makes the same inputs")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="folder for findings")
    return parser.parse_args()


def header() -> str:
    return f"{'target':<16}{'inputs':>10}{'inputs/s':>10}{'lines':>8}" + "".join(f"{kind + 's' if kind in ('exception', 'wrong value') else kind:>14}" for kind in KINDS)  # fmt: skip


def one(name: str, options: argparse.Namespace) -> Session:
    start = time.monotonic()
    session = fuzz(Session(name, options.seed, options.seconds), lambda finding: write(finding, options.out))
    rate = session.inputs / max(time.monotonic() - start, 1e-9)
    counts = session.counts()
    print(f"{name:<16}{session.inputs:>10,}{rate:>10,.0f}{session.lines:>8,}" + "".join(f"{counts[kind]:>14}" for kind in KINDS), flush=True)  # fmt: skip
    return session


def write(finding: Finding, folder: Path) -> None:
    """A finding as a file, and on the terminal with the command that replays it."""
    path = folder / f"{finding.target}-{finding.name}.input"
    path.write_bytes(finding.data)
    lines = (
        f"{finding.target}: {finding.kind}: {finding.what}",
        f"    at {finding.frame or 'an unknown line'}, {len(finding.data):,} bytes",
        f"    replay: PYTHONPATH=tests python -m fuzz.run {finding.target} {path}",
    )
    path.with_suffix(".txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
