"""What traces of programs add up to, for tests."""

from __future__ import annotations

from collections import Counter

from ridgeline.core.trace import HOLDS, WORK, Trace


def names(trace: Trace, kind: str = WORK, phase: str = "") -> Counter[str]:
    """How often each operator runs."""
    ops = [trace.ops[index] for index in trace.op]
    return Counter(
        op.site.call.name.removeprefix("aten::")
        for op in ops
        if op.kind == kind and (not phase or op.site.phase == phase)
    )


def matrix_flops(trace: Trace) -> float:
    """FLOPs of products, convolutions and attention."""
    counts = zip(trace.ops, trace.counts, strict=True)
    return sum(
        float(value) * count
        for op, count in counts
        if op.work is not None
        for (engine, _, _), value in op.work.counts.items()
        if engine == "matrix"
    )


def held(trace: Trace, holds: str) -> float:
    """Bytes of the buffers that hold something."""
    return float(trace.buffers.size[trace.buffers.holds == HOLDS.index(holds)].sum())


def peak(trace: Trace) -> float:
    """The largest number of bytes that results hold at once."""
    results = trace.buffers.born >= 0
    size, born, dies = (getattr(trace.buffers, name)[results] for name in ("size", "born", "dies"))
    return max(float(size[(born <= call) & (call < dies)].sum()) for call in range(len(trace)))


def gpu_state() -> tuple[bool, int]:
    """Whether this process has set up CUDA, and the bytes that it holds there: a trace changes neither."""
    import torch

    ready = torch.cuda.is_initialized()
    return ready, torch.cuda.memory_allocated() if ready else 0
