"""How much of the error of the H200's convolutions is cuDNN's choice of kernels.

    python benchmarks/convolution_choices.py FOLDER

FOLDER holds what `benchmarks/library_convolutions.py` wrote on an H200. Needs LightGBM (`pip install lightgbm`); takes half an
hour of two cores. Errors on timings that were kept apart, of:

1. ridgeline's expected times;
2. boosted trees that know the sizes and the kernels that cuDNN takes, with their tiles, blocks and waves;
3. boosted trees that know the sizes alone, learnt from what the second say of all convolutions whose kernels are known.

The difference of the first two is what the choice is worth; that of the last two says how far it can be learnt from sizes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import teachers
from fit_h200 import CALIBRATIONS
from judge_h200 import DATA, HELD_OUT, OTHER_SETS, rows
from library_convolutions import DTYPES, GRADIENTS, LAYOUTS, OF_KERNEL, OPS, SIZES, row_of
from numpy.typing import NDArray
from teachers import MAX_LOG, Teacher

from ridgeline.core.families.coordinates import alignment
from ridgeline.core.machine import Machine
from ridgeline.core.statistics import Errors
from ridgeline.machines import load as machines
from ridgeline.prediction.kernel_times import Asked, KernelTime, of_kernel
from ridgeline.programs.ops import OPS as ALL_OPS

NAMED = 3  # op, format and layout, before the sizes
KERNELS = NAMED + len(SIZES) + 2  # before them the nodes that are no kernels, and how many are
CORES, BANDWIDTH = 132, 4.8e12
PEAKS = (989e12, 989e12, 494e12, 67e12)
WIDTHS = (2.0, 2.0, 4.0, 4.0)
LAUNCH = 2e-6
HELPER = re.compile(
    r"(?i)nchwToNhwc|nhwcToNchw|AddPadding|SliceC|convertTensor|transform|init_device_workspace|scalePacked|precompute"
    r"|flip_filter|fft|fill|reorder|reduc|copy|gemm_pointers|computeOffsets|setTensor|elementwise|cat_"
)
TILE = re.compile(r"tilesize(\d+)x(\d+)x(\d+)|_(\d+)x(\d+)_(\d+)x\d+|gemm_(?:bf16_|f16_)?(\d+)x(\d+)")
OF_FORMATS = re.compile(r"13__nv_bfloat16|6__half|N3c108BFloat16E|N3c104HalfE|bf16|f16|_tst_|_hsh_")
USUAL_TILES = ((256, 128), (128, 128), (64, 64), (128, 64), (64, 128), (32, 32))
# parameters and rounds
TEACHERS = (
    ({"objective": "l1", "learning_rate": 0.08, "num_leaves": 255, "min_data_in_leaf": 5, "cat_smooth": 10}, 1200),
    ({"objective": "l2", "learning_rate": 0.06, "num_leaves": 127, "min_data_in_leaf": 8, "cat_smooth": 20}, 1200),
)
BY_SIZES, SIZES_ROUNDS = (
    {
        **{"objective": "l1", "learning_rate": 0.15, "num_leaves": 255, "min_data_in_leaf": 4, "verbose": -1},
        **{"feature_fraction": 0.7, "num_threads": 2, "seed": 1},
    },
    150,
)
AT_ONCE = 200_000  # calls whose features are held

Vector = NDArray[np.float64]
Table = NDArray[np.int64]  # a line per call


def timings(names: Iterable[str]) -> dict[tuple[int, ...], float]:
    """Microseconds of every convolution of the default path that was timed; the median where it was several times."""
    every: dict[tuple[int, ...], list[float]] = {}
    for name in names:
        for row in rows(DATA / name):
            if row["op"] in OPS and "time_us" in row and "backend" not in row:
                every.setdefault(row_of(row), []).append(float(row["time_us"]))
    return {row: float(np.median(times)) for row, times in every.items()}


def calls(paths: list[Path], codes: dict[str, int]) -> Table:
    """Calls whose kernels are in files; `codes` numbers the names of kernels the same way in all of them."""
    tables = []
    for path in paths:
        file = np.load(path)
        numbers = np.array([*(codes.setdefault(str(name), len(codes)) for name in file["names"]), -1])
        table = file["columns"].T.astype(np.int64)
        table[:, KERNELS :: len(OF_KERNEL)] = numbers[table[:, KERNELS :: len(OF_KERNEL)]]
        tables.append(table)
    return np.concatenate(tables)


def combinations(table: Table) -> Iterator[tuple[tuple[int, int, int], NDArray[np.intp]]]:
    """Calls of each op, format and layout, and where they are."""
    code = (table[:, 0] * len(DTYPES) + table[:, 1]) * len(LAYOUTS) + table[:, 2]
    for each in np.unique(code):
        places = np.flatnonzero(code == each)
        yield tuple(table[places[0], :NAMED].tolist()), places


def kernels_of(
    of: tuple[int, int, int], sizes: Table, machine: Machine
) -> Iterator[tuple[KernelTime, NDArray[np.bool_]]]:
    """The kernels of the formulas that convolutions of one op, format and layout have, and which of them."""
    given = {name: sizes[:, place].astype(np.float64) for place, name in enumerate(SIZES)}
    if of[0] in GRADIENTS:
        del given["dilation"]
    (kernel,) = ALL_OPS[OPS[of[0]]](**given, dtype=DTYPES[of[1]], layout=LAYOUTS[of[2]]).kernels
    for time in of_kernel(kernel, Asked(machine))[0]:
        mask = np.broadcast_to(np.asarray(time.applies) > 0, len(sizes))
        if mask.any():
            yield time, mask


@dataclass
class Names:
    """What the names of kernels tell: tile, whether it only prepares, and codes of names and of kinds of kernels."""

    tiles: Vector
    helps: NDArray[np.bool_]
    stems: NDArray[np.int64]
    kinds: NDArray[np.int64]

    @classmethod
    def of(cls, codes: dict[str, int]) -> Names:
        names = sorted(codes, key=codes.__getitem__)
        stems = [re.sub(r"\d+cutlass", "cutlass", OF_FORMATS.sub("H", name)) for name in names]
        kinds = [re.sub(r"\d+", "#", re.sub(r"tilesize\d+x\d+x\d+.*|_\d+x\d+_\d+x.*", "", stem))[:60] for stem in stems]
        number: dict[str, int] = {}
        kind: dict[str, int] = {}
        return cls(
            np.array([*map(_tile, names), (0.0, 0.0, 0.0)]),
            np.array([*(bool(HELPER.search(name)) for name in names), True]),
            np.array([*(number.setdefault(stem, len(number)) for stem in stems), -1]),
            np.array([*(kind.setdefault(each, len(kind)) for each in kinds), -1]),
        )


def _tile(name: str) -> tuple[float, float, float]:
    match = TILE.search(name)
    sides = [float(side) for side in match.groups() if side] if match else []
    first, second, third = (*sides, 0.0, 0.0, 0.0)[:3]
    return first, second, third


def features(
    table: Table, base: Vector, names: Names, sequences: dict[tuple[int, ...], int]
) -> tuple[Vector, list[int]]:
    """What the time is learnt from: sizes, and the kernels with their tiles, blocks and waves; and which columns are codes."""
    op, dtype = table[:, 0], table[:, 1]
    b, ci, co, h, w, k, s, p, g, d = table[:, NAMED : NAMED + len(SIZES)].T.astype(np.float64)
    taps = d * (k - 1) + 1
    ho, wo = (np.where(op == 3, (side - 1) * s - 2 * p + taps, (side + 2 * p - taps) // s + 1) for side in (h, w))
    out, into, inner = b * ho * wo, b * h * w, ci / g * k * k
    products = np.where(op == 3, into * ci * co / g * k * k, out * co * inner)
    weights, read, written = co * inner, into * ci, out * co
    sizes = [
        *(
            op,
            dtype,
            table[:, 2],
            b,
            ci,
            co,
            h,
            w,
            k,
            s,
            p,
            g,
            d,
            ho,
            wo,
            out,
            into,
            inner,
            products,
            read,
            written,
            weights,
        ),
        *(
            alignment(ci),
            alignment(co),
            alignment(h * w),
            alignment(ho * wo),
            ci / g,
            co / g,
            alignment(ci // g),
            alignment(co // g),
        ),
        *(products / (read + written + weights), out / co),
    ]
    for rows_, columns in USUAL_TILES:
        waves = g * np.ceil(out / rows_) * np.ceil(co / g / columns) / CORES
        sizes += [waves, np.ceil(waves) / waves, g * np.ceil(co / g / rows_) * np.ceil(inner / columns) / CORES]
    kernel, blocks, threads, resident = (table[:, KERNELS + place :: len(OF_KERNEL)] for place in range(len(OF_KERNEL)))
    real, every = kernel >= 0, np.arange(len(table))
    helps = names.helps[kernel] | ~real
    main = np.argmin(helps, axis=1)  # the first that does more than prepare
    name, count = kernel[every, main], np.maximum(blocks[every, main], 1).astype(np.float64)
    at_once = np.maximum(resident[every, main], 1).astype(np.float64)
    tm, tn, tk = np.maximum(names.tiles[name].T, 1.0)
    waves, rounds = count / CORES, count / CORES / at_once
    results = np.select([op == 0, op == 1, op == 2], [written, read, weights], written)
    summed = np.select([op == 0, op == 1, op == 2], [inner, co / g * k * k, out], ci / g * k * k)
    splits = np.where(tm > 1, np.maximum(count * tm * tn / results, 1.0), 1.0)
    peak, width = np.array(PEAKS)[dtype], np.array(WIDTHS)[dtype]
    number, prepared = table[:, KERNELS - 1].astype(np.float64), (helps & real).sum(axis=1)
    moved = (read + written + weights) * width / (0.85 * BANDWIDTH)
    changed = np.where((prepared > 0) & (table[:, 2] == 0), (read + written) * 2 * width / (0.7 * BANDWIDTH), 0.0)
    ends = [np.ceil(waves) * CORES, np.ceil(rounds) * CORES * at_once]
    guessed = [
        LAUNCH * number + np.maximum(2 * products / count * each / (0.7 * peak), moved) + changed for each in ends
    ]
    tiled = np.where(tm > 1, ends[0] * tm * tn * 2 * summed / splits / (0.7 * peak), 0.0) + LAUNCH * number
    guesses = [np.log(np.maximum(each, 1e-7) / base) for each in (*guessed, np.maximum(tiled, moved))]
    sequence = np.array([sequences.setdefault(tuple(each), len(sequences)) for each in names.kinds[kernel].tolist()])
    positive = np.maximum(blocks, 0)
    codes = [names.stems[name], names.kinds[name], sequence, name, np.where(main > 0, names.stems[kernel[:, 0]], -1)]
    others = [
        *(
            main,
            count,
            threads[every, main],
            at_once,
            table[:, KERNELS - 2],
            number,
            prepared,
            tm,
            tn,
            tk,
            waves,
            rounds,
        ),
        *(
            np.ceil(waves) / waves,
            np.ceil(rounds) / rounds,
            positive.sum(axis=1),
            np.where(helps, positive, 0).sum(axis=1),
        ),
        *(*guesses, products / count, splits, summed / splits, count * tm * tn / results, np.log(base)),
    ]
    coded = [0, 1, 2, *range(len(sizes), len(sizes) + len(codes))]
    return np.column_stack([*sizes, *codes, *others]).astype(np.float32), coded


def learnt(x: Vector, coded: list[int], logs: Vector) -> Teacher:
    """What knows the time of a convolution, over that of its formula, by its sizes and kernels."""
    return teachers.learnt(x, coded, logs, TEACHERS)


def expected(table: Table, machine: Machine) -> Vector:
    """Seconds as ridgeline says them."""
    seconds = np.zeros(len(table))
    for of, places in combinations(table):
        for time, mask in kernels_of(of, table[places, NAMED : NAMED + len(SIZES)], machine):
            seconds[places[mask]] = np.broadcast_to(time._alone, int(mask.sum()))
    return seconds


def of_size(x: Vector, coded: list[int]) -> Vector:
    """The columns that follow from sizes alone: those before the codes of kernels, and the formula's time, the last."""
    return np.column_stack([x[:, : coded[NAMED]], x[:, -1]])


