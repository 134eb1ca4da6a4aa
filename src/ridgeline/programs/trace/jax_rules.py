"""Work of a JAX program's primitives other than products: elementwise, reductions, indexing, sorting, random numbers, transforms.

One rule serves every primitive of `jax.lax` whose inputs broadcast to its result and that has no rule of its own: each input is
read once, the result is written once. Flops per element are those of the operator of the same name in profiles of PyTorch.
"""

from __future__ import annotations

from functools import cache
from math import log2, prod

from ...core.timeline import Call, Tensor
from ...core.trace import LIBRARY, MOVE, POINTWISE, REDUCTION
from .. import ops
from ..aten.arguments import elements
from ..aten.building import distinct, streamed, with_moves
from ..aten.elementwise import costs, timed_as
from ..aten.formats import COMPLEX, REAL, format_of, known, promoted, width
from ..aten.memory import copied
from .jax_case import NOTHING, ON_HOST, Case, Count, Rule, done, looked_up, unknown

# Primitives by the operator of profiles whose flops they have, where the names differ.
SAME_AS = {
    "logistic": "sigmoid", "add_any": "add", "max": "maximum", "min": "minimum", "rem": "fmod", "select_n": "where",
    "erf_inv": "erfinv", "is_finite": "isfinite", "copy": "where", "real": "where", "imag": "where", "complex": "complex",
    "bitcast_convert_type": "where", "reduce_precision": "where", "conj": "_conj_physical",
}  # fmt: skip
REDUCTIONS = {
    "reduce_sum": "sum", "reduce_max": "amax", "reduce_min": "amin", "reduce_prod": "prod", "reduce_and": "all",
    "reduce_or": "any", "reduce_xor": "any", "argmax": "argmax", "argmin": "argmin", "reduce": "sum",
}  # fmt: skip
SCANS = {
    "cumsum": "cumsum",
    "cumprod": "cumprod",
    "cummax": "cumprod",
    "cummin": "cumprod",
    "cumlogsumexp": "logcumsumexp",
}
# Integer operations per 32-bit word: threefry mixes two words in 20 rounds of an addition, a rotation (two shifts, an or) and
# an exclusive or, adds two words of the key at the start and after every fourth round: (20 x 5 + 6 x 2) / 2. Philox makes four
# words in 10 rounds of two 64-bit products (a high and a low half each), four exclusive ors and two additions: 100 / 4.
THREEFRY, PHILOX = 56.0, 25.0


def pointwise(case: Case) -> Count:
    """Reads each input once, writes the result once."""
    out, read = case.outputs[0], tuple(tensor for tensor in case.tensors if not _is_uniform(tensor))
    name = SAME_AS.get(case.name, case.name)
    if any(format_of(tensor.dtype) is None for tensor in (*read, out)):
        return unknown(f"no width is known for the formats of {case.name}")
    row = promoted(read or case.tensors) if case.tensors else known(out)
    flops, special = _power(case, float(elements(out))) if name == "integer_pow" else costs(name, row, elements(out))
    reads: dict[str, Tensor | tuple[float, str]] = {f"x{place}": tensor for place, tensor in enumerate(read)}
    kernel = timed_as(name, read, out)
    work = streamed(case.name, reads, {"y": out}, row, flops, special, op=kernel, count=float(elements(out)))
    return done(work, POINTWISE)


def _is_uniform(tensor: Tensor) -> bool:
    """Whether all elements are one number, which a kernel is given as such."""
    return len(tensor.shape) > 0 and not any(tensor.strides) and len(tensor.strides) == len(tensor.shape)


def _power(case: Case, count: float) -> tuple[float, float]:
    """x^y by squaring: as many products as y has bits after the first, and as many again as it has ones after the first."""
    exponent = int(case.params["y"])
    size = abs(exponent)
    products = size.bit_length() - 1 + size.bit_count() - 1 if size else 0
    return (products + (exponent < 0)) * count, float(exponent < 0) * count


def cast(case: Case) -> Count:
    return done(copied(case.name, case.inputs[0], case.outputs[0]), POINTWISE)


def fill(case: Case) -> Count:
    """A constant, or a counter, written out."""
    row = known(case.outputs[0])
    return done(streamed(case.name, {}, {"y": case.outputs[0]}, row, op="fill"), POINTWISE)


@cache
def _of_lax(name: str) -> bool:
    import jax

    return hasattr(jax.lax, f"{name}_p") or name == "add_any"


def is_pointwise(case: Case) -> bool:
    """A primitive of jax.lax without inner programs whose inputs broadcast to its one result."""
    if len(case.outputs) != 1 or not _of_lax(case.name) or any("jaxpr" in name for name in case.params):
        return False
    shape = case.outputs[0].shape
    return all(
        not tensor.shape
        or (
            len(tensor.shape) == len(shape)
            and all(size in (1, into) for size, into in zip(tensor.shape, shape, strict=True))
        )
        for tensor in case.tensors
    )


# -- reductions ----------------------------------------------------------------------------------------------------------


