"""Calls of operators one at a time: recorded on a GPU, predicted, and fitted to.

    python benchmarks/programs/single_calls.py --list CALLS                        the calls of `call_shapes.py`
    python benchmarks/programs/single_calls.py --list CALLS --small calibration    those of `small_calls.py`
    python benchmarks/programs/single_calls.py --record CALLS --out FILE [--tf32]  on a GPU
    python benchmarks/programs/single_calls.py --compare FILE [--on h200-sxm]      anywhere

A call is an operator of PyTorch with its arguments as a trace has them: shapes, formats and strides of tensors, and numbers. Tensors are
filled with random numbers, indices with random places of what they index. Every call runs a few times, each after a kernel that
overwrites the L2; its time is the median over runs of the sum of its kernels by torch.profiler, without the first run.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ridgeline.core.timeline import Call, Tensor
from ridgeline.core.work import Program, Step
from ridgeline.programs.aten import Settings, count

REPEATS, FLUSH, BATCH = (
    4,
    128 * 2**20,
    100,
)  # runs of a call, bytes that each of them finds the L2 full of, calls of one profile
MARKER = "atan_kernel"  # the kernel between runs, which no program has
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}
TABLES = {"index": 0, "index_put": 0, "_unsafe_index": 0, "_index_put_impl_": 0, "_unsafe_index_put": 0}
ALONG = (
    *("index_select", "index_add", "index_add_", "index_copy", "index_copy_", "index_fill", "gather"),
    *("scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce"),
)
CONDITIONS = "measured"  # the key of the line that says when and on what a file was recorded
SETTINGS = Settings(False, True, "cuda", leaf=True)


# -- calls as text ------------------------------------------------------------------------------------------------------


def packed(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {"shape": value.shape, "dtype": value.dtype, "strides": value.strides}
    return [packed(item) for item in value] if isinstance(value, tuple) else value


def unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        return Tensor(tuple(value["shape"]), value["dtype"], tuple(value["strides"]))
    return tuple(unpacked(item) for item in value) if isinstance(value, list) else value


def text_of(call: Call, **more: Any) -> str:
    return json.dumps({"name": call.name, "args": packed(call.args), "outputs": packed(call.outputs), **more})


def read(path: Path) -> Iterator[tuple[Call, dict[str, Any]]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if CONDITIONS in row:
                continue
            yield Call(row.pop("name"), unpacked(row.pop("args")), unpacked(row.pop("outputs"))), row


# -- on a GPU -----------------------------------------------------------------------------------------------------------


def _filled(torch: Any, tensor: Tensor, below: int) -> Any:
    """A tensor of this layout; of integers those below a limit."""
    kind = getattr(torch, DTYPES.get(tensor.dtype, tensor.dtype))
    strides = tensor.strides or tuple(int(np.prod(tensor.shape[place + 1 :])) for place in range(len(tensor.shape)))
    room = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, strides, strict=True) if size)
    if kind.is_floating_point:
        stored = (
            torch.randn(room, device="cuda").to(kind) if room < 2**28 else torch.zeros(room, device="cuda", dtype=kind)
        )
    else:
        stored = torch.randint(0, max(below, 1), (room,), device="cuda").to(kind)
    return stored.as_strided(tensor.shape, strides)


def _limit(call: Call, place: int, inner: int) -> int:
    """Below which numbers the indices at an argument (and within a list) of a call lie."""
    base = call.name.partition("::")[2]
    if base in TABLES:
        return int(call.args[0].shape[inner])
    if base in ALONG:
        return int(call.args[0].shape[call.args[1]])
    if "max_pool" in base and base.endswith("backward"):
        return int(np.prod(call.args[1].shape[2:]))
    if base == "embedding":
        return int(call.args[0].shape[0])
    if base == "embedding_dense_backward":
        return int(call.args[2])
    if base.startswith("nll_loss"):
        scores = call.args[1] if base.endswith("backward") else call.args[0]
        return int(scores.shape[1] if len(scores.shape) > 1 else scores.shape[0])
    return 2


def _argument(torch: Any, call: Call, place: int, name: str) -> Any:
    value = call.args[place]
    if name == "device":
        return "cuda"
    if isinstance(value, str) and value.startswith("torch."):
        return getattr(torch, value.removeprefix("torch."))
    if isinstance(value, Tensor):
        return _filled(torch, value, _limit(call, place, 0))
    if isinstance(value, tuple) and any(isinstance(item, Tensor) for item in value):
        return [
            _filled(torch, item, _limit(call, place, inner)) if isinstance(item, Tensor) else item
            for inner, item in enumerate(value)
        ]
    return list(value) if isinstance(value, tuple) else value


def runnable(torch: Any, call: Call) -> Any:
    """A function without arguments that runs a call; the overload is the first of so many arguments that takes them."""
    packet = getattr(torch.ops.aten, call.name.partition("::")[2])
    error: Exception | None = None
    for overload in packet.overloads():
        operator = getattr(packet, overload)
        schema = operator._schema.arguments
        if len(schema) != len(call.args) or any(argument.is_out for argument in schema):
            continue
        given = [_argument(torch, call, place, argument.name) for place, argument in enumerate(schema)]
        plain = [value for value, argument in zip(given, schema, strict=True) if not argument.kwarg_only]
        named = {argument.name: value for value, argument in zip(given, schema, strict=True) if argument.kwarg_only}
        try:
            operator(*plain, **named)
            return lambda: operator(*plain, **named)
        except Exception as failed:  # another overload may fit
            error = failed
    raise error or LookupError(f"no overload of {call.name} has {len(call.args)} arguments")


def _device_events(profiler: Any) -> list[tuple[str, float]]:
    """Names and microseconds of what the device did, in order."""
    events = [event for event in profiler.profiler.kineto_results.events() if "CUDA" in str(event.device_type())]
    events = [event for event in events if event.duration_ns() > 0]
    return [(event.name(), event.duration_ns() / 1e3) for event in sorted(events, key=lambda item: item.start_ns())]


def _timed(torch: Any, calls: list[Call]) -> Iterator[tuple[Call, dict[str, Any]]]:
    """Each call with its time and kernels, or with why it failed."""
    flush = torch.zeros(FLUSH // 4, device="cuda")
    ran: list[Call] = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for call in calls:
            try:
                run = runnable(torch, call)
            except Exception as error:
                yield call, {"failed": f"{type(error).__name__}: {error}"[:200]}
                continue
            for _ in range(REPEATS):
                flush.atan_()
                run()
            flush.atan_()
            ran.append(call)
            del run
        torch.cuda.synchronize()
    pieces: list[list[tuple[str, float]]] = []
    for name, duration in _device_events(profiler):
        if MARKER in name:
            pieces.append([])
        elif pieces:
            pieces[-1].append((name, duration))
    if len(pieces) != (REPEATS + 1) * len(ran):
        yield from ((call, {"failed": "the profiler lost kernels of this batch"}) for call in ran)
        return
    for place, call in enumerate(ran):
        runs = pieces[(REPEATS + 1) * place :][1:REPEATS]
        totals = [sum(duration for _, duration in run) for run in runs]
        middle = runs[totals.index(sorted(totals)[len(totals) // 2])]
        kernels = [[name[:160], round(duration, 2)] for name, duration in middle]
        yield call, {"time_us": round(statistics.median(totals), 2), "kernels": kernels}


def settings(row: dict[str, Any]) -> Settings:
    """What a recorded call was run with."""
    return replace(SETTINGS, tf32=bool(row.get("tf32")))


def record(source: Path, out: Path, tf32: bool = False) -> None:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = tf32
    calls = [call for call, _ in read(source)]
    if tf32:
        calls = [call for call in calls if any(each.dtype == "fp32" for each in call.outputs)]
    began = time.perf_counter()
    with gzip.open(out, "wt", encoding="utf-8") as lines, torch.no_grad():
        for first in range(0, len(calls), BATCH):
            for call, row in _timed(torch, calls[first : first + BATCH]):
                lines.write(text_of(call, **row, **({"tf32": True} if tf32 else {})) + "\n")
            torch.cuda.empty_cache()
            print(f"{time.perf_counter() - began:.0f} s: {first + BATCH} of {len(calls)} calls", flush=True)


# -- anywhere -----------------------------------------------------------------------------------------------------------


def compare(path: Path, machine: str) -> None:
    """Errors by operator and timed kernel."""
    import ridgeline as rl

    on = rl.machine(machine)
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    for call, row in read(path):
        work = count(call, settings(row)).work if "time_us" in row else None
        if work is None or row["time_us"] <= 0:
            continue
        seconds = float(np.max(np.asarray(rl.predict(Program((Step(call.name, work, 1.0),)), on).time)))
        keys = "+".join(f"{kernel.family}.{kernel.op}.{kernel.dtype}" for kernel in work.kernels)
        errors[call.name, keys].append(seconds * 1e6 / row["time_us"] - 1)
    every = sorted(abs(error) for values in errors.values() for error in values)
    for (name, keys), values in sorted(errors.items()):
        middle, worst = statistics.median(values), max(values, key=abs)
        typical = statistics.median(map(abs, values))
        print(
            f"{name} {keys}: {len(values)} calls, median {100 * middle:+.0f} %, median error {100 * typical:.0f} %, worst {100 * worst:+.0f} %"
        )
    print(
        f"all {len(every)} calls: median error {100 * statistics.median(every):.0f} %, P90 {100 * np.quantile(every, 0.9):.0f} %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", type=Path)
    parser.add_argument("--small", choices=("calibration", "test"))
    parser.add_argument("--biased", choices=("calibration", "test", "usual", "usual-test"))
    parser.add_argument("--tf32", action="store_true", help="record products of fp32 in tf32")
    parser.add_argument("--other", choices=("calibration", "test"))
    parser.add_argument("--record", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--on", default="h200-sxm")
    given = parser.parse_args()
    if given.list:
        import biased_calls
        import call_shapes
        import other_calls
        import small_calls

        with gzip.open(given.list, "wt", encoding="utf-8") as lines:
            calls = small_calls.drawn(given.small) if given.small else call_shapes.drawn()
            if given.biased:
                calls = biased_calls.drawn(given.biased)
            if given.other:
                calls = other_calls.drawn(given.other)
            lines.writelines(text_of(call) + "\n" for call in calls)
    if given.record:
        record(given.record, given.out, given.tf32)
    if given.compare:
        compare(given.compare, given.on)


if __name__ == "__main__":
    main()
