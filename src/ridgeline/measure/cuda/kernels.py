"""Kernel times on an NVIDIA GPU: the default PyTorch path of an op, its device time with cold caches, over many shapes.

    python -m ridgeline.measure.cuda.kernels --out FOLDER

A case is a dict of an op's name, dtype and sizes, as in a table of cases. `cases` draws them, `calls` makes a library
call of each, `timing` records and sums its kernels; the result is a CSV table with one flat row per case.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...core.errors import RidgelineError
from ...core.files import write_text
from ...core.statistics import median, spread
from ...core.tabular import csv_text
from ...programs import cases
from ...programs.ops import Op
from .cases import calibration_cases, random_cases
from .conditions import summary
from .draw import Case
from .timing import Bench, Timed, chunks, open_gpu

SIZES = (
    *("batch", "m", "n", "k", "in_features", "out_features", "rows", "cols", "vocab"),
    *("channels", "pixels", "inner", "parts"),
    *("c_in", "c_out", "h", "w", "kernel", "stride", "padding", "groups", "dilation"),
    *("heads", "kv_heads", "seq_q", "seq_kv", "head_dim", "window", "tokens", "experts", "topk", "hidden", "inter"),
)
WORDS = ("out_dtype", "weights", "causal", "momentum", "variant", "layout", "other", "parameters", "backend")
RESULTS = ("time_us", "best_us", "span_us", "spread", "kernels", "kernel_name", "sm_clock", "power", "reason")
COLUMNS = ("op", "dtype", *SIZES, *WORDS, *RESULTS)
CALIBRATION_SHARE = 0.7  # of the time where random cases are timed too, so that the test set gets its time


def read_cases(path: Path) -> list[Case]:
    """Cases from a table such as `rows` writes; results in it are left aside."""
    given = cases.read(path)
    bound = cases.checked(given, str(path))
    without = [place for place, (_, values) in enumerate(bound) if "dtype" not in values]
    cases.refuse(dict.fromkeys(without, ("column dtype: is empty; a timing is of one dtype",)), str(path))
    return [_case(op, values, row.get("backend")) for (op, values), row in zip(bound, given, strict=True)]


def _case(op: Op, values: Mapping[str, Any], backend: Any) -> Case:
    kinds = {name: {"Flag": bool, "Size": int, "Count": int}.get(op.params[name].kind, str) for name in values}
    case = {"op": op.name, **{name: kinds[name](value) for name, value in values.items()}}
    return {**case, "backend": str(backend).strip()} if backend else case


def rows(timed: Iterable[Timed]) -> list[dict[str, Any]]:
    """One flat row per case: its parameters, then median, best and span in microseconds; what is not known is absent."""
    flat = []
    for each in timed:
        row = {key: ("no", "yes")[value] if isinstance(value, bool) else value for key, value in each.case.items()}
        if each.samples:
            row |= {
                "time_us": round(median(each.samples) * 1e6, 3),
                "best_us": round(min(each.samples) * 1e6, 3),
                "span_us": round(median(each.span) * 1e6, 3),
                "spread": round(spread(each.samples), 4),
                "kernels": len(each.kernels),
                "kernel_name": max(each.kernels, key=lambda kernel: kernel[1])[0],
                **each.conditions,
            }
        if each.reason:
            row["reason"] = each.reason
        flat.append(row)
    return flat


def table(flat: Sequence[dict[str, Any]]) -> str:
    """Rows as CSV, with the columns that any of them uses."""
    return csv_text(flat, [name for name in COLUMNS if any(name in row for row in flat)])


def collect(
    cases: Sequence[Case], path: Path, bench: Bench, until: float, repeats: int, tell: Callable[[str], None]
) -> int:
    """Time the cases and rewrite the file after every chunk, so that an early end keeps them; how many were timed."""
    flat: list[dict[str, Any]] = []
    for chunk in chunks(cases, bench, repeats, until):
        flat += rows(chunk)
        write_text(path, table(flat))
        tell(f"{path.name}: {len(flat)} of {len(cases)}, {sum('reason' in row for row in flat)} without a time")
    return len(flat)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m ridgeline.measure.cuda.kernels", description=(__doc__ or "").split("\n")[0]
    )
    files = "folder for calibration.csv, random.csv or cases.csv, and conditions.json"
    parser.add_argument("--out", type=Path, required=True, help=files)
    parser.add_argument("--what", choices=("calibration", "random", "both"), default="both")
    parser.add_argument("--cases", type=Path, help="a table of cases to time instead (columns as they are written)")
    parser.add_argument("--seed", type=int, default=2, help="of the random cases")
    parser.add_argument("--count", type=int, default=1000, help="random cases")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--only", default="", help="families of the plan, by the start of their name, separated by commas"
    )
    parser.add_argument("--quick", action="store_true", help="an eighth of the calibration")
    parser.add_argument(
        "--rest-ms", type=float, default=0.0, help="idle time before each call, for the clock to recover"
    )
    parser.add_argument("--limit-s", type=float, default=480.0, help="seconds after which no further chunk begins")
    return parser.parse_args(arguments)


def _only(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple(name.strip() for name in options.only.split(",") if name.strip())


def _plan(options: argparse.Namespace, given: list[Case] | None) -> dict[str, tuple[list[Case], float]]:
    """The cases by the name of their file, each with the share of the time by which it must be done."""
    if given is not None:
        return {"cases": (given, 1.0)}
    plan: dict[str, tuple[list[Case], float]] = {}
    if options.what != "random":
        share = 1.0 if options.what == "calibration" else CALIBRATION_SHARE
        plan["calibration"] = calibration_cases(options.quick, only=_only(options)), share
    if options.what != "calibration":
        plan["random"] = random_cases(options.count, options.seed, only=_only(options)), 1.0
    return plan


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    begin = time.perf_counter()

    def tell(text: str) -> None:
        print(f"{time.perf_counter() - begin:6.1f} s  {text}", file=sys.stderr, flush=True)

    try:
        given = read_cases(options.cases) if options.cases else None
        gpu, watch, conditions = open_gpu()
        plan = _plan(options, given)
        gpu.rest = options.rest_ms / 1e3
        conditions |= {"seed": options.seed, "repeats": options.repeats, "rest_ms": options.rest_ms, "done": {}}
        options.out.mkdir(parents=True, exist_ok=True)
        tell(f"{conditions['device']}: {', '.join(f'{len(cases)} {name} cases' for name, (cases, _) in plan.items())}")

        def write_conditions() -> None:
            write_text(options.out / "conditions.json", json.dumps(conditions, indent=1) + "\n")

        write_conditions()  # now and after each part, so that an early end keeps them
        with watch:
            for name, (cases, share) in plan.items():
                until = begin + share * options.limit_s
                count = collect(cases, options.out / f"{name}.csv", gpu, until, options.repeats, tell)
                conditions["done"][name] = count
                conditions["seen"] = summary(watch.readings)
                write_conditions()
    except RidgelineError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
