"""Recurrent layers, Fourier transforms, distances, and writes into a part of a tensor."""

from __future__ import annotations

from dataclasses import replace
from math import log2, prod

from ...core.timeline import Tensor
from ...core.work import Work
from .. import ops
from .arguments import Arguments, Missing, elements
from .building import after, like, named, streamed
from .counted import Rule
from .formats import COMPLEX, known
from .matmul import product_format
from .memory import result


def _recurrent(arguments: Arguments, weights: tuple[Tensor, ...], batch_first: bool, backward: bool = False) -> Work:
    """A recurrent layer: for every pair of matrices (input to gates, state to gates) one product over all steps and one a step.

    2 rows in gates + 2 rows hidden gates flops, of rows = steps batch; the state's matrix is read at every step, which the
    products of a step count. After the product of a step one kernel adds both products, applies the gates and writes the
    state. The backward pass has two products for every one: with the matrices transposed, that of the state again one a step,
    and those for the gradients of the weights over all steps.
    """
    batch, steps, rows = _sequence(arguments, batch_first)
    matrices = [weight for weight in weights if len(weight.shape) == 2]
    if not matrices or len(matrices) % 2:
        raise Missing("the matrices of the layer were not recorded")
    x = arguments.tensor(0)
    dtype = _recurrent_format(arguments, x)
    parts = []
    for place, weight in enumerate(matrices):
        gates, size = weight.shape
        n, k = (size, gates) if backward else (gates, size)
        if place % 2:
            parts.append(ops.gemm(m=batch, n=n, k=k, dtype=dtype).repeat(float(steps)))
            parts.append(_cell(batch, gates, size, x, backward).repeat(float(steps)))
        else:
            parts.append(ops.gemm(m=rows, n=n, k=k, dtype=dtype))
        if backward:
            parts.append(ops.gemm(m=gates, n=size, k=rows, dtype=dtype))
    return after("rnn_backward" if backward else "rnn", *parts)


def _sequence(arguments: Arguments, batch_first: bool) -> tuple[int, float, int]:
    """Sequences, steps and all vectors. Packed sequences come as vectors only: their number is that of the first states, and
    the steps are those of the mean length, because the longest was not recorded."""
    x = arguments.tensor(0)
    if len(x.shape) == 3:
        batch, steps = (x.shape[0], x.shape[1]) if batch_first else (x.shape[1], x.shape[0])
        return batch, float(steps), batch * steps
    states = next((tensor for tensor in arguments.tensors if len(tensor.shape) == 3), None)
    if len(x.shape) != 2 or states is None or not states.shape[1]:
        raise Missing(f"a shape of {x.shape} is no sequence of vectors")
    return states.shape[1], x.shape[0] / states.shape[1], x.shape[0]


def _recurrent_format(arguments: Arguments, x: Tensor) -> str:
    """That of products; cuDNN's layers may use tf32 where its convolutions may."""
    cudnn = arguments.settings.device == "cuda" and arguments.settings.conv_tf32
    return "tf32" if cudnn and known(x).name == "fp32" else product_format(arguments, x)


def _cell(batch: int, gates: int, size: int, x: Tensor, backward: bool) -> Work:
    """The kernel of one step: two products read, the state and the gates (which the backward pass needs) written.

    The arithmetic on gates, a thousandth of that of the products, is not counted.
    """
    values: tuple[float, str] = (2.0 * batch * gates, x.dtype)
    state: tuple[float, str] = (float(batch * (size + gates)), x.dtype)
    name = "rnn_cell_backward" if backward else "rnn_cell"
    return streamed(name, {"products": values}, {"state": state}, known(x))


def _cudnn_rnn(arguments: Arguments) -> Work:
    """_cudnn_rnn(x, weights, stride, buffer, hx, cx, mode, hidden, projection, layers, batch_first, ...)."""
    return _recurrent(arguments, arguments.listed(1, "weight"), arguments.flag(10, "batch_first", False))


def _mkldnn_rnn(arguments: Arguments) -> Work:
    """mkldnn_rnn_layer(x, w_ih, w_hh, b_ih, b_hh, hx, cx, ..., batch_first at 14): one layer and direction."""
    return _recurrent(arguments, (arguments.tensor(1), arguments.tensor(2)), arguments.flag(14, "batch_first", False))


def _cudnn_rnn_backward(arguments: Arguments) -> Work:
    """_cudnn_rnn_backward(x, weights, ...): two products for every one of the forward pass; batch_first is at 14."""
    return _recurrent(arguments, arguments.listed(1, "weight"), arguments.flag(14, "batch_first", False), backward=True)


