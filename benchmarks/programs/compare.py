"""Predicted against recorded: device and wall time of the programs of `models.py` on an H200.

    python benchmarks/programs/compare.py [--record FILE] [--on MACHINE] [--only "gpt2 train,vit train"] [--mode eager|compiled]

Every program is traced on the meta device, without a GPU, and predicted as it was recorded: eager, or compiled (`fused`). A
compiled program is traced as the compiler sees it: libraries ask whether they are being compiled, and then do other things
(transformers passes attention masks that it leaves out otherwise).
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from models import CASES

import ridgeline as rl
from ridgeline.core.trace import Trace

RECORD = Path(__file__).with_name("h200.json")
MODES = {"eager": "eager", "compiled": "fused"}
HOST_BOUND_FROM = 1.1  # wall time over device time, from which a step is called host-bound


def traced(case: str, mode: str) -> Trace:
    step, args = CASES[case]("meta")
    return rl.trace(step, *args, compiled=mode == "compiled", name=case)


def row(record: dict[str, Any], machine: str) -> dict[str, Any]:
    """One case: recorded, predicted, and the errors."""
    prediction = rl.predict(traced(record["case"], record["mode"]), machine, mode=MODES[record["mode"]])
    device, wall = record["device_us"] / 1e6, record["wall_us"] / 1e6
    return {
        "case": record["case"],
        "mode": record["mode"],
        "device": device,
        "predicted": prediction.time,
        "inside": prediction.low <= device <= prediction.high,
        "error": prediction.time / device - 1,
        "wall": wall,
        "predicted_wall": prediction.wall,
        "wall_error": prediction.wall / wall - 1,
        "regime": "host" if wall > HOST_BOUND_FROM * device else "device",
        "predicted_regime": "host" if prediction.wall > HOST_BOUND_FROM * prediction.time else "device",
        "memory": record["peak_memory"],
        "predicted_memory": prediction.peak_memory,
    }


def line(item: dict[str, Any]) -> str:
    return (
        f"| {item['case']} | {item['mode']} | {1e3 * item['device']:.2f} | {1e3 * item['predicted']:.2f} | {100 * item['error']:+.0f} % "
        f"| {1e3 * item['wall']:.2f} | {1e3 * item['predicted_wall']:.2f} | {100 * item['wall_error']:+.0f} % "
        f"| {item['regime']} | {item['predicted_regime']} | {item['memory'] / 1e9:.2f} | {item['predicted_memory'] / 1e9:.2f} |"
    )


def summary(rows: list[dict[str, Any]], mode: str) -> str:
    errors, walls = ([abs(item[name]) for item in rows] for name in ("error", "wall_error"))
    right = sum(item["regime"] == item["predicted_regime"] for item in rows)
    return (
        f"{mode}: {len(rows)} programs, device time {100 * statistics.median(errors):.1f} % median error, "
        f"{100 * max(errors):.0f} % worst; wall time {100 * statistics.median(walls):.1f} % median error, {100 * max(walls):.0f} % "
        f"worst; regime right in {right}; device time inside the 80 % interval in {sum(item['inside'] for item in rows)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--on", default="h200-sxm")
    parser.add_argument("--only", default="")
    parser.add_argument("--mode", choices=tuple(MODES), default=None)
    given = parser.parse_args()
    wanted = [name.strip() for name in given.only.split(",") if name.strip()]
    records = [
        record
        for record in json.loads(given.record.read_text(encoding="utf-8"))["programs"]
        if (not wanted or record["case"] in wanted) and given.mode in (None, record["mode"])
    ]
    print(
        "| program | mode | device ms | predicted | error | wall ms | predicted | error | regime | predicted | peak GB | predicted |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|---|---|--:|--:|")
    rows = []
    for record in records:
        rows.append(row(record, given.on))
        print(line(rows[-1]), flush=True)
    for mode in MODES:
        if listed := [item for item in rows if item["mode"] == mode]:
            print(summary(listed, mode))


if __name__ == "__main__":
    main()
