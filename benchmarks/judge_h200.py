"""Judge the H200's expected times on timings that were never fitted to, group by group.

    python benchmarks/judge_h200.py              every group of the held-out shapes, then the layers, the projections and newer convolutions
    python benchmarks/judge_h200.py attention    only the cases of these ops

A group is an op with its backend, its class of dtype, its layout and, for attention, prefill or decode. Goals: median
error 8 % and P90 25 % (matrix products 4.5 % and 14 %, all cases together 5 % and 18 %), and 75 to 85 % of the cases
inside the 80 % interval in groups and in families of 50 or more. What misses a goal is marked.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ridgeline.core.statistics import Errors
from ridgeline.machines import load as machines
from ridgeline.prediction.table import Defaults, run
from ridgeline.programs.cases import KNOWN, checked

DATA = Path(__file__).with_name("data")
HELD_OUT = (
    "h200-test.csv",
    "h200-further-test.csv",
    "h200-smooth-test.csv.gz",
    "h200-training-test.csv.gz",
    "h200-programs-test.csv.gz",
    "h200-random-test.csv.gz",
)
OTHER_SETS = (
    "h200-unseen-test.csv.gz",
    "h200-typical-test.csv.gz",
    "h200-usualops-test.csv.gz",
    "h200-fresh-test.csv.gz",
    "h200-walks-test.csv.gz",
    "h200-rows-test.csv.gz",
    "h200-windows-test.csv.gz",
    "h200-layers.csv",
    "h200-projections.csv",
    "h200-convolutions-test.csv.gz",
    "h200-convolutions3-test.csv.gz",
    "h200-usual-test.csv.gz",
    "h200-usual2-test.csv.gz",
    "h200-popularlayers-test.csv.gz",
    "h200-networks-test.csv.gz",
    "h200-networks-last-test.csv.gz",
    "h200-networks-new-test.csv.gz",
    "h200-networks-fresh-test.csv.gz",
    "h200-products-test.csv.gz",
    "h200-products3-test.csv.gz",
    "h200-products4-test.csv.gz",
    "h200-popular-test.csv.gz",
    "h200-batched-test.csv.gz",
    "h200-narrow-test.csv.gz",
    "h200-tiny-test.csv.gz",
    "h200-smallproducts-test.csv.gz",
    "h200-smalllayers-test.csv.gz",
    "h200-edges-test.csv.gz",
    "h200-formats-test.csv.gz",
    "h200-smallbackends-test.csv.gz",
)
PRODUCTS = ("gemm", "bmm", "linear")
GOALS = {"all": (0.05, 0.18), "products": (0.045, 0.14), "other": (0.08, 0.25)}  # median error, P90
ANY = (np.inf, np.inf)  # of families, of which only the share inside the interval is asked
INSIDE = (0.75, 0.85)
LENGTHS = (2.5, 50.0)  # us, between short, medium and long kernels
MIN_COUNT = 50  # cases from which the share inside the interval says something
MIN_JUDGED = 12  # cases from which a P90 does
HALVES = ("bf16", "fp16")

Row = Mapping[str, Any]


def rows(path: Path) -> list[dict[str, Any]]:
    """Cases of a table, without their empty cells."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [
        {name: value for name, value in row.items() if value != ""}
        for row in csv.DictReader(text.decode().splitlines())
    ]


def group_of(row: Row) -> str:
    """The group a case is judged in."""
    op, parts = str(row["op"]), []
    if op == "attention":
        parts.append("decode" if float(row["seq_q"]) == 1 else "window" if row.get("window") else "prefill")
    if op in PRODUCTS:
        parts.append(row.get("weights") or ("16 bit" if row["dtype"] in HALVES else row["dtype"]))
    if op.startswith(("conv", "max_pool")):
        parts.append(row.get("layout") or "nchw")
    if op.startswith("conv"):
        parts.append("16 bit" if row["dtype"] in HALVES else row["dtype"])
    if op == "adamw":
        parts.append(row["variant"])
    backend = f" @{row['backend']}" if row.get("backend") else ""
    return " ".join((op, *parts)) + backend


