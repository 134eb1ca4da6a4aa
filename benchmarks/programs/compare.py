"""Predicted against recorded: device and wall time of programs on an H200.

    python benchmarks/programs/compare.py [--record FILE ...] [--on MACHINE] [--only "gpt2 train,vit train"] [--mode eager|compiled]
    python benchmarks/programs/compare.py --seal held_out_2 --out FILE     the predictions of a set, before it is recorded
    python benchmarks/programs/compare.py --record FILE --sealed FILE      those predictions against the record

A record that has the calls of its host (`call_us`) is predicted with them, others with the default of usual hosts. For those, the last
line gives the wall times that follow from the speed of the host which the other programs of the record imply (each left out in turn).

Every program is traced on the meta device, without a GPU, and predicted as it was recorded: eager, or compiled (`fused`). A
compiled program is traced as the compiler sees it: libraries ask whether they are being compiled, and then do other things
(transformers passes attention masks that it leaves out otherwise).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from sets import SETS, cases

import ridgeline as rl
from ridgeline.core.figure import Figure
from ridgeline.core.machine import Machine
from ridgeline.core.trace import Trace
from ridgeline.prediction.queue import Queue, regime_of
from ridgeline.prediction.traced import ProgramPrediction
from ridgeline.prediction.traced.intervals import MIN_CONFIDENCE

RECORD = Path(__file__).with_name("h200.json")
MODES = {"eager": "eager", "compiled": "fused"}
AROUND = 0.1  # half the width of the interval of calls that were timed around every round of a program
CALLS = {"eager_call": "block", "backward_call": "backward"}  # figures of a machine, and the calls they are timed by
KEPT = ("time_us", "low_us", "high_us", "wall_us", "wall_low_us", "wall_high_us", "kernels", "peak_memory")


@cache
def traced(case: str, mode: str) -> Trace:
    step, args = cases(*SETS)[case]("meta")
    return rl.trace(step, *args, compiled=mode == "compiled", name=case)


def on_host(machine: Machine, record: dict[str, Any]) -> Machine:
    """The machine with the host that a program was recorded on, as far as the record knows it."""
    calls = record.get("call_us", {})
    known = {
        figure: Figure("s", measured=calls[name] / 1e6, spread=AROUND)
        for figure, name in CALLS.items()
        if name in calls
    }
    return replace(machine, **known)


def predicted(case: str, mode: str, machine: Machine) -> ProgramPrediction:
    made: ProgramPrediction = rl.predict(traced(case, mode), machine, mode=MODES[mode])
    return made


def kept(made: ProgramPrediction) -> dict[str, Any]:
    """What is kept of a prediction: times in us, memory in bytes, the regime and the confidence in it."""
    regime = {"regime": made.regime, "confidence": round(made.regime_confidence, 3)}
    return {**{name: round(made.totals[name], 1) for name in KEPT}, **regime}


def row(record: dict[str, Any], prediction: dict[str, Any]) -> dict[str, Any]:
    """One case: recorded, predicted, and the errors. Of sealed predictions the first had no regime."""
    device, wall = record["device_us"], record["wall_us"]
    time, predicted_wall = prediction["time_us"], prediction["wall_us"]
    regime = prediction.get("regime") or regime_of(predicted_wall, time)
    return {
        "case": record["case"],
        "mode": record["mode"],
        "device": device / 1e6,
        "predicted": time / 1e6,
        "inside": prediction["low_us"] <= device <= prediction["high_us"],
        "error": time / device - 1,
        "wall": wall / 1e6,
        "predicted_wall": predicted_wall / 1e6,
        "wall_error": predicted_wall / wall - 1,
        "wall_inside": prediction["wall_low_us"] <= wall <= prediction["wall_high_us"],
        "regime": regime_of(wall, device).removesuffix("-bound"),
        "predicted_regime": regime.removesuffix("-bound"),
        "confidence": prediction.get("confidence"),
        "memory": record["peak_memory"],
        "predicted_memory": prediction["peak_memory"],
    }


def seal(name: str, machine: str, wanted: list[str], mode: str, out: Path) -> None:
    """Write what is predicted of the programs of a set, one after the other."""
    on = rl.machine(machine)
    made = json.loads(out.read_text(encoding="utf-8"))["programs"] if out.exists() else []
    for case in wanted or cases(name):
        made.append({"case": case, "mode": mode, **kept(predicted(case, mode, on))})
        lines = ",\n".join("  " + json.dumps(item) for item in made)
        text = f'{{\n "machine": {json.dumps(machine)},\n "version": {json.dumps(rl.__version__)},\n "programs": [\n{lines}\n ]\n}}\n'
        out.write_text(text, encoding="utf-8")


def line(item: dict[str, Any]) -> str:
    sure = "" if item["confidence"] is None else f", {100 * item['confidence']:.0f} %"
    return (
        f"| {item['case']} | {item['mode']} | {1e3 * item['device']:.2f} | {1e3 * item['predicted']:.2f} | {100 * item['error']:+.0f} % "
        f"| {1e3 * item['wall']:.2f} | {1e3 * item['predicted_wall']:.2f} | {100 * item['wall_error']:+.0f} % "
        f"| {item['regime']} | {item['predicted_regime']}{sure} | {item['memory'] / 1e9:.2f} | {item['predicted_memory'] / 1e9:.2f} |"
    )


def summary(rows: list[dict[str, Any]], mode: str) -> str:
    errors, walls = ([abs(item[name]) for item in rows] for name in ("error", "wall_error"))
    right = [item["regime"] == item["predicted_regime"] for item in rows]
    clear = [hit for hit, item in zip(right, rows, strict=True) if (item["confidence"] or 1.0) >= MIN_CONFIDENCE]
    return (
        f"{mode}: {len(rows)} programs, device time {100 * statistics.median(errors):.1f} % median error, "
        f"{100 * max(errors):.0f} % worst; wall time {100 * statistics.median(walls):.1f} % median error, {100 * max(walls):.0f} % "
        f"worst; regime right in {sum(right)}, of the {len(clear)} that are not balanced in {sum(clear)}; inside the 80 % interval: device time in {sum(item['inside'] for item in rows)}, wall time in "
        f"{sum(item['wall_inside'] for item in rows)}"
    )


def implied_host(queue: Queue, wall: float) -> float:
    """The multiple of the host times with which a step takes as long as recorded."""
    low, high = 0.1, 10.0
    for _ in range(20):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if queue.faster(host=middle).wall() < wall else (low, middle)
    return math.sqrt(low * high)


def left_out(recorded: list[tuple[float, Queue]]) -> str:
    """Wall times of host-bound programs, with the median speed of the host that the others among them imply."""
    speeds = [implied_host(queue, wall) for wall, queue in recorded]
    errors = []
    for place, (wall, queue) in enumerate(recorded):
        speed = statistics.median(speeds[:place] + speeds[place + 1 :])
        errors.append(abs(queue.faster(host=speed).wall() / wall - 1))
    return (
        f"{len(recorded)} host-bound programs with the host times that the others imply (median {statistics.median(speeds):.2f} of the default, "
        f"{min(speeds):.2f} to {max(speeds):.2f}): wall time {100 * statistics.median(errors):.1f} % median error, {100 * max(errors):.0f} % worst"
    )


def compared(records: list[dict[str, Any]], machine: Machine, sealed: dict[tuple[str, str], dict[str, Any]]) -> None:
    """The table of a record and what it says."""
    print(
        "| program | mode | device ms | predicted | error | wall ms | predicted | error | regime | predicted (confidence) | peak GB | predicted |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|---|---|--:|--:|")
    rows, unknown_host = [], []
    for record in records:
        case, mode = record["case"], record["mode"]
        made = None if sealed else predicted(case, mode, on_host(machine, record))
        rows.append(row(record, sealed[case, mode] if made is None else kept(made)))
        print(line(rows[-1]), flush=True)
        if made is not None and mode == "eager" and rows[-1]["regime"] == "host" and "call_us" not in record:
            unknown_host.append((rows[-1]["wall"], made.queue))
    for mode in MODES:
        if listed := [item for item in rows if item["mode"] == mode]:
            print(summary(listed, mode))
    if len(unknown_host) > 1:
        print(left_out(unknown_host))


def recorded(path: Path) -> list[dict[str, Any]]:
    """The programs of a record, or of the lines that `together.py` writes; without those that failed."""
    text = path.read_text(encoding="utf-8")
    lines = path.suffix == ".jsonl"
    rows = [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)["programs"]
    for row in rows:
        if "failed" in row:
            print(f"{row['case']} ({row['mode']}) failed: {row['failed']}")
    return [row for row in rows if "failed" not in row]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, nargs="+", default=[RECORD])
    parser.add_argument("--on", default="h200-sxm")
    parser.add_argument("--only", default="")
    parser.add_argument("--mode", choices=tuple(MODES), default=None)
    parser.add_argument("--seal", choices=SETS, default=None)
    parser.add_argument("--out", type=Path, default=Path("sealed.json"))
    parser.add_argument("--sealed", type=Path, default=None)
    given = parser.parse_args()
    wanted = [name.strip() for name in given.only.split(",") if name.strip()]
    if given.seal:
        seal(given.seal, given.on, wanted, given.mode or "eager", given.out)
        return
    made = json.loads(given.sealed.read_text(encoding="utf-8"))["programs"] if given.sealed else []
    sealed = {(item["case"], item["mode"]): item for item in made}
    for path in given.record:
        print(path.name)
        records = recorded(path)
        chosen = [
            record
            for record in records
            if (not wanted or record["case"] in wanted) and given.mode in (None, record["mode"])
        ]
        compared(chosen, rl.machine(given.on), sealed)


if __name__ == "__main__":
    main()