def _mkldnn_rnn_backward(arguments: Arguments) -> Work:
    """mkldnn_rnn_layer_backward(x, w_ih, w_hh, ...), whose batch_first is at 21."""
    matrices = arguments.tensor(1), arguments.tensor(2)
    return _recurrent(arguments, matrices, arguments.flag(21, "batch_first", False), backward=True)


def _lstm_cell(arguments: Arguments) -> Work:
    """_thnn_fused_lstm_cell(input gates, hidden gates, c, biases): per state 4 gates of two sums, 5 functions, 4 to combine.

    The new state and cell, and the gates for the backward pass, are written.
    """
    gates, hidden, cell = arguments.tensor(0), arguments.tensor(1), arguments.tensor(2)
    biases = named("b1 b2", arguments.optional(3), arguments.optional(4))
    reads = {**named("gates hidden c", gates, hidden, cell), **biases}
    size = float(elements(cell))
    adds = 4.0 * (1 + len(biases))
    writes = {"h": cell, "c_new": cell, "saved": gates}
    return streamed("lstm_cell", reads, writes, known(gates), (adds + 9) * size, 5 * size)


def _lstm_cell_backward(arguments: Arguments) -> Work:
    """_thnn_fused_lstm_cell_backward_impl(dh, dc, c, c_new, saved gates, ...): gradients of the gates and of c, 22 flops a state."""
    cell, saved = arguments.tensor(2), arguments.tensor(4)
    states = named("dh dc", arguments.optional(0), arguments.optional(1))
    reads = {**states, **named("c c_new saved", cell, arguments.tensor(3), saved)}
    size = float(elements(cell))
    return streamed("lstm_cell_backward", reads, {"dgates": saved, "dc_old": cell}, known(cell), 22 * size, size)


def _gru_cell(arguments: Arguments) -> Work:
    """_thnn_fused_gru_cell(input gates, hidden gates, h, biases): per state 3 gates, 3 functions, 5 to combine; 5 values saved."""
    gates, hidden, state = arguments.tensor(0), arguments.tensor(1), arguments.tensor(2)
    biases = named("b1 b2", arguments.optional(3), arguments.optional(4))
    size = float(elements(state))
    saved: tuple[float, str] = (5 * size, state.dtype)
    reads = {**named("gates hidden h", gates, hidden, state), **biases}
    return streamed(
        "gru_cell",
        reads,
        {"h_new": state, "saved": saved},
        known(gates),
        (3.0 * (1 + len(biases)) + 8) * size,
        3 * size,
    )


def _gru_cell_backward(arguments: Arguments) -> Work:
    """_thnn_fused_gru_cell_backward(dh, saved, ...): gradients of both products of the gates and of h, 17 flops a state."""
    dh, saved = arguments.tensor(0), arguments.tensor(1)
    size = float(elements(dh))
    each: tuple[float, str] = (3 * size, dh.dtype)
    writes: dict[str, Tensor | tuple[float, str]] = {"dgates": each, "dhidden": each, "dh_old": like(dh, strides=())}
    return streamed("gru_cell_backward", {"dh": dh, "saved": saved}, writes, known(dh), 17 * size)


