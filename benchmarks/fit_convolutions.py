"""Fit trees to the H200's convolutions, from timings of some and from the kernels that cuDNN takes for many more.

    python benchmarks/fit_convolutions.py FOLDER           bring src/ridgeline/machines/catalog/fitted/h200-sxm.json up to date
    python benchmarks/fit_convolutions.py --more FOLDER    add trees to those that are there, from further kernels and timings
    python benchmarks/fit_convolutions.py --falls          only step 5, for the trees that are there

FOLDER holds what `benchmarks/library_convolutions.py`, `usual_convolutions.py` and `any_convolutions.py` wrote on an H200. Needs LightGBM
(`pip install lightgbm`); takes an hour of two cores.

1. Boosted trees learn the time of a convolution over that of its formula, from its sizes and the kernels that ran: 11 timings of 12.
2. They say what the convolutions took, whose kernels are known and which were never timed.
3. Trees for each kernel of the formulas are grown to that and to the timings, with sizes alone, and kept (`core/families/forest.py`).
4. The twelfth timing gives errors and intervals; then trees are grown to all timings.
5. Where a larger convolution is expected to take less by more than the interval is wide, the interval is made to reach down to it.

With `--more` the trees are grown to what those that are there leave, and the interval stays: they know the timings that could say
how wide it is.

Run it after `fit_h200.py`, which leaves these kernels as they are: their coefficients stay, corrections and intervals change.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from convolution_choices import (
    AT_ONCE,
    NAMED,
    SIZES,
    Names,
    Table,
    Vector,
    calls,
    combinations,
    expected,
    features,
    kernels_of,
    learnt,
    timings,
)
from fit_h200 import CALIBRATIONS
from fit_products import CHOICES_SOURCE, HELD, MIN_CASES, MIN_TIMINGS, nodes_of, read, tell, write
from judge_h200 import HELD_OUT, OTHER_SETS
from library_convolutions import DTYPES, LAYOUTS, OPS
from numpy.typing import NDArray

from ridgeline.core.families import Key
from ridgeline.core.families.forest import MAX_VALUE, NAMES, Forest, coordinates_of
from ridgeline.core.families.tree import LEAF, PER_UNIT, Nodes
from ridgeline.core.fitted import Fitted
from ridgeline.core.machine import Machine
from ridgeline.core.statistics import Errors
from ridgeline.machines import coefficients
from ridgeline.machines import load as machines
from ridgeline.prediction.coefficients import CALIBRATED
from ridgeline.prediction.fit.families import rounded
from ridgeline.prediction.fit.intervals import ends

GROWN = {
    **{"objective": "huber", "alpha": 0.1, "min_data_in_leaf": 4, "max_bin": 511, "verbose": -1, "num_threads": 2},
    **{"feature_fraction": 0.6, "learning_rate": 0.25, "seed": 1},
}
TREES, CASES_PER_LEAF, MIN_LEAVES, MAX_LEAVES = 30, 100, 31, 1000  # trees of a kernel, and leaves of each of them
MIN_FURTHER = 1000  # calls without a timing, for further trees
# what differs for these
FURTHER, FURTHER_TREES, CASES_PER_FURTHER_LEAF = {"learning_rate": 0.15, "feature_fraction": 0.4}, 60, 150
TIMED_WEIGHT = 3.0  # of a timing, against what a call is said to take

# of step 5
GROWTHS, DRAWN, GROUPED_SHARE = 24, 20_000, 0.2
FALL_LEAVES = 1500
ALIGNMENT = 256  # growing by multiples of it keeps every alignment
MAX_OCTAVES = {"batch": 8, "c_in": 10, "c_out": 10, "h": 8, "w": 8}
GROWING = tuple(MAX_OCTAVES)

Samples = dict[Key, list[tuple[Vector, Vector, Vector]]]  # coordinates, logarithms, weights


def grown(x: Vector, logs: Vector, weights: Vector, further: bool = False) -> Forest:
    """Trees of these coordinates and logarithms; further ones are more and smaller, and each changes less."""
    import lightgbm

    leaves = int(np.clip(len(logs) / (CASES_PER_FURTHER_LEAF if further else CASES_PER_LEAF), MIN_LEAVES, MAX_LEAVES))
    data = lightgbm.Dataset(x, np.clip(logs, -MAX_VALUE, MAX_VALUE), weight=weights)
    parameters = {**GROWN, "num_leaves": leaves, **(FURTHER if further else {})}
    made = lightgbm.train(parameters, data, FURTHER_TREES if further else TREES)
    trees = tuple(nodes_of(told["tree_structure"]) for told in made.dump_model()["tree_info"])
    return Forest(NAMES, trees, no_falls())


def no_falls() -> Nodes:
    return Nodes(np.array([LEAF], dtype=np.int32), np.zeros(1, dtype=np.float32), np.zeros(1))


def by_kernel(table: Table, machine: Machine, logs: Vector, weight: float, into: Samples) -> None:
    """Add coordinates and logarithms of calls to the kernels of the formulas that they were timed with."""
    for of, places in combinations(table):
        for time, mask in kernels_of(of, table[places, NAMED : NAMED + len(SIZES)], machine):
            if time.selected.label == CALIBRATED:
                count = int(mask.sum())
                each = coordinates_of(NAMES, time._sizes, count), logs[places[mask]], np.full(count, weight)
                into.setdefault(time.selected.key, []).append(each)


def joined(parts: list[tuple[Vector, Vector, Vector]]) -> tuple[Vector, Vector, Vector]:
    x, logs, weights = zip(*parts, strict=True)
    return np.concatenate(x), np.concatenate(logs), np.concatenate(weights)


def judged(forest: Forest, row: Fitted, timed: int, x: Vector, logs: Vector) -> Fitted:
    """A row with the errors and the interval of trees on timings that they were not grown to."""
    predicted = forest.sums(x)
    error, (low, high) = Errors.of(np.exp(predicted), np.exp(logs)), ends(np.exp(logs - predicted))[:2]
    figures = {"low": rounded(low), "high": rounded(high), "error": rounded(error.median), "p90": rounded(error.p90)}
    return replace(row, **figures, cases=timed, source=CHOICES_SOURCE)


def main() -> None:
    table, logs, held, drawn, said = taught(Path(sys.argv[1]), HELD)
    keep(table, logs, held, drawn, said)


def taught(folder: Path, held_of: int) -> tuple[Table, Vector, NDArray[np.bool_], Table, Vector]:
    """Timed convolutions with their logarithms and which are held out, one of `held_of`; others, with what they are said to take."""
    random, codes = np.random.default_rng(7), dict[str, int]()
    table = calls(sorted(folder.glob("timed-*.npz")), codes)
    drawn = calls(sorted(folder.glob("drawn-*.npz")), codes)
    names, sequences = Names.of(codes), dict[tuple[int, ...], int]()
    bare = without_trees(machines.load("h200-sxm"))
    known = timings(CALIBRATIONS)
    seconds = np.array([known.get(tuple(row), 0.0) for row in table[:, : NAMED + len(SIZES)].tolist()]) * 1e-6
    table, seconds = table[seconds > 0], seconds[seconds > 0]
    base, held = expected(table, bare), random.integers(held_of, size=len(table)) == 0
    logs = np.log(seconds / base)
    x, coded = features(table, base, names, sequences)
    teacher = learnt(x[~held], coded, logs[~held])
    error = Errors.of(np.exp(teacher.predict(x[held])), np.exp(logs[held]))
    tell(f"{len(table)} timings; kernels known: {error.median:.1%} {error.p90:.1%} of {held.sum()} held out")

    said = []
    for start in range(0, len(drawn), AT_ONCE):
        part = drawn[start : start + AT_ONCE]
        said.append(teacher.predict(features(part, expected(part, bare), names, sequences)[0]))
        tell(f"{start + len(part)} of {len(drawn)} convolutions without a timing")
    return table, logs, held, drawn, np.concatenate(said)


def without_trees(machine: Machine) -> Machine:
    return replace(machine, fitted={key: replace(row, nearby="") for key, row in machine.fitted.items()})


def add(table: Table, logs: Vector, drawn: Table, said: Vector) -> None:
    """Grow trees to what those that are there leave of further timings and of what is said of further calls."""
    apart = timings((*HELD_OUT, *OTHER_SETS))
    unjudged = np.array([tuple(row) not in apart for row in drawn[:, : NAMED + len(SIZES)].tolist()])
    _, first = np.unique(drawn[:, : NAMED + len(SIZES)], axis=0, return_index=True)
    drawn, said = (of[first[unjudged[first]]] for of in (drawn, said))
    machine, samples = machines.load("h200-sxm"), Samples()
    by_kernel(drawn, without_trees(machine), said, 1.0, samples)
    by_kernel(table, without_trees(machine), logs, TIMED_WEIGHT, samples)
    fitted: dict[Key, Fitted] = {}
    for key, parts in sorted(samples.items(), key=str):
        forest = read(machine.fitted[key])
        if not isinstance(forest, Forest):
            continue
        x, each, weights = joined(parts)
        timed, rest = int(np.sum(weights == TIMED_WEIGHT)), each - forest.sums(x)
        if len(each) - timed < MIN_FURTHER:
            tell(f"{key}: {len(each) - timed} further calls: no further trees")
            continue
        more = grown(x, rest, weights, further=True)
        larger = replace(forest, trees=(*forest.trees, *more.trees))
        fitted[key] = replace(machine.fitted[key], nearby=larger.text(), cases=timed)
        left = Errors.of(np.exp(larger.sums(x)), np.exp(each))
        before = Errors.of(np.exp(forest.sums(x)), np.exp(each))
        tell(
            f"{key}: {timed} timings, {len(each) - timed} calls, {before.median:.1%} {before.p90:.1%} -> {left.median:.1%} {left.p90:.1%}"
        )
    own = coefficients.of_machine("h200-sxm")
    write(own | fitted)
    reach_down(replace(machine, fitted={**machine.fitted, **fitted}), own | fitted)


def keep(table: Table, logs: Vector, held: NDArray[np.bool_], drawn: Table, said: Vector) -> None:
    """Grow and write trees, from timings and from what is said of calls without one."""
    machine = machines.load("h200-sxm")
    bare, samples, tested = without_trees(machine), Samples(), Samples()
    by_kernel(drawn, bare, said, 1.0, samples)
    by_kernel(table[~held], bare, logs[~held], TIMED_WEIGHT, samples)
    by_kernel(table[held], bare, logs[held], TIMED_WEIGHT, tested)
    fitted: dict[Key, Fitted] = {}
    for key, parts in sorted(samples.items(), key=str):
        apart = tested.get(key, [])
        timed = sum(int(np.sum(weights == TIMED_WEIGHT)) for _, _, weights in (*parts, *apart))
        calls_ = sum(len(each) for _, each, _ in parts)
        if calls_ < MIN_CASES or timed < MIN_TIMINGS:
            tell(f"{key}: {calls_} calls, {timed} timings: no trees")
            continue
        row = judged(grown(*joined(parts)), machine.fitted[key], timed, *joined(apart)[:2])
        fitted[key] = replace(row, nearby=grown(*joined([*parts, *apart])).text())  # all timings, once they have judged
        tell(f"{key}: {timed} timings, {calls_} calls, {fitted[key].errors}")
    own = coefficients.of_machine("h200-sxm")
    write(own | fitted)
    reach_down(replace(machine, fitted={**machine.fitted, **fitted}), own | fitted)


def anyhow(of: tuple[int, int, int], random: np.random.Generator) -> Table:
    """Convolutions of any sizes, beyond what cuDNN was asked about too."""
    columns = {name: np.ceil(np.exp2(random.uniform(0, most, DRAWN))) for name, most in MAX_OCTAVES.items()}
    for name in ("c_in", "c_out"):
        step = random.choice((1, 1, 8, 64, 64), DRAWN)
        columns[name] = np.ceil(columns[name] / step) * step
    for name in "hw":
        aligned = random.random(DRAWN) < 0.5
        columns[name] = np.where(aligned, np.ceil(columns[name] / 64) * 64, np.maximum(columns[name], 8))
    square = random.random(DRAWN) < 0.6
    columns["w"] = np.where(square, columns["h"], columns["w"])
    kernel, stride = random.choice((1, 1, 3, 3, 5, 7), DRAWN), random.choice((1, 1, 2), DRAWN)
    if OPS[of[0]] == "conv_transpose2d":
        stride = random.choice((1, 2, 2), DRAWN)
    groups = np.where(random.random(DRAWN) < GROUPED_SHARE, random.choice((2, 4, 8, 16, 32), DRAWN), 1)
    for name in ("c_in", "c_out"):
        columns[name] = np.ceil(columns[name] / groups) * groups
    columns |= {"kernel": kernel, "stride": stride, "padding": (kernel - 1) // 2, "groups": groups}
    columns["dilation"] = np.ones(DRAWN)
    return np.stack([np.asarray(columns[name], dtype=np.int64) for name in SIZES], axis=1)


def enlarged(sizes: Table, random: np.random.Generator) -> Table:
    """The same with one size grown at equal alignment."""
    place = SIZES.index(str(random.choice(GROWING)))
    more = np.ceil(sizes[:, place] * np.exp2(random.uniform(-6, 2, len(sizes))) / ALIGNMENT) * ALIGNMENT
    larger = sizes.copy()
    larger[:, place] += more.astype(np.int64)
    return larger


def falls(
    machine: Machine, of: tuple[int, int, int], random: np.random.Generator
) -> Iterator[tuple[Key, Vector, Vector]]:
    """Coordinates of convolutions, and how far below their correction the interval has to reach for a larger one; by kernel."""
    sizes = anyhow(of, random)
    larger, after = enlarged(sizes, random), np.full(len(sizes), np.inf)
    for time, mask in kernels_of(of, larger, machine):
        after[mask] = np.broadcast_to(time._alone, int(mask.sum()))
    for time, mask in kernels_of(of, sizes, machine):
        if not isinstance(time._timings, Forest):
            continue
        before, row, lesser = np.broadcast_to(time._alone, int(mask.sum())), time.selected.fitted, after[mask]
        fall = (before - lesser) > before * (row.high - row.low)
        yield (
            time.selected.key,
            coordinates_of(NAMES, time._sizes, len(before)),
            np.where(fall, np.log(lesser / before), 0.0),
        )


def reach_down(machine: Machine, fitted: dict[Key, Fitted]) -> None:
    """Write the trees with falls for what larger convolutions take."""
    import lightgbm

    random, found = np.random.default_rng(11), dict[Key, list[tuple[Vector, Vector]]]()
    forests = {key: forest for key, row in fitted.items() if isinstance(forest := read(row), Forest)}
    kinds = [
        (op, dtype, layout) for op in range(len(OPS)) for dtype in range(len(DTYPES)) for layout in range(len(LAYOUTS))
    ]
    for number in range(GROWTHS):
        for of in kinds:
            for key, x, low in falls(machine, of, random):
                found.setdefault(key, []).append((x, low))
        tell(f"growth {number + 1} of {GROWTHS}")
    reaching = {}
    for key, parts in found.items():
        x, low = np.concatenate([x for x, _ in parts]), np.concatenate([low for _, low in parts])
        if not np.any(low < 0):
            continue
        parameters = {"objective": "l2", "learning_rate": 1.0, "num_leaves": FALL_LEAVES, "min_data_in_leaf": 20}
        made = lightgbm.train({**GROWN, **parameters, "feature_fraction": 1.0}, lightgbm.Dataset(x, low), 1)
        nodes = nodes_of(made.dump_model()["tree_info"][0]["tree_structure"])
        deepest = np.zeros(len(nodes.values))
        np.minimum.at(deepest, nodes.leaves_of(x.astype(np.float32)), low)
        deepest = np.maximum(np.floor(PER_UNIT * deepest) / PER_UNIT, -MAX_VALUE)
        forest = replace(forests[key], falls=Nodes(nodes.coordinates, nodes.thresholds, deepest))
        reaching[key] = replace(fitted[key], nearby=forest.text())
        tell(f"{key}: {np.mean(low < 0):.2%} of {len(low)} larger convolutions fall below the interval")
    write(fitted | reaching)


if __name__ == "__main__":
    if sys.argv[1:] == ["--falls"]:
        reach_down(machines.load("h200-sxm"), coefficients.of_machine("h200-sxm"))
    elif sys.argv[1:2] == ["--more"]:
        table, logs, _, drawn, said = taught(Path(sys.argv[2]), HELD)
        add(table, logs, drawn, said)
    else:
        main()
