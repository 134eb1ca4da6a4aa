"""The next move for one predicted case: what would make it faster, priced; nothing where no move is known to pay."""

from __future__ import annotations

import math

from ..core.dtypes import dtype as dtype_row
from ..core.errors import RidgelineError
from ..core.units import show
from ..core.work import READ, WRITE
from . import whatif
from .answer import Answer, first_number
from .answer_line import unit_name
from .plain import plain
from .precisions import QUANTIZED
from .predict import predict
from .whatif.case import tensor_of

MIN_SPEEDUP = 1.05
MAX_MOVES = 2
PER_LAUNCH = 8  # cases in one launch, of which a launch-bound op is priced
FUSIBLE = ("stream", "rows", "reduce", "transpose")  # families that compilers and libraries fuse into their neighbours
UNITS = {"m": "row", "batch": "sample", "tokens": "token"}  # what one more of a size is


def next_move(answer: Answer) -> str | None:
    """At most two moves, the larger gain first, each with its price; None where none pays."""
    bound = str(plain(answer.bound.bound, 0))
    moves = _stored_wider(answer) if _unpacks(answer) else []
    moves += {"memory": _memory_moves, "overhead": _overhead_moves}.get(bound, _compute_moves)(answer)
    paying = sorted((move for move in moves if move[0] >= MIN_SPEEDUP), reverse=True)
    return "; ".join(text for _, text in paying[:MAX_MOVES]) or None


def _priced(answer: Answer, change: str, text: str) -> list[tuple[float, str]]:
    """The speedup of a change of `whatif` and its text; empty where the change does not apply."""
    options = {name: value for name, value in answer.options.items() if value is not None}
    try:
        case = whatif.Case(answer.prediction.machine, answer.op, answer.values, options=options)
        after = whatif.apply(case, whatif.parse(change))[-1]
    except RidgelineError:
        return []
    each = " each" if after.case.amount != 1 else ""
    if after.why and after.spared > 0:
        spares = f"{text}: spares the device {show(after.spared, 's')} of waiting for the host each"
        return [((after.unit_time + after.spared) / after.unit_time, spares)]
    return [(after.ratio, f"{text}: {show(after.unit_time, 's')}{each} ({after.ratio:.3g}x faster)")]


def _unpacks(answer: Answer) -> bool:
    """Whether weights are stored narrower than the arithmetic, so that kernels unpack them."""
    stored, dtype = answer.values.get("weights"), answer.prediction.work.dtype
    return stored is not None and dtype_row(stored).bits < dtype_row(dtype).bits


def _stored_wider(answer: Answer) -> list[tuple[float, str]]:
    """Weights that need no unpacking, and the fastest of the other libraries whose kernels for such weights were timed."""
    prediction, dtype = answer.prediction, answer.prediction.work.dtype
    moves = _priced(answer, f"quantize=weights:{dtype}", f"{dtype} weights")
    unpacking = {(kernel.family, kernel.dtype) for kernel in prediction.work.kernels}
    libraries = {key.backend for key in prediction.machine.fitted if (key.family, key.dtype) in unpacking}
    now = first_number(prediction.time)
    for name in sorted(libraries - {"", answer.options.get("backend")}):
        there = first_number(predict(prediction.work, prediction.machine, **{**answer.options, "backend": name}).time)
        moves.append((now / there, f"--backend {name}: {show(there, 's')} ({now / there:.3g}x faster)"))
    return [*moves[:1], *sorted(moves[1:], reverse=True)[:1]]


def _memory_moves(answer: Answer) -> list[tuple[float, str]]:
    params, values = answer.op.params, answer.values
    narrow = _narrower(answer)
    moves = _priced(answer, "tile", "keep the intermediates on chip")
    moves += _larger(answer)
    for stored, name in (("weights", "weights"), ("kv", "KV cache")):
        if stored in params and values.get(stored) is None and narrow:
            moves += _priced(answer, f"quantize={stored}:{narrow}", f"{narrow} {name}")
    return moves + _fusion(answer)


def _larger(answer: Answer) -> list[tuple[float, str]]:
    """The size at which the op becomes compute-bound, with the time per unit of it there and now."""
    turning = answer.turning
    if turning is None or math.isinf(turning.at) or answer.op.name == "attention":
        return []
    size, value = turning.size, turning.at
    now = float(answer.prediction.work.shape[size])
    if now >= value:
        return []
    there = predict(answer.op(**{**answer.values, size: value}), answer.prediction.machine, **answer.options)
    before, after = first_number(answer.prediction.time) / now, first_number(there.time) / value
    unit = UNITS.get(size, f"unit of {size}")
    text = f"{size} >= {value:.0f} makes it compute-bound: {show(after, 's')} per {unit}, now {show(before, 's')}"
    return [(before / after, text)]


def _fusion(answer: Answer) -> list[tuple[float, str]]:
    """What fusing with the kernel before or after would save: the larger tensor is neither written nor read."""
    work, machine = answer.bound.work, answer.prediction.machine
    term = answer.bound.terms.get(machine.main.name)
    if term is None or answer.op.family not in FUSIBLE or answer.op.category == "stream":
        return []
    try:
        sizes = {way: first_number(work.tensor_sizes()[tensor_of(work, way)]) for way in (READ, WRITE)}
    except RidgelineError:
        return []
    way = READ if sizes[READ] > sizes[WRITE] else WRITE
    saved = sizes[way] / first_number(term.rate)
    time = first_number(answer.prediction.time)
    other = "the kernel that writes its input" if way == READ else "the kernel that reads its result"
    text = f"fuse with {other}: saves {show(2 * sizes[way], 'B')} of {unit_name(machine, machine.main.name)} traffic"
    return [(time / max(time - saved, 1e-300), f"{text}, {show(2 * saved, 's')} over both kernels")]


def _overhead_moves(answer: Answer) -> list[tuple[float, str]]:
    machine = answer.prediction.machine
    graph = "CUDA graph" if machine.vendor == "NVIDIA" else "captured graph"
    moves = _priced(answer, "graph", f"launch from a {graph}") if machine.kind == "gpu" else []
    return moves + _priced(answer, f"batch={PER_LAUNCH}", f"batch {PER_LAUNCH} of them per launch")


def _compute_moves(answer: Answer) -> list[tuple[float, str]]:
    engine = str(plain(answer.bound.engine, 0) or "")
    moves = _priced(answer, "tensor", "use the tensor cores") if engine.startswith("vector") else []
    # no kernel that unpacks weights is known in narrower arithmetic
    narrow = None if _unpacks(answer) else _narrower(answer)
    if narrow and engine.startswith("tensor"):
        moves += _priced(answer, f"quantize={narrow}", f"{narrow} arithmetic, where accuracy allows")
    return [move for move in moves if math.isfinite(move[0])]


def _narrower(answer: Answer) -> str | None:
    """An 8-bit format that the machine computes in, for work in a wider one."""
    known, dtype = answer.prediction.machine.dtypes(), answer.prediction.work.dtype
    return next((name for name in QUANTIZED if name in known), None) if dtype in ("bf16", "fp16") else None
