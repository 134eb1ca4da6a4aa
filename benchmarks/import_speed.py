"""Time and memory of importing a large profile: what was recorded, repeated up to the size asked for.

    python benchmarks/import_speed.py [KERNELS] [--wide] [--details] [--keep FILE]
    python benchmarks/import_speed.py --trace MB [--keep FILE]

The goals are 100,000 kernels of a report in under 20 s and 1 GB, and a trace of 500 MB in under 60 s and 2 GB. By default each
kernel is a row of the raw page with the metrics that `ridgeline profile` asks for; `--wide` adds empty columns up to the width of
a full report, `--details` writes the details page. A trace repeats a recorded training step, with the Python frames that
`with_stack` adds, and is read as a timeline.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ridgeline.profilers import load as observe

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"
FULL = 1500  # columns of a report with all sections
FRAMES = 7  # frames of libraries around an operator, as in recorded training steps
FRAME = "torch/nn/modules/module.py(1518): _call_impl"


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


def step_events(events: list[dict[str, Any]], turn: int, length: float) -> Iterator[dict[str, Any]]:
    """A recorded step once more: later, and with identifiers of its own."""
    for event in events:
        args = dict(event.get("args", {}))
        for key in ("External id", "correlation"):
            if args.get(key):
                args[key] += turn * 10_000_000
        moved = {**event, "args": args, "ts": round(event["ts"] + turn * length, 3)}
        if "id" in event:
            moved["id"] = event["id"] + turn * 10_000_000
        yield moved
        if event.get("cat") == "cpu_op":
            for depth in range(1, FRAMES + 1):
                place = {"ts": moved["ts"] + depth * 1e-3, "dur": max(event["dur"] - depth * 2e-3, 0.0)}
                ids = {"Python parent id": depth, "Python id": turn, "Ev Idx": turn}
                yield {**event, **place, "cat": "python_function", "name": FRAME, "args": ids}


def write_trace(path: Path, size: float) -> None:
    recorded = json.loads(gzip.decompress((FIXTURES / "torch" / "h200_resnet.json.gz").read_bytes()))
    events = recorded.pop("traceEvents")
    spans = [event for event in events if "dur" in event and event.get("cat") != "python_function"]
    length = max(event["ts"] + event["dur"] for event in spans) - min(event["ts"] for event in spans) + 100
    events = [event for event in events if event.get("dur", 0.0) < length]  # not the frames around all steps
    with path.open("w", encoding="utf-8") as out:
        out.write(json.dumps(recorded)[:-1] + ', "traceEvents": [')
        turn = written = 0
        while written < size:
            for event in step_events(events, turn, length):
                written += out.write(("" if not written else ",\n") + json.dumps(event))
            turn += 1
        out.write("]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="?", type=int, default=100_000)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--details", action="store_true")
    parser.add_argument("--trace", type=float, metavar="MB")
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = chosen.keep or Path(folder) / ("large.json" if chosen.trace else "large.csv")
        if chosen.trace:
            write_trace(path, chosen.trace * 1e6)
        else:
            source = FIXTURES / "ncu" / ("h200_details.csv" if chosen.details else "h200_ranges.csv")
            extra = ',"0"' * FULL if chosen.wide else ""
            with path.open("w", encoding="utf-8") as out:
                out.writelines(line + "\n" for line in rows(source, chosen.kernels, extra))
        size = path.stat().st_size / 1e6
        start, start_cpu = time.perf_counter(), time.process_time()
        if chosen.trace:
            line = observe.timeline(path)
            count, what = len(line.runs), f"kernels in {len(line.steps) + line.steps.warmup} steps"
        else:
            count, what = len(observe.load(path)), "kernels"
            assert count == chosen.kernels
        taken, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{count:,} {what}, {size:,.0f} MB: {taken:.1f} s ({cpu:.1f} s of CPU), {taken / count * 1e6:.0f} us each, {most:,.0f} MiB at most"
    )


if __name__ == "__main__":
    main()
