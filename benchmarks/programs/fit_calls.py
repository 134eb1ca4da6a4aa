"""Fit kernels of the H200 to the calls that `single_calls.py` recorded, and write them beside its other coefficients.

    python benchmarks/programs/fit_calls.py FILE [FILE ...] [--only group_norm,upsample] [--dry]

A call of several kernels is taken apart by the order or the names of its recorded kernels. Of the 16-bit formats bf16 is fitted, and
serves fp16, which runs the same kernels over the same bytes: its timings are a check.
Every fit is judged on timings that it did not have.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from single_calls import read, settings

from ridgeline.core.families import Key, formula, keys
from ridgeline.core.families.product import BIASED
from ridgeline.core.fitted import Fitted
from ridgeline.core.machine import Machine
from ridgeline.core.timeline import Call
from ridgeline.core.work import Kernel
from ridgeline.machines import coefficients
from ridgeline.machines import load as machines
from ridgeline.prediction.coefficients import kernels
from ridgeline.prediction.fit import Group, fit, group
from ridgeline.prediction.hardware import hardware
from ridgeline.programs.aten import count

SOURCE = (
    "timed on an H200 by ridgeline (torch.profiler device time, cold caches, PyTorch 2.11), 2026-11-17 to 2026-11-19"
)
HALVES = ("bf16", "fp16")
MIN_TIMINGS = 12
SAME = 0.05  # the most that times of two formats of one width differ by
FIRST_APART = (
    "_softmax",
    "_log_softmax",
    "native_group_norm",
    "native_group_norm_backward",
    "index_add",
    "scatter_add",
)
LAST_APART = ("_index_put_impl_",)  # whose first kernel is all but the last: sorting takes several
OPS = (  # how the names of the kernels begin that are fitted here
    *(
        "group_",
        "upsample_",
        "avg_pool2d",
        "softmax_across",
        "index_add_adding",
        "index_put_adding",
        "scatter_add_adding",
    ),
    *(
        "gather",
        "constant_pad_nd",
        "roll",
        "mse_loss_backward",
        "columns",
        "nll_loss",
        "index",
        "sum_between",
        "sum_around",
        "biased",
    ),
)
TALL = "rows-tall.layernorm_backward"
SUMS = "rows-parted.sum_columns"
START = {"stream": "strided", "rows": "sum_rows", "reduce": "sum", "scan": ""}
FAMILIES = tuple(START)  # of ops that are fitted where no table has them
START_OF_OP = {"sum_between": "sum_columns", "index": "embedding"}


def timed_kernels(call: Call, row: dict[str, Any]) -> Iterator[tuple[Kernel, float]]:
    """The kernels of a call, each with the seconds it took."""
    work, base = count(call, settings(row)).work, call.name.partition("::")[2]
    if work is None or row.get("time_us", 0) <= 0:
        return
    listed = [kernel for step in work.steps for kernel in kernels(step.work)]
    if len(listed) == 1:
        times = [row["time_us"] / float(np.max(np.asarray(work.steps[0].count)))]
    elif len(listed) == 2 and base in FIRST_APART:
        times = [row["kernels"][0][1], row["time_us"] - row["kernels"][0][1]]
    elif len(listed) == 2 and base in LAST_APART:
        times = [row["time_us"] - row["kernels"][-1][1], row["kernels"][-1][1]]
    else:
        return
    for kernel, time in zip(listed, times, strict=True):
        if time > 0:
            yield kernel, time * 1e-6


def groups(files: Sequence[Path], machine: Machine) -> dict[Key, Group]:
    """Timings by the key of their kernel."""
    listed: dict[Key, list[tuple[Kernel, float]]] = defaultdict(list)
    for path in files:
        for call, row in read(path):
            for kernel, seconds in timed_kernels(call, row):
                (key, _), *_ = keys(kernel.family, kernel.sizes, kernel.dtype, kernel.op)
                listed[key].append((kernel, seconds))
    made: dict[Key, Group] = {}
    for key, timings in listed.items():
        known = hardware(machine, key.dtypes[0])
        if known is None:
            continue
        names = set.intersection(*(set(kernel.sizes) for kernel, _ in timings))
        sizes = {name: np.array([float(kernel.sizes[name]) for kernel, _ in timings]) for name in sorted(names)}
        made[key] = Group(formula(key), known, sizes, np.array([seconds for _, seconds in timings]))
    return made


def _optional(key: Key, timed: Group) -> tuple[str, ...]:
    if key.op == "sum_between":
        return ("deep", "chain")
    return ("chain",) if "steps" in timed.sizes else ("deep",) if "tall" in key.variant else ()


def wanted(key: Key, only: Sequence[str]) -> bool:
    ours = key.op.startswith(OPS) or str(key).startswith(TALL)
    return ours and (not only or any(part in str(key) for part in only))


def of_ops(timed: dict[Key, Group], machine: Machine, only: Sequence[str]) -> dict[Key, Fitted]:
    """Ops that nothing else was timed for, one fit for all variants of an op."""
    by_op: dict[Key, list[Key]] = defaultdict(list)
    in_tables = {
        (key.family, key.op)
        for key, row in machine.fitted.items()
        if not row.borrowed and "torch.profiler" not in row.source
    }
    for key in timed:
        plain = key._replace(variant="")
        if (
            plain not in in_tables
            and key.op
            and key.family in FAMILIES
            and not wanted(key, ())
            and (not only or plain.op in only)
        ):
            by_op[plain].append(key)
    made: dict[Key, Fitted] = {}
    for plain, members in sorted(by_op.items(), key=lambda item: str(item[0])):
        like = machine.fitted.get(plain._replace(op=START[plain.family]))
        start = like.coefficients if like else None
        row = fit(
            [timed[key] for key in members], SOURCE, _optional(plain, timed[members[0]]), start, True, MIN_TIMINGS
        )
        if row is not None:
            print(f"{plain}: {row.cases} timings, {row.errors}", file=sys.stderr, flush=True)
            made |= dict.fromkeys((plain, *members), row)
    for key in [key for key in made if key.dtype == HALVES[0]]:
        made.setdefault(key._replace(dtype=HALVES[1]), made[key])
    return made


def fitted_to(timed: dict[Key, Group], machine: Machine, only: Sequence[str]) -> dict[Key, Fitted]:
    joined: dict[Key, list[Group]] = defaultdict(list)
    for key, timings in timed.items():
        if wanted(key, only) and not (key.dtype == HALVES[1] and key._replace(dtype=HALVES[0]) in timed):
            joined[key].append(timings)
    made: dict[Key, Fitted] = {}
    for key, members in sorted(joined.items(), key=lambda item: str(item[0])):
        plain = machine.fitted.get(key._replace(op="")) if key.op == BIASED else None
        like = plain or machine.fitted.get(
            key._replace(variant="", op=START_OF_OP.get(key.op, START.get(key.family, key.op)))
        )
        start = like.coefficients if like else None
        row = fit(members, SOURCE, _optional(key, members[0]), start, True, MIN_TIMINGS)
        print(
            f"{key}: {row.cases} timings, {row.errors}" if row else f"{key}: too few timings",
            file=sys.stderr,
            flush=True,
        )
        if row is not None:
            made[key] = row
            if key.variant == "narrow" and len(timed.get(key._replace(variant=""), ())) < MIN_TIMINGS:
                made[key._replace(variant="")] = row
            for each in [each for each in made if each.dtype == HALVES[0]]:
                made[each._replace(dtype=HALVES[1])] = made[each]
    return made


def shared(timed: dict[Key, Group], known: Mapping[Key, Fitted]) -> dict[Key, Fitted]:
    """Kernels that were fitted in bf16 before, under fp16 too where calls show that both take as long."""
    made: dict[Key, Fitted] = {}
    for key, timings in timed.items():
        twin = key._replace(dtype=HALVES[0])
        row = known.get(twin)
        if key.dtype != HALVES[1] or key in known or row is None or row.borrowed or twin not in timed:
            continue
        if len(timings) == len(timed[twin]):
            ratio = float(np.median(timings.times / timed[twin].times))
            print(f"{key}: {ratio:.2f} of bf16, {len(timings)} pairs", file=sys.stderr, flush=True)
            if abs(ratio - 1) < SAME:
                made[key] = row
    return made


def sums(timed: dict[Key, Group], machine: Machine) -> dict[Key, Fitted]:
    """Sums over columns that several blocks share, fitted again to these calls and to the timings that they were fitted to before."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from fit_h200 import CALIBRATIONS
    from judge_h200 import DATA, rows

    cases = [row for name in CALIBRATIONS for row in rows(DATA / name) if row["op"] == "sum_columns"]
    before, made = group(cases, machine, lambda kernel: True), dict[Key, Fitted]()
    for key in (Key.parse(f"{SUMS}.{dtype}") for dtype in (HALVES[0], "fp32")):
        served = (key, key._replace(dtype=HALVES[1])) if key.dtype == HALVES[0] else (key,)
        members = [*(before[each] for each in served if each in before), timed[key]]
        row = fit(
            members,
            f"{machine.fitted[key].source.split('; ')[0]}; {SOURCE}",
            ("deep", "chain"),
            machine.fitted[key].coefficients,
            True,
        )
        if row is not None:
            print(f"{key}: {row.cases} timings, {row.errors}", file=sys.stderr, flush=True)
            made |= dict.fromkeys(served, row)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--only", default="")
    parser.add_argument("--dry", action="store_true")
    given = parser.parse_args()
    machine = machines.load("h200-sxm")
    only = [part.strip() for part in given.only.split(",") if part.strip()]
    timed = groups(given.files, machine)
    made = fitted_to(timed, replace(machine), only) if only != [HALVES[1]] else {}
    made |= of_ops(timed, machine, only)
    made |= shared(timed, coefficients.of_machine("h200-sxm"))
    if not only or SUMS in only:
        made |= sums(timed, machine)
    if not given.dry:
        coefficients.write(
            coefficients.FOLDER / "h200-sxm.json", {"fitted": coefficients.of_machine("h200-sxm") | made}
        )


if __name__ == "__main__":
    main()
