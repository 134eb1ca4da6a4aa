"""Time and memory of importing a large profile: kernels of the recorded reports, repeated up to the number asked for.

    python benchmarks/import_speed.py [KERNELS] [--wide] [--details] [--keep FILE]

The goal is 100,000 kernels in under 20 s and 1 GB. By default each kernel is a row of the raw page with the metrics that
`ridgeline profile` asks for; `--wide` adds empty columns up to the width of a full report, `--details` writes the details page.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ridgeline.profilers import load as observe

RECORDED = Path(__file__).parents[1] / "tests" / "fixtures" / "ncu"
FULL = 1500  # columns of a report with all sections


def rows(source: Path, count: int, extra: str) -> Iterator[str]:
    """The header of a recorded table, then its kernels over and over, numbered anew."""
    table = [line for line in source.read_text(encoding="utf-8").splitlines() if line.startswith('"')]
    yield table[0] + extra
    start = 1
    if "Metric Name" not in table[0]:
        yield table[1] + extra
        start = 2
    kernels: dict[str, list[str]] = {}
    for line in table[start:]:
        number, rest = line.split(",", 1)
        kernels.setdefault(number, []).append(rest)
    groups = list(kernels.values())
    for place in range(count):
        for rest in groups[place % len(groups)]:
            yield f'"{place}",{rest}{extra}'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="?", type=int, default=100_000)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--details", action="store_true")
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    source = RECORDED / ("h200_details.csv" if chosen.details else "h200_ranges.csv")
    extra = ',"0"' * FULL if chosen.wide else ""
    with tempfile.TemporaryDirectory() as folder:
        path = chosen.keep or Path(folder) / "large.csv"
        with path.open("w", encoding="utf-8") as out:
            out.writelines(line + "\n" for line in rows(source, chosen.kernels, extra))
        size = path.stat().st_size / 1e6
        start = time.perf_counter()
        found = observe.load(path)
        taken = time.perf_counter() - start
    assert len(found) == chosen.kernels
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{len(found):,} kernels, {size:,.0f} MB: {taken:.1f} s, {taken / len(found) * 1e6:.0f} us each, {most:,.0f} MiB at most"
    )


if __name__ == "__main__":
    main()
