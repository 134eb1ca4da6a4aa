"""Traces written by hand, event by event, in the format torch.profiler exports on a GPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HOST, BACKWARD_THREAD = 1, 2


class MadeTrace:
    """Times in microseconds. A launch at `at` takes 2 us on the host; its kernel begins 5 us after it unless said."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.correlation = 0
        self.free = 0.0  # when the device has finished

    def span(self, category: str, name: str, at: float, length: float, thread: int = HOST, **args: Any) -> None:
        event = {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": 1,
            "tid": thread,
            "ts": float(at),
            "dur": float(length),
        }
        self.events.append({**event, "args": args})

    def op(self, name: str, at: float, length: float, thread: int = HOST, shapes: Sequence[Any] = ((4, 4),)) -> None:
        dims = [list(shape) for shape in shapes]
        types = ["float"] * len(dims)
        self.span("cpu_op", name, at, length, thread, **{"Input Dims": dims, "Input type": types})

    def range(self, name: str, at: float, length: float) -> None:
        self.span("user_annotation", name, at, length)

    def frame(self, name: str, at: float, length: float, thread: int = HOST) -> None:
        self.span("python_function", name, at, length, thread)

    def kernel(self, name: str, at: float, length: float, thread: int = HOST, call: str = "cudaLaunchKernel") -> None:
        """A launch and its kernel, which waits for those before it."""
        self.correlation += 1
        self.span("cuda_runtime", call, at, 2, thread, correlation=self.correlation)
        self.record(name, max(at + 5, self.free), length, self.correlation)

    def record(self, name: str, at: float, length: float, correlation: int, category: str = "kernel") -> None:
        args = {"correlation": correlation, "stream": 7, "device": 0}
        event = {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": float(at), "dur": float(length)}
        self.events.append({**event, "args": args})
        self.free = at + length

    def runtime(self, name: str, at: float, length: float, thread: int = HOST) -> int:
        """A call of the runtime that starts nothing by itself."""
        self.correlation += 1
        self.span("cuda_runtime", name, at, length, thread, correlation=self.correlation)
        return self.correlation

    def arrow(self, forward: float, backward: float) -> None:
        """From a forward op to its derivative, each by its start."""
        for phase, thread, at in (("s", HOST, forward), ("f", BACKWARD_THREAD, backward)):
            ident = len(self.events) // 2 if phase == "s" else self.events[-1]["id"]
            arrow = {"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "pid": 1, "tid": thread, "ts": float(at)}
            self.events.append({**arrow, "id": ident})

    def write(self, folder: Path) -> Path:
        path = folder / "trace.json"
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": self.events}), encoding="utf-8")
        return path


def training_step(trace: MadeTrace, at: float, marked: str = "") -> float:
    """A linear layer forward, backward, a clipped gradient and an optimizer step in 200 us; when it ends."""
    if marked:
        trace.range(marked, at, 200)
    trace.frame("train.py(14): step", at, 195)
    trace.frame("nn.Module: Linear_0", at + 5, 25)
    trace.frame("torch/nn/modules/linear.py(130): forward", at + 6, 22)
    trace.op("aten::linear", at + 7, 20)
    trace.op("aten::addmm", at + 8, 15, shapes=((8,), (16, 4), (4, 8)))
    trace.kernel("gemm_kernel", at + 9, 10)
    engine = "autograd::engine::evaluate_function: AddmmBackward0"
    trace.op(engine, at + 40, 50, BACKWARD_THREAD, ())
    trace.op("AddmmBackward0", at + 41, 30, BACKWARD_THREAD, ())
    trace.op("aten::mm", at + 42, 20, BACKWARD_THREAD)
    trace.kernel("gemm_kernel", at + 43, 12, BACKWARD_THREAD)
    trace.op("aten::sum", at + 75, 10, BACKWARD_THREAD)
    trace.kernel("reduce_kernel", at + 76, 3, BACKWARD_THREAD)
    trace.arrow(at + 8, at + 41)
    trace.op("aten::mul_", at + 100, 10)
    trace.kernel("elementwise_kernel", at + 101, 2)
    trace.range("Optimizer.step#AdamW.step", at + 120, 70)
    trace.op("aten::add_", at + 125, 10)
    trace.kernel("elementwise_kernel", at + 126, 2)
    return at + 200