def _fft(arguments: Arguments) -> Work:
    """_fft_c2c(x, dims, ...), _fft_r2c, _fft_c2r: 5 n log2(size) flops of complex numbers, half of that of real ones.

    Its kernels go over the data once for every dimension.
    """
    x = arguments.tensor(0)
    given = arguments.integers(1, "dim")
    rank = len(x.shape)
    if not given or any(not -rank <= dimension < rank for dimension in given):
        raise Missing(f"dimensions {given} are not those of {x.shape}")
    size = prod(x.shape[dimension] for dimension in given)
    shape, dtype = x.shape, x.dtype
    if arguments.base == "_fft_r2c":
        last = given[-1] % rank
        half = arguments.flag(3, "onesided", True)
        shape = tuple(side // 2 + 1 if half and place == last else side for place, side in enumerate(x.shape))
        dtype = {"fp64": "complex128", "fp16": "complex32"}.get(dtype, "complex64")
    if arguments.base == "_fft_c2r":
        last = given[-1] % rank
        sides = arguments.integer(3, "last_dim_size")
        shape = tuple(sides if place == last else side for place, side in enumerate(x.shape))
        dtype = {"complex128": "fp64", "complex32": "fp16"}.get(dtype, "fp32")
    out = result(arguments, shape, dtype)
    lead = max(elements(x), elements(out))
    each = 5.0 if known(x).kind == COMPLEX and arguments.base == "_fft_c2c" else 2.5
    work = streamed("fft", {"x": x}, {"y": out}, known(x), each * lead * log2(max(size, 2)))
    passes = float(len(given))
    moved = {key: passes * work.kernels[0].sizes[key] for key in ("read", "written", "elements")}
    kernel = replace(work.kernels[0], sizes={**work.kernels[0].sizes, **moved, "launches": passes})
    return replace(work, kernels=(kernel,), waits={"launch": passes})


def _distances(arguments: Arguments) -> Work:
    """_cdist_forward(a[.., m, k], b[.., n, k], p): 3 k flops and a root for every pair."""
    a, b = arguments.tensor(0), arguments.tensor(1)
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-1]:
        raise Missing(f"shapes {a.shape} and {b.shape} are no sets of points")
    pairs = float(elements(a) // max(a.shape[-1], 1) * b.shape[-2])
    flops = pairs * (3 * a.shape[-1] + 1)
    return streamed("cdist", named("a b", a, b), {"y": (pairs, a.dtype)}, known(a), flops, pairs)


def _scattered(arguments: Arguments) -> Work:
    """slice_scatter(x, part, ...), select_scatter: x copied, then the part written over it."""
    x, part = arguments.tensor(0), arguments.tensor(1)
    total: tuple[float, str] = (float(elements(x) + elements(part)), x.dtype)
    return streamed(arguments.base, {"x": x, "part": part}, {"y": total}, known(x), launches=2.0)


def _scaled_mask(arguments: Arguments) -> Work:
    """_masked_scale(x, mask, scale): 2 flops per element."""
    x, mask = arguments.tensor(0), arguments.tensor(1)
    return streamed("masked_scale", {"x": x, "mask": mask}, {"y": like(x, strides=())}, known(x), 2.0 * elements(x))


def _weight_norm_backward(arguments: Arguments) -> Work:
    """_weight_norm_interface_backward(dw, v, g, norms, dim): dv and dg from two sums, 8 flops per element."""
    dw, v, g, norms = (arguments.tensor(place) for place in range(4))
    reads = named("dw v g norms", dw, v, g, norms)
    return streamed("weight_norm_backward", reads, {"dv": like(v, strides=()), "dg": g}, known(v), 8.0 * elements(v))


def _ctc_backward(arguments: Arguments) -> Work:
    """_ctc_loss_backward(dloss, logp, targets, lengths, lengths, nll, alpha, blank): beta as alpha, then the gradient.

    8 flops, 4 of them special, for every state of beta and for every class of every step.
    """
    dloss, logp, targets = arguments.tensor(0), arguments.tensor(1), arguments.tensor(2)
    alpha = arguments.tensor(6, "log_alpha")
    states, classes = float(elements(alpha)), float(elements(logp))
    reads = named("dloss logp targets alpha", dloss, logp, targets, alpha)
    flops = 8.0 * (states + classes)
    return streamed("ctc_loss_backward", reads, {"beta": alpha, "dx": logp}, known(logp), flops, flops / 2)


def _rescaled_heads(arguments: Arguments) -> Work:
    """_transform_bias_rescale_qkv(qkv, bias, heads): bias added, Q scaled, three tensors of heads written: 2 flops each."""
    qkv, bias = arguments.tensor(0), arguments.tensor(1)
    return streamed(
        "rescale_qkv", {"qkv": qkv, "bias": bias}, {"y": like(qkv, strides=())}, known(qkv), 2.0 * elements(qkv)
    )


RULES: dict[str, Rule] = {
    "_cudnn_rnn": _cudnn_rnn, "_cudnn_rnn_backward": _cudnn_rnn_backward, "mkldnn_rnn_layer": _mkldnn_rnn,
    "mkldnn_rnn_layer_backward": _mkldnn_rnn_backward, "_fft_c2c": _fft, "_fft_r2c": _fft, "_fft_c2r": _fft,
    "_cdist_forward": _distances, "_euclidean_dist": _distances,
    **dict.fromkeys(("slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter"), _scattered),
    "_masked_scale": _scaled_mask, "_weight_norm_interface_backward": _weight_norm_backward,
    "_thnn_fused_lstm_cell": _lstm_cell, "_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
    "_thnn_fused_gru_cell": _gru_cell, "_thnn_fused_gru_cell_backward": _gru_cell_backward,
    "_ctc_loss_backward": _ctc_backward, "_transform_bias_rescale_qkv": _rescaled_heads,
}  # fmt: skip
