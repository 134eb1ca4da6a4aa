"""Predicted against recorded: device and wall time of programs on an H200.

    python benchmarks/programs/compare.py [--record FILE] [--on MACHINE] [--only "gpt2 train,vit train"] [--mode eager|compiled]
    python benchmarks/programs/compare.py --seal held_out_2 --out FILE     the predictions of a set, before it is recorded
    python benchmarks/programs/compare.py --record FILE --sealed FILE      those predictions against the record

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

from sets import SETS, cases

import ridgeline as rl
from ridgeline.core.trace import Trace

RECORD = Path(__file__).with_name("h200.json")
MODES = {"eager": "eager", "compiled": "fused"}
HOST_BOUND_FROM = 1.1  # wall time over device time, from which a step is called host-bound


def traced(case: str, mode: str) -> Trace:
    step, args = cases(*SETS)[case]("meta")
    return rl.trace(step, *args, compiled=mode == "compiled", name=case)


def predicted(case: str, mode: str, machine: str) -> dict[str, Any]:
    """What is predicted of one case: times in us, memory in bytes."""
    totals = rl.predict(traced(case, mode), machine, mode=MODES[mode]).totals
    kept = ("time_us", "low_us", "high_us", "wall_us", "wall_low_us", "wall_high_us", "kernels", "peak_memory")
    return {"case": case, "mode": mode, **{name: round(totals[name], 1) for name in kept}}


def row(record: dict[str, Any], prediction: dict[str, Any]) -> dict[str, Any]:
    """One case: recorded, predicted, and the errors."""
    device, wall = record["device_us"], record["wall_us"]
    time, predicted_wall = prediction["time_us"], prediction["wall_us"]
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
        "regime": "host" if wall > HOST_BOUND_FROM * device else "device",
        "predicted_regime": "host" if predicted_wall > HOST_BOUND_FROM * time else "device",
        "memory": record["peak_memory"],
        "predicted_memory": prediction["peak_memory"],
    }


def seal(name: str, machine: str, wanted: list[str], mode: str, out: Path) -> None:
    """Write what is predicted of the programs of a set."""
    rows = [predicted(case, mode, machine) for case in wanted or cases(name)]
    made = json.loads(out.read_text(encoding="utf-8"))["programs"] if out.exists() else []
    lines = ",\n".join("  " + json.dumps(item) for item in [*made, *rows])
    text = f'{{\n "machine": {json.dumps(machine)},\n "version": {json.dumps(rl.__version__)},\n "programs": [\n{lines}\n ]\n}}\n'
    out.write_text(text, encoding="utf-8")


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
    parser.add_argument("--seal", choices=SETS, default=None)
    parser.add_argument("--out", type=Path, default=Path("sealed.json"))
    parser.add_argument("--sealed", type=Path, default=None)
    given = parser.parse_args()
    wanted = [name.strip() for name in given.only.split(",") if name.strip()]
    if given.seal:
        seal(given.seal, given.on, wanted, given.mode or "eager", given.out)
        return
    records = [
        record
        for record in json.loads(given.record.read_text(encoding="utf-8"))["programs"]
        if (not wanted or record["case"] in wanted) and given.mode in (None, record["mode"])
    ]
    sealed = json.loads(given.sealed.read_text(encoding="utf-8"))["programs"] if given.sealed else []
    kept = {(item["case"], item["mode"]): item for item in sealed}
    print(
        "| program | mode | device ms | predicted | error | wall ms | predicted | error | regime | predicted | peak GB | predicted |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|---|---|--:|--:|")
    rows = []
    for record in records:
        case, mode = record["case"], record["mode"]
        rows.append(row(record, kept[case, mode] if given.sealed else predicted(case, mode, given.on)))
        print(line(rows[-1]), flush=True)
    for mode in MODES:
        if listed := [item for item in rows if item["mode"] == mode]:
            print(summary(listed, mode))


if __name__ == "__main__":
    main()