def reduction(case: Case) -> Count:
    axes = tuple(int(axis) for axis in case.params.get("axes", case.params.get("dimensions", ())))
    if not axes:
        return pointwise(case)
    call = Call(f"aten::{REDUCTIONS[case.name]}", (case.inputs[0], axes, False), case.outputs[:1])
    return looked_up(call, REDUCTION, named=False)


def prefix(case: Case) -> Count:
    call = Call(f"aten::{SCANS[case.name]}", (case.inputs[0], int(case.params["axis"])), case.outputs)
    return looked_up(call, LIBRARY, named=False)


def window(case: Case) -> Count:
    """A reduction of every window: one flop per element of a window but the first, or with products one per element."""
    x, out = case.tensors[0], case.outputs[0]
    size = prod(case.params["window_dimensions"])
    flops = float(elements(out)) * max(size - 1, 0)
    reads: dict[str, Tensor | tuple[float, str]] = {f"x{place}": item for place, item in enumerate(case.tensors)}
    writes: dict[str, Tensor | tuple[float, str]] = {f"y{place}": item for place, item in enumerate(case.outputs)}
    if case.name.startswith("select_and"):  # for every source: the largest of its window
        flops = float(elements(x)) * size
    return done(streamed(case.name, reads, writes, known(x), flops, family="reduce"), REDUCTION)


# -- indexing ------------------------------------------------------------------------------------------------------------


def gather(case: Case) -> Count:
    """The elements that are selected, no more than are stored, and the indices read; the result written."""
    table, index, out = case.inputs[0], case.inputs[1], case.outputs[0]
    taken = min(elements(out), distinct(table))
    sizes = tuple(case.params["slice_sizes"])
    cols = prod(sizes)
    rows = elements(out) // max(cols, 1)
    touched = {0: taken * width(table)}
    if 1 < len(sizes) == len(table.shape) and sizes[0] == 1 and sizes[1:] == table.shape[1:] and rows:
        work = ops.embedding(rows=rows, vocab=table.shape[0], cols=cols, dtype=known(table).copied)
        moved = with_moves(work, read={"table": (float(taken), table.dtype), "index": index}, write={"y": out})
        return done(moved, POINTWISE, read=touched)
    reads: dict[str, Tensor | tuple[float, str]] = {"x": (float(taken), table.dtype)}
    if isinstance(index, Tensor):
        reads["index"] = index
    return done(streamed("gather", reads, {"y": out}, known(table)), POINTWISE, read=touched)


def scatter(case: Case) -> Count:
    """In place: the updates and indices read, as many elements written; those that are combined read first."""
    table, index, updates = case.inputs[:3]
    combined = case.name != "scatter"
    count = float(elements(updates) if isinstance(updates, Tensor) else 1)
    touched = (min(count, float(elements(table))), table.dtype)
    reads: dict[str, Tensor | tuple[float, str]] = {"updates": updates} if isinstance(updates, Tensor) else {}
    if isinstance(index, Tensor):
        reads["index"] = index
    if combined:
        reads["x"] = touched
    work = streamed(case.name, reads, {"x": touched}, known(table), count if combined else 0.0, count=count)
    moved = touched[0] * width(table)
    return done(work, MOVE, read={0: moved if combined else 0.0}, written={0: moved})


def update_slice(case: Case) -> Count:
    """In place: the slice and its place read, the slice written."""
    table, part = case.inputs[0], case.inputs[1]
    size = elements(part) if isinstance(part, Tensor) else 1
    written = (float(size), table.dtype)
    given = [item for item in case.inputs[1:] if isinstance(item, Tensor)]
    reads: dict[str, Tensor | tuple[float, str]] = {f"x{place}": item for place, item in enumerate(given)}
    copies = isinstance(part, Tensor) and not _is_uniform(part)
    work = streamed(case.name, reads, {"y": written}, known(table), op="copy" if copies else "fill")
    return done(work, POINTWISE, read={0: 0.0}, written={0: size * width(table)})


def concatenate(case: Case) -> Count:
    tensors = case.tensors
    if len(tensors) < len(case.inputs) or any(_is_uniform(tensor) for tensor in tensors):
        return pad(case)
    dim = int(case.params.get("dimension", case.params.get("axis", 0)))
    return looked_up(Call("aten::cat", (tensors, dim), case.outputs), POINTWISE, named=False)


def pad(case: Case) -> Count:
    """Every input read once, the result written."""
    reads: dict[str, Tensor | tuple[float, str]] = {f"x{place}": item for place, item in enumerate(case.tensors)}
    return done(streamed(case.name, reads, {"y": case.outputs[0]}, known(case.outputs[0])), POINTWISE)


# -- selection, random numbers, transforms -------------------------------------------------------------------------------


def _row_format(tensor: Tensor) -> str:
    row = known(tensor)
    return row.name if row.kind == REAL else row.copied