def by_sizes(x: Vector, logs: Vector, asked: Vector) -> Vector:
    import lightgbm

    made = lightgbm.train(BY_SIZES, lightgbm.Dataset(x, np.clip(logs, -MAX_LOG, MAX_LOG)), SIZES_ROUNDS)
    return np.asarray(made.predict(asked))


def main() -> None:
    folder, codes = Path(sys.argv[1]), dict[str, int]()
    table = calls(sorted(folder.glob("timed-*.npz")), codes)
    drawn = calls(sorted(folder.glob("drawn-*.npz")), codes)
    names, sequences = Names.of(codes), dict[tuple[int, ...], int]()
    machine = machines.load("h200-sxm")
    bare = replace(machine, fitted={key: replace(row, nearby="") for key, row in machine.fitted.items()})
    base, drawn_base = expected(table, bare), expected(drawn, bare)  # by the formulas alone
    fitted, apart = timings(CALIBRATIONS), timings((*HELD_OUT, *OTHER_SETS))
    cases = [tuple(row) for row in table[:, : NAMED + len(SIZES)].tolist()]
    seconds = np.array([fitted.get(case, 0.0) for case in cases]) * 1e-6
    held = np.where(seconds > 0, 0.0, np.array([apart.get(case, 0.0) for case in cases]) * 1e-6)
    x, coded = features(table, base, names, sequences)
    known = seconds > 0
    teacher = learnt(x[known], coded, np.log(seconds[known] / base[known]))
    found = {"expected": expected(table, machine), "kernels known": base * np.exp(teacher.predict(x))}
    labels, sizes = [], []
    for start in range(0, len(drawn), AT_ONCE):
        part, _ = features(drawn[start : start + AT_ONCE], drawn_base[start : start + AT_ONCE], names, sequences)
        labels.append(teacher.predict(part))
        sizes.append(of_size(part, coded))
    every, logs = np.concatenate(sizes), np.concatenate(labels)
    found["sizes known"] = base.copy()
    for of, places in combinations(table):
        alike = np.all(drawn[:, :NAMED] == of, axis=1)
        timed = places[known[places]]
        learning = np.concatenate([every[alike], of_size(x[timed], coded)])
        of_all = np.concatenate([logs[alike], np.log(seconds[timed] / base[timed])])
        found["sizes known"][places] *= np.exp(by_sizes(learning, of_all, of_size(x[places], coded)))
    print(f"{len(drawn)} convolutions with known kernels, {known.sum()} timings, {(held > 0).sum()} kept apart")
    for place, op in enumerate(OPS):
        chosen = (held > 0) & (table[:, 0] == place)
        errors = {name: Errors.of(times[chosen], held[chosen]) for name, times in found.items()}
        texts = [f"{name} {error.median:.1%}, {error.p90:.1%}" for name, error in errors.items()]
        print(f"{op} ({chosen.sum()}), median and P90: {'; '.join(texts)}", flush=True)


if __name__ == "__main__":
    main()