def predicted(cases: Iterable[Row]) -> list[dict[str, Any]]:
    """The cases with `time_us`, `low_us`, `high_us` predicted and `given_time_us` measured."""
    defaults = Defaults(machines.load("h200-sxm"), machines.load, {}, {"ceilings": "stated"})
    results, wrong = run(cases, defaults)
    for text in list(wrong.values())[:5]:
        print(f"not judged: {text}", file=sys.stderr)
    return [row for row in results if not row["error"]]


def line(name: str, cases: list[dict[str, Any]], goal: tuple[float, float]) -> str:
    measured = np.array([float(row["given_time_us"]) for row in cases])
    time, low, high = (np.array([row[f"{end}_us"] for row in cases]) for end in ("time", "low", "high"))
    errors, inside = Errors.of(time, measured), float(np.mean((low <= measured) & (measured <= high)))
    missed = [
        *(["median"] if errors.median > goal[0] else []),
        *(["P90"] if errors.p90 > goal[1] and len(cases) >= MIN_JUDGED else []),
        *(["interval"] if len(cases) >= MIN_COUNT and not INSIDE[0] <= inside <= INSIDE[1] else []),
    ]
    marks = f"  misses {', '.join(missed)}" if missed else ""
    numbers = f"{errors.median:7.1%} {errors.p90:7.1%} {errors.signed:+7.1%} {inside:6.0%} {len(cases):6d}"
    return f"{name:44s} {numbers}{marks}"


def families_of(results: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Cases by the family whose formula gives their time."""
    found: dict[str, list[dict[str, Any]]] = {}
    asked = [{name: value for name, value in row.items() if name in KNOWN - {"time_us"}} for row in results]
    for row, (op, arguments) in zip(results, checked(asked), strict=True):
        kernels = op(**arguments).kernels
        found.setdefault(kernels[0].family if kernels else "elementwise, sums", []).append(row)
    return found


def by_length(results: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Cases by how long they are predicted to take, without products and convolutions."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in results:
        if row["op"] not in PRODUCTS and not row["op"].startswith("conv"):
            place = int(np.searchsorted(LENGTHS, row["time_us"], side="right"))
            found.setdefault(f"others {('below 2.5 us', '2.5 us to 50 us', 'from 50 us')[place]}", []).append(row)
    return dict(sorted(found.items(), key=lambda item: float(np.mean([row["time_us"] for row in item[1]]))))


def judge(name: str, cases: list[dict[str, Any]]) -> None:
    results = predicted(cases)
    if not results:
        return
    print(f"\n{name:44s} {'median':>7s} {'P90':>7s} {'signed':>7s} {'inside':>6s} {'cases':>6s}")
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in results:
        groups.setdefault(group_of(row), []).append(row)
    for group in sorted(groups):
        plain = group.split()[0] in PRODUCTS and "@" not in group and "int" not in group
        print(line(group, groups[group], GOALS["products" if plain else "other"]))
    products = [row for row in results if row["op"] in ("gemm", "bmm") and not row.get("backend")]
    if products:
        print(line("matrix products, default path", products, GOALS["products"]))
    for family, alike in sorted(families_of(results).items()):
        if len(alike) >= MIN_COUNT:
            print(line(f"family {family}", alike, ANY))
    for name, alike in by_length(results).items():
        if len(alike) >= MIN_COUNT:
            print(line(name, alike, ANY))
    print(line("all cases", results, GOALS["all"]))


def main() -> None:
    wanted = set(sys.argv[1:])

    def cases(names: Iterable[str]) -> list[dict[str, Any]]:
        every = [row for name in names for row in rows(DATA / name) if "time_us" in row]  # what no kernel runs has none
        return [row for row in every if not wanted or row["op"] in wanted]

    judge("held-out shapes", cases(HELD_OUT))
    for name in OTHER_SETS:
        judge(name, cases([name]))


if __name__ == "__main__":
    main()