def sort(case: Case) -> Count:
    """Every array read and written once, in the order of the first keys; comparisons are not flops."""
    first = case.tensors[0]
    cols = first.shape[int(case.params["dimension"])] if first.shape else 1
    work = ops.sort(rows=max(elements(first) // max(cols, 1), 1), cols=max(cols, 1), dtype=_row_format(first))
    reads: dict[str, Tensor | tuple[float, str]] = {f"x{place}": item for place, item in enumerate(case.tensors)}
    writes: dict[str, Tensor | tuple[float, str]] = {f"y{place}": item for place, item in enumerate(case.outputs)}
    return done(with_moves(work, reads, writes, without=("x", "values", "places")), LIBRARY)


def top_k(case: Case) -> Count:
    x, values = case.inputs[0], case.outputs[0]
    cols, k = x.shape[-1], values.shape[-1] if values.shape else 1
    work = ops.topk(rows=max(elements(x) // max(cols, 1), 1), cols=cols, k=k, dtype=_row_format(x))
    return done(with_moves(work, {"x": x}, {"values": values, "places": case.outputs[-1]}), LIBRARY)


def random_bits(case: Case) -> Count:
    """Words of random bits: integer operations per word by the generator, the results written."""
    each = PHILOX if "philox" in case.name or case.name == "rng_bit_generator" else THREEFRY
    outputs = [tensor for tensor in case.outputs if elements(tensor)]
    words = sum(elements(tensor) * max(width(tensor) / 4, 1.0) for tensor in outputs)
    reads: dict[str, Tensor | tuple[float, str]] = {f"x{place}": item for place, item in enumerate(case.tensors)}
    writes: dict[str, Tensor | tuple[float, str]] = {f"y{place}": item for place, item in enumerate(outputs)}
    return done(streamed(case.name, reads, writes, known(Tensor((), "int32")), each * words), POINTWISE)


def fft(case: Case) -> Count:
    """5 N log2 N flops per complex transform of N points, half of that for real ones; the array read and written once."""
    x, out = case.inputs[0], case.outputs[0]
    points = prod(case.params["fft_lengths"])
    real = known(x).kind != COMPLEX or known(out).kind != COMPLEX
    full = max(elements(x), elements(out)) if not real else elements(x if known(x).kind != COMPLEX else out)
    flops = (2.5 if real else 5.0) * full * log2(max(points, 2))
    return done(streamed("fft", {"x": x}, {"y": out}, known(x), flops), LIBRARY)


def factorization(case: Case) -> Count:
    """Flops of the dense algorithms for n x n matrices: Cholesky n^3/3, LU 2n^3/3, triangular solve n^2 per right-hand side.

    QR of m x n: 2 n^2 (m - n/3), and as many again for Q. Whether a library reaches a rate near a product's is not known.
    """
    x, out = case.tensors[0], case.outputs[0]
    n, batch = x.shape[-1], prod(x.shape[:-2])
    each = {
        "cholesky": n**3 / 3,
        "lu": 2 * n**3 / 3,
        "triangular_solve": float(n**2 * elements(out) / max(batch * n, 1)),
        "geqrf": 2 * n**2 * (x.shape[-2] - n / 3),
        "householder_product": 2 * n**2 * (x.shape[-2] - n / 3),
        "qr": 4 * n**2 * (x.shape[-2] - n / 3),
    }[case.name]
    reads: dict[str, Tensor | tuple[float, str]] = {f"x{place}": item for place, item in enumerate(case.tensors)}
    writes: dict[str, Tensor | tuple[float, str]] = {f"y{place}": item for place, item in enumerate(case.outputs)}
    return done(streamed(case.name, reads, writes, known(x), float(batch * each)), LIBRARY)


RULES: dict[str, Rule] = {
    "convert_element_type": cast, "iota": fill, "broadcast_in_dim": fill, "gather": gather,
    **dict.fromkeys(REDUCTIONS, reduction), **dict.fromkeys(SCANS, prefix),
    **dict.fromkeys(("reduce_window", "reduce_window_sum", "reduce_window_max", "reduce_window_min"), window),
    **dict.fromkeys(("select_and_scatter", "select_and_scatter_add", "select_and_gather_add"), window),
    **dict.fromkeys(("scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max", "scatter-sub"), scatter),
    "dynamic_update_slice": update_slice, "concatenate": concatenate, "stack": concatenate, "tile": pad, "pad": pad,
    "sort": sort, "top_k": top_k, "approx_top_k": top_k, "fft": fft,
    **dict.fromkeys(("random_bits", "threefry2x32", "threefry4x32", "philox2x32", "philox4x32", "rng_bit_generator"), random_bits),
    **dict.fromkeys(("random_split", "random_fold_in", "random_seed", "iota_2x32_shape", "rng_uniform"), random_bits),
    **dict.fromkeys(("cholesky", "lu", "triangular_solve", "geqrf", "householder_product", "qr"), factorization),
    **dict.fromkeys(("axis_index", "create_token", "after_all", "empty", "empty2", "platform_index", "dce_sink"), lambda _: NOTHING),
    **dict.fromkeys(("pure_callback", "io_callback", "debug_callback", "debug_print"), lambda _: ON_HOST),
}  # fmt: skip
