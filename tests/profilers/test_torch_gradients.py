"""The gradients of a step, which stand for lists of parameters that the profiler leaves out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ridgeline.profilers.load import timeline


def accumulate(start: float, shape: list[int]) -> dict[str, Any]:
    args = {"Input Dims": [shape], "Input type": ["float"], "External id": int(start)}
    return {"ph": "X", "cat": "cpu_op", "name": "torch::autograd::AccumulateGrad", "pid": 1, "tid": 1, "ts": start, "dur": 2.0, "args": args}  # fmt: skip


def step(start: float, shapes: list[list[int]]) -> list[dict[str, Any]]:
    """A marked step of 100 us with one kernel, and a gradient every 5 us."""
    mark = {
        "ph": "X",
        "cat": "user_annotation",
        "name": f"ProfilerStep#{int(start)}",
        "pid": 1,
        "tid": 1,
        "ts": start,
        "dur": 99.0,
    }
    op = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::relu",
        "pid": 1,
        "tid": 1,
        "ts": start + 1,
        "dur": 8.0,
        "args": {"External id": int(start) + 1, "Input Dims": [[8]], "Input type": ["float"]},
    }
    launch = {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": "cudaLaunchKernel",
        "pid": 1,
        "tid": 1,
        "ts": start + 2,
        "dur": 3.0,
        "args": {"correlation": int(start), "External id": int(start) + 1},
    }
    kernel = {
        "ph": "X",
        "cat": "kernel",
        "name": "relu_kernel",
        "pid": 0,
        "tid": 7,
        "ts": start + 10,
        "dur": 50.0,
        "args": {"correlation": int(start), "External id": int(start) + 1, "device": 0, "stream": 7},
    }
    return [mark, op, launch, kernel, *(accumulate(start + 20 + 5 * place, shape) for place, shape in enumerate(shapes))]  # fmt: skip


def gradients(tmp_path: Path, *steps: list[list[int]]) -> list[tuple[int, ...]]:
    events = [event for place, shapes in enumerate(steps) for event in step(1000.0 + 100 * place, shapes)]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    line = timeline(path)
    assert line.host_events == sum(event["cat"] != "kernel" for event in events)
    assert all(tensor.dtype == "fp32" for tensor in line.gradients)
    return [tensor.shape for tensor in line.gradients]


def test_the_gradients_are_those_of_one_step(tmp_path: Path) -> None:
    shapes = [[64, 32], [64], [10, 64]]
    assert gradients(tmp_path, shapes, shapes, shapes) == [(64, 32), (64,), (10, 64)]


def test_several_backward_passes_in_a_step_count_once(tmp_path: Path) -> None:
    shapes = [[64, 32], [64]]
    assert gradients(tmp_path, shapes * 2, shapes * 2) == [(64, 32), (64,)]


def test_steps_that_differ_say_nothing_about_the_parameters(tmp_path: Path) -> None:
    assert gradients(tmp_path, [[64], [32]], [[64], [16]]) == []
    assert gradients(tmp_path, [[64], [32]], [[64]]) == []
