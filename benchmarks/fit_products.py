"""Fit trees to the H200's matrix products, from timings of some and from the kernels that the library takes for many more.

    python benchmarks/fit_products.py FOLDER     bring src/ridgeline/machines/catalog/fitted/h200-sxm.json up to date
    python benchmarks/fit_products.py --lows     only step 5, for the trees that are there

FOLDER holds what `benchmarks/library_kernels.py` wrote on an H200; trees of an op and format whose `drawn-*.npz` is not there stay.
Needs LightGBM (`pip install lightgbm`); takes half an hour of two cores.

1. Boosted trees learn the time of a product over that of its formula, from its sizes and the kernels that ran: 11 timings of 12.
2. They say what the products took, whose kernels are known and which were never timed.
3. One tree for each kernel of the formulas is grown to that and to the timings, with sizes alone, and kept
   (`core/families/tree.py`).
4. The twelfth timing gives errors and intervals; then trees are grown to all timings.
5. Where a larger product is expected to take less by more than the interval is wide, the interval is made to reach down to it.

Run it after `fit_h200.py`, which leaves these kernels as they are: their coefficients stay, corrections and intervals change.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import teachers
from fit_h200 import CALIBRATIONS, SOURCE
from judge_h200 import DATA, rows
from numpy.typing import NDArray
from teachers import MAX_LOG, Teacher

from ridgeline.core.families import Key, nearby
from ridgeline.core.families.coordinates import OF_PRODUCTS, coordinate
from ridgeline.core.families.tree import LEAF, MAX_VALUE, PER_UNIT, PLAIN, Nodes, Tree
from ridgeline.core.fitted import Fitted
from ridgeline.core.machine import Machine
from ridgeline.core.statistics import Errors
from ridgeline.machines import coefficients
from ridgeline.machines import load as machines
from ridgeline.prediction.coefficients import CALIBRATED
from ridgeline.prediction.fit.families import rounded
from ridgeline.prediction.fit.intervals import ends
from ridgeline.prediction.kernel_times import Asked, KernelTime, of_kernel
from ridgeline.programs.ops import OPS

CHOICES_SOURCE = SOURCE.replace(" by ridgeline (", " by ridgeline, with the kernels that the library takes (")
TIMINGS = (*CALIBRATIONS, "h200-products2-calibration.csv.gz")
NAMES = (*PLAIN, *OF_PRODUCTS)
FORMATS = ("bf16", "fp16", "fp32", "tf32", "fp64", "int8", "fp8_e4m3")
PARTS = ("memsets", "kernels", "kernel", "x", "y", "z", "second")  # of a call, as the library makes it
TILE = re.compile(r"tilesize(\d+)x(\d+)x|_(\d+)x(\d+)_\d+x\d+|gemm_(?:bf16_|f16_)?(\d+)x(\d+)")
CATEGORIES = ("kernel", "second")  # parts that are names
CORES = 132
USUAL_TILES = (
    *((256, 128), (128, 256), (192, 128), (128, 192), (128, 128), (64, 256), (256, 64), (128, 64), (64, 128)),
    *((64, 64), (64, 32), (32, 64), (32, 32)),
)
BETWEEN_DAYS = 0.03  # added to an interval in quadrature: products of another day lay outside too often, see docs/understand/expected.md
HELD = 12  # every so many timings are kept from the fit, for errors and intervals
MIN_NAMED = 30  # timings of a kernel whose name counts
# parameters and rounds
TEACHERS = (
    ({"objective": "l1", "learning_rate": 0.08, "num_leaves": 127, "min_data_in_leaf": 10, "cat_smooth": 20}, 700),
    ({"objective": "l2", "learning_rate": 0.06, "num_leaves": 127, "min_data_in_leaf": 8, "cat_smooth": 20}, 700),
)
GROWN = {
    "objective": "l2",
    "learning_rate": 1.0,
    "min_data_in_leaf": 5,
    "max_bin": 1023,
    "verbose": -1,
    "num_threads": 2,
}
CASES_PER_LEAF, MAX_LEAVES = 15, 32000
MIN_CASES, MIN_TIMINGS = 400, 60  # of a kernel that gets a tree
GROWTHS = 60  # times that products are drawn and held to larger ones
DRAWN, MAX_OCTAVES, DRAWN_STEPS = 100_000, 15, (1, 1, 8, 64, 256, 256)  # products at a time, their sides and alignments
ALIGNMENT = 256  # growing by multiples of it keeps every alignment

Vector = NDArray[np.float64]


@dataclass
class Calls:
    """Products of one op and format: sizes, the kernels that the library takes, and times."""

    op: str
    dtype: str
    sizes: dict[str, Vector]
    parts: dict[str, Vector]
    time: Vector  # as measured; 0 where it was not

    def __len__(self) -> int:
        return len(self.sizes["m"])


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def product(op: str, dtype: str, sizes: dict[str, Vector]) -> Any:
    given = {name: sizes[name] for name in "mnk"} | ({"batch": sizes["b"]} if op == "bmm" else {})
    return OPS[op](**given, dtype=dtype)


def known_calls(
    path: Path, op: str, dtype: str, codes: dict[str, int], timed: dict[tuple[int, ...], float] | None = None
) -> Calls:
    """Calls whose kernels are in a file; with `timed`, those of them that were. `codes` numbers the names of kernels the same way in
    all files, each of which numbers its own."""
    file = np.load(path)
    columns = {name: file[name].astype(np.float64) for name in ("b", "m", "n", "k", *PARTS)}
    tiles = np.array([[float(side) for side in _tile(str(name))] for name in file["names"]] + [[0.0, 0.0]])
    kernel = np.minimum(columns["kernel"], len(tiles) - 1).astype(int)
    columns["tile_n"], columns["tile_m"] = tiles[kernel].T
    numbers = np.array([codes.setdefault(str(name), len(codes) + 1) for name in file["names"]] + [0.0])
    for name in CATEGORIES:
        columns[name] = numbers[np.minimum(columns[name], len(numbers) - 1).astype(int)]
    time = np.zeros(len(kernel))
    if timed is not None:
        sizes = zip(*(columns[name].astype(int) for name in "bmnk"), strict=True)
        time = np.array([timed.get(case, 0.0) for case in sizes])
    kept = time > 0 if timed is not None else np.ones(len(kernel), dtype=bool)
    sizes = {name: columns[name][kept] for name in "bmnk"}
    return Calls(op, dtype, sizes, {name: columns[name][kept] for name in (*PARTS, "tile_m", "tile_n")}, time[kept])


def renumber(timed: list[Calls], others: list[Calls]) -> None:
    """Number the kernels that many timings have one after the other, and all others 0: boosted trees take rare numbers for one thing
    while they learn, and for another when they are asked."""
    for name in CATEGORIES:
        numbers, counts = np.unique(np.concatenate([each.parts[name] for each in timed]), return_counts=True)
        kept = numbers[counts >= MIN_NAMED]
        for each in (*timed, *others):
            place = np.minimum(np.searchsorted(kept, each.parts[name]), len(kept) - 1)
            each.parts[name] = np.where(kept[place] == each.parts[name], place + 1.0, 0.0)


def _tile(name: str) -> tuple[str, str]:
    match = TILE.search(name)
    sides = [side for side in match.groups() if side] if match else ["0", "0"]
    return sides[0], sides[1]


def timings() -> dict[tuple[str, str], dict[tuple[int, ...], float]]:
    """Microseconds of every product of the default path that was timed, by op and format; the median where it was several times."""
    every: dict[tuple[str, str], dict[tuple[int, ...], list[float]]] = {}
    for name in TIMINGS:
        for row in rows(DATA / name):
            if row["op"] in ("gemm", "bmm") and "time_us" in row and not ({"backend", "weights"} & set(row)):
                case = tuple(int(float(row.get(size, 1))) for size in ("batch", "m", "n", "k"))
                every.setdefault((row["op"], row["dtype"]), {}).setdefault(case, []).append(float(row["time_us"]))
    return {
        of: {case: float(np.median(times)) for case, times in cases.items()}
        for of, cases in every.items()
        if of[1] in FORMATS
    }


def kernels_of(calls: Calls, machine: Machine) -> Iterator[tuple[KernelTime, NDArray[np.bool_]]]:
    """The kernels of the formulas that these calls have, and which of them."""
    (kernel,) = product(calls.op, calls.dtype, calls.sizes).kernels
    times, _ = of_kernel(kernel, Asked(machine))
    for time in times:
        yield time, np.broadcast_to(np.asarray(time.applies) > 0, len(calls))


def formula(calls: Calls, machine: Machine) -> Vector:
    """Seconds by the formulas alone."""
    seconds = np.zeros(len(calls))
    for time, mask in kernels_of(calls, machine):
        seconds[mask] = np.broadcast_to(time._formula, int(mask.sum()))
    return seconds


def coordinates(sizes: dict[str, Vector]) -> Vector:
    """A column for each coordinate."""
    return np.stack([np.broadcast_to(coordinate(sizes, name), sizes["m"].shape) for name in NAMES], axis=1)


def features(calls: Calls, base: Vector) -> Vector:
    """What the time is learnt from: sizes, and the kernels with their tiles and blocks."""
    parts, sizes = calls.parts, calls.sizes
    rows_, columns = (np.maximum(parts[name], 1.0) for name in ("tile_m", "tile_n"))
    tiles = sizes["b"] * np.ceil(sizes["m"] / rows_) * np.ceil(sizes["n"] / columns)
    blocks, waves = parts["x"] * parts["y"] * parts["z"], tiles / CORES
    padded = tiles * rows_ * columns / (sizes["b"] * sizes["m"] * sizes["n"])
    derived = [
        tiles,
        np.ceil(waves) / waves,
        padded,
        blocks / tiles,
        np.ceil(waves) * sizes["k"] * rows_ * columns,
        blocks,
    ]
    for (
        tm,
        tn,
    ) in USUAL_TILES:  # of kernels whose names do not tell their tile, or of which a core runs several blocks at once
        waves = sizes["b"] * np.ceil(sizes["m"] / tm) * np.ceil(sizes["n"] / tn) / CORES
        derived += [waves, np.ceil(waves) / waves]
    derived += [np.ceil(sizes[name] / side) * side / sizes[name] for name in "mn" for side in (64, 128)]
    codes = [np.full(len(calls), float(code)) for code in (FORMATS.index(calls.dtype), calls.op == "bmm")]
    categories = [*codes, *(parts[name] for name in CATEGORIES)]
    others = [parts[name] for name in (*PARTS, "tile_m", "tile_n") if name not in CATEGORIES]
    return np.column_stack([*categories, coordinates(sizes), base, *derived, *others])


def grown(x: Vector, y: Vector) -> Tree:
    """One tree of these coordinates and logarithms."""
    import lightgbm

    leaves = int(min(max(len(y) // CASES_PER_LEAF, 8), MAX_LEAVES))
    made = lightgbm.train({**GROWN, "num_leaves": leaves}, lightgbm.Dataset(x, y), 1)
    (told,) = made.dump_model()["tree_info"]
    nodes = nodes_of(told["tree_structure"])
    kept = np.clip(nodes.values, -MAX_VALUE, MAX_VALUE)
    return Tree(nodes.coordinates, nodes.thresholds, kept, names=NAMES, lows=kept.copy())


def nodes_of(root: dict[str, Any]) -> Nodes:
    """A tree as LightGBM tells it."""
    names: list[int] = []
    thresholds: list[float] = []
    values: list[float] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        leaf = "split_feature" not in node
        names.append(LEAF if leaf else node["split_feature"])
        thresholds.append(0.0 if leaf else node["threshold"])
        values.append(round(PER_UNIT * node["leaf_value"]) / PER_UNIT if leaf else 0.0)
        if not leaf:
            waiting += [node["right_child"], node["left_child"]]
    return Nodes(np.array(names, dtype=np.int32), np.array(thresholds, dtype=np.float32), np.array(values))


def lower(machine: Machine, calls: Calls, random: np.random.Generator, lows: dict[Key, Vector]) -> int:
    """Bring the lows of leaves down to what products with one larger size take, where that is less by more than the interval is wide;
    how many such products there were that no leaf reached down to."""
    size = str(random.choice(list("mnk" if calls.op == "gemm" else "bmnk")))
    step = 1 if size == "b" else ALIGNMENT
    more = np.ceil(calls.sizes[size] * np.exp2(random.uniform(-6, 2, len(calls))) / step) * step
    larger = replace(calls, sizes={**calls.sizes, size: calls.sizes[size] + more})
    after = np.zeros(len(calls))
    for time, mask in kernels_of(larger, machine):
        after[mask] = np.broadcast_to(time._alone, int(mask.sum()))
    count = 0
    for time, mask in kernels_of(calls, machine):
        key, fitted, table = time.selected.key, time.selected.fitted, time._timings
        if not isinstance(table, Tree):
            continue
        before = time._alone
        fall = (before - after[mask]) > before * (fitted.high - fitted.low)
        low = np.log(after[mask][fall] / np.asarray(time._formula)[fall])
        leaves = table.leaves(time._sizes, np.shape(before))[fall]
        count += int(np.sum(low < lows[key][leaves]))
        np.minimum.at(lows[key], leaves, low)
    return count


def learnt(timed: list[Calls], bases: list[Vector], held: list[NDArray[np.bool_]]) -> Teacher:
    """What knows the time of a product, over that of its formula, by its sizes and kernels."""
    x = np.concatenate([features(each, base)[~out] for each, base, out in zip(timed, bases, held, strict=True)])
    logs = [np.log(each.time * 1e-6 / base)[~out] for each, base, out in zip(timed, bases, held, strict=True)]
    made = teachers.learnt(x, range(2 + len(CATEGORIES)), np.concatenate(logs), TEACHERS)
    for each, base, out in zip(timed, bases, held, strict=True):
        error = Errors.of(base[out] * np.exp(made.predict(features(each, base)[out])), each.time[out] * 1e-6)
        tell(f"{each.op} {each.dtype}, kernels known: {error.median:.1%} {error.p90:.1%} of {out.sum()} held out")
    return made


def by_kernel(
    calls: Calls, machine: Machine, logs: Vector, of: NDArray[np.bool_], into: dict[Key, list[tuple[Vector, Vector]]]
) -> None:
    """Add coordinates and logarithms of some calls to the kernels of the formulas that they were timed with."""
    for time, mask in kernels_of(calls, machine):
        if time.selected.label == CALIBRATED:
            chosen = mask & of
            sizes = {name: size[chosen] for name, size in calls.sizes.items()}
            into.setdefault(time.selected.key, []).append((coordinates(sizes), logs[chosen]))


def joined(parts: list[tuple[Vector, Vector]]) -> tuple[Vector, Vector]:
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def another_day(low: float, high: float) -> tuple[float, float]:
    """The ends of an interval with what days differ by, in quadrature."""
    return float(np.exp(-np.hypot(np.log(low), BETWEEN_DAYS))), float(np.exp(np.hypot(np.log(high), BETWEEN_DAYS)))


def judged(tree: Tree, row: Fitted, timings_: int, x: Vector, logs: Vector) -> Fitted:
    """A row with the errors and the interval of a tree on timings that it was not grown to. The larger half of them counts twice in the interval,
    because most of the timings are of smaller products than most that people ask for; and they were timed in the runs that the tree
    was grown to, which those of another day are not."""
    predicted = tree.values[tree.leaves(dict(zip(NAMES, x.T, strict=True)), (len(logs),))]
    error, ratio = Errors.of(np.exp(predicted), np.exp(logs)), np.exp(logs - predicted)
    work = x[:, NAMES.index("products")]
    low, high = another_day(*ends(np.concatenate([ratio, ratio[work > np.median(work)]]))[:2])
    figures = {"low": low, "high": high, "error": error.median, "p90": error.p90}
    rounded_figures = {name: rounded(value) for name, value in figures.items()}
    return replace(row, **rounded_figures, cases=timings_, source=CHOICES_SOURCE)


def main() -> None:
    folder, random = Path(sys.argv[1]), np.random.default_rng(7)
    machine = machines.load("h200-sxm")
    bare = replace(machine, fitted={key: replace(row, nearby="") for key, row in machine.fitted.items()})
    timed, drawn, codes = [], [], dict[str, int]()
    for (op, dtype), cases in sorted(timings().items()):
        timed.append(known_calls(folder / f"timed-{op}-{dtype}.npz", op, dtype, codes, cases))
        drawn += [known_calls(path, op, dtype, codes) for path in sorted(folder.glob(f"drawn-{op}-{dtype}*.npz"))]
    renumber(timed, drawn)
    tell(f"{sum(map(len, timed))} timings, {sum(map(len, drawn))} calls with known kernels")
    bases = [formula(each, bare) for each in timed]
    held = [random.integers(HELD, size=len(each)) == 0 for each in timed]
    teacher = learnt(timed, bases, held)

    samples: dict[Key, list[tuple[Vector, Vector]]] = {}
    for each in drawn:
        logs = teacher.predict(features(each, formula(each, bare)))
        by_kernel(each, bare, logs, np.ones(len(each), dtype=bool), samples)
        tell(f"{each.op} {each.dtype}: {len(each)} products without a timing")
    tested: dict[Key, list[tuple[Vector, Vector]]] = {}
    every: dict[Key, list[tuple[Vector, Vector]]] = {}
    asked = {(each.op, each.dtype) for each in drawn}
    for each, base, out in zip(timed, bases, held, strict=True):
        if (each.op, each.dtype) not in asked:  # whose trees stay as they are
            continue
        logs = np.log(each.time * 1e-6 / base)
        by_kernel(each, bare, np.clip(logs, -MAX_LOG, MAX_LOG), ~out, samples)
        by_kernel(each, bare, logs, out, tested)
        by_kernel(each, bare, logs, np.ones(len(each), dtype=bool), every)

    fitted: dict[Key, Fitted] = {}
    for key, parts in sorted(samples.items(), key=str):
        (x, logs), timings_ = joined(parts), sum(len(y) for _, y in every.get(key, []))
        if len(logs) < MIN_CASES or timings_ < MIN_TIMINGS:
            tell(f"{key}: {len(logs)} calls, {timings_} timings: no tree")
            continue
        apart = joined(tested[key])
        row = judged(grown(x, logs), machine.fitted[key], timings_, *apart)
        # all timings, once they have judged
        tree = grown(np.concatenate([x, apart[0]]), np.concatenate([logs, np.clip(apart[1], -MAX_LOG, MAX_LOG)]))
        fitted[key] = replace(row, nearby=tree.text())
        leaves = np.sum(tree.coordinates == LEAF)
        tell(f"{key}: {timings_} timings, {len(logs)} calls, {leaves} leaves, {fitted[key].errors}")

    own = coefficients.of_machine("h200-sxm")
    write(own | fitted)
    reach_down(replace(machine, fitted={**machine.fitted, **fitted}), own | fitted, random)


def anyhow(op: str, dtype: str, random: np.random.Generator) -> Calls:
    """Products of any sides, each aligned or not, beyond what the library was asked about too."""
    sizes = {name: np.ceil(np.exp2(random.uniform(0, MAX_OCTAVES, DRAWN))) for name in "mnk"}
    for name, size in sizes.items():
        step = random.choice(DRAWN_STEPS, DRAWN)
        sizes[name] = np.ceil(size / step) * step
    sizes["b"] = np.ceil(np.exp2(random.uniform(0, 10, DRAWN))) if op == "bmm" else np.ones(DRAWN)
    return Calls(op, dtype, sizes, {}, np.zeros(DRAWN))


def reach_down(machine: Machine, fitted: dict[Key, Fitted], random: np.random.Generator) -> None:
    """Write the trees with lows for what larger products take."""
    trees = {key: tree for key, row in fitted.items() if isinstance(tree := read(row), Tree)}
    lows = {key: tree.lows.copy() for key, tree in trees.items()}
    kinds = [(op, dtype) for op in ("gemm", "bmm") for dtype in FORMATS if op == "gemm" or dtype in FORMATS[:4]]
    for number in range(GROWTHS):
        count = sum(lower(machine, anyhow(*kind, random), random, lows) for kind in kinds)
        tell(f"growth {number + 1}: {count} products that fall below their interval")
    reaching = {
        key: replace(tree, lows=np.floor(PER_UNIT * lows[key]) / PER_UNIT).text() for key, tree in trees.items()
    }
    write(fitted | {key: replace(fitted[key], nearby=text) for key, text in reaching.items()})


def read(row: Fitted) -> Any:
    return nearby.read(str(row.nearby)) if row.nearby else None


def write(fitted: dict[Key, Fitted]) -> None:
    coefficients.write(coefficients.FOLDER / "h200-sxm.json", {"fitted": fitted})


if __name__ == "__main__":
    if sys.argv[1:] == ["--lows"]:
        reach_down(machines.load("h200-sxm"), coefficients.of_machine("h200-sxm"), np.random.default_rng(11))
    else:
        main()
