"""Operators that PyTorch takes apart unless their tensors are on a CUDA device, kept as the one kernel that a GPU runs."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from . import torch_attention

# Have kernels of their own on GPUs; builds without CUDA take them apart.
KERNELS = ("native_channel_shuffle", "mish_backward", "silu_backward", "_fused_rms_norm")
RECURRENT = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}  # by cuDNN's numbers
GATES = (1, 1, 4, 3)  # by these numbers
# What cuDNN takes during a recurrent layer, in bytes of the gates of one layer over all steps: 330 MB of 126 MB for three layers
# of LSTM in both directions on an H200 (benchmarks/programs, third set).
RECURRENT_WORKSPACE = 2.6
MAX_TRAINED, MAX_BATCH, MIN_EPS = 880801, 65535, 1e-5  # images of a batch norm by cuDNN
KEY = "AutogradCUDA"  # where an operator arrives after autocast, before it is differentiated or taken apart


@contextlib.contextmanager
def gpu_kernels(torch: Any) -> Iterator[None]:
    """For a while, operators on the traced GPU run by the kernels of a GPU."""
    library = torch.library.Library("aten", "IMPL")
    kernels: dict[str, Callable[..., Any]] = {
        "scaled_dot_product_attention": lambda *args, **kwargs: torch_attention.attend(torch, *args, **kwargs),
        "dropout": lambda x, p, train: _dropout(torch, x, p, train),
        "rms_norm": lambda x, shape, weight=None, eps=None: torch.ops.aten._fused_rms_norm(x, shape, weight, eps)[0],
        "batch_norm": lambda *args: _batch_norm(torch, *args),
        **{f"{name}.input": _recurrent(torch, mode) for name, mode in RECURRENT.items()},
        "softmax.int": lambda x, dim, dtype=None: _softmax(torch, torch.ops.aten._softmax, x, dim, dtype),
        "log_softmax.int": lambda x, dim, dtype=None: _softmax(torch, torch.ops.aten._log_softmax, x, dim, dtype),
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of every kernel that takes the place of another
            for name, kernel in kernels.items():
                library.impl(name, kernel, KEY)
            for name in KERNELS:
                library.impl(name, _never_run, "CUDA")
        yield
    finally:
        library._destroy()


def fake_results(torch: Any) -> dict[Any, Callable[..., Any]]:
    """Results of operators that torch has no fake kernel for."""

    def recurrent(x: Any, weights: Any, stride: int, packed: Any, hidden: Any, cell: Any, *_: Any) -> Any:
        like = torch.empty_like
        return like(x), like(hidden), None if cell is None else like(cell), [like(weight) for weight in weights]

    def forward(x: Any, *args: Any) -> Any:
        y, hidden, cell, _, weights = torch.ops.aten._cudnn_rnn.default(x, *args)
        reserve = x.new_empty(_reserve(x, *args[5:13]), dtype=torch.uint8)
        return y, hidden, cell, reserve, weights

    return {torch.ops.aten._cudnn_rnn_backward.default: recurrent, torch.ops.aten._cudnn_rnn.default: forward}


def _reserve(
    x: Any,
    mode: int,
    size: int,
    projected: int,
    layers: int,
    batch_first: bool,
    dropout: float,
    train: bool,
    both: bool,
) -> int:
    """Bytes that cuDNN keeps for the backward pass: gates of all layers and steps, results between layers, masks of dropout.

    An H200 kept 311 MB of two layers of LSTM (benchmarks/programs, second set); these are 310.
    """
    if not train:
        return 0
    tokens, ways = x.shape[0] * x.shape[1], 2 if both else 1
    between = tokens * size * ways * (layers - 1)
    return int((tokens * GATES[mode] * size * ways * layers + between) * x.element_size() + (between if dropout else 0))


def _never_run(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("a kernel of the traced GPU")


def _batch_norm(torch: Any, x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, *rest: Any) -> Any:
    """cuDNN's kernels, except for bf16, vectors and layers without weights, which torch's own handle."""
    momentum, eps, enabled = rest
    formats = x.dtype != torch.bfloat16 and weight is not None and bias is not None and weight.dtype == torch.float32
    held = (mean is not None and var is not None) or (mean is None and var is None and training)
    fits = x.dim() >= 3 and x.shape[0] <= (MAX_TRAINED if training else MAX_BATCH) and eps >= MIN_EPS
    if enabled and formats and held and fits:
        return torch.ops.aten.cudnn_batch_norm(x, weight, bias, mean, var, training, momentum, eps)[0]
    return torch.ops.aten.native_batch_norm(x, weight, bias, mean, var, training, momentum, eps)[0]


def _recurrent(torch: Any, mode: int) -> Callable[..., Any]:
    """A recurrent layer as one call of cuDNN; without it every time step is operators of its own."""

    def run(
        x: Any,
        state: Any,
        weights: Any,
        biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        both: bool,
        batch_first: bool,
    ) -> Any:
        hidden, cell = state if isinstance(state, list | tuple) else (state, None)
        size = hidden.shape[-1] if mode != RECURRENT["lstm"] else cell.shape[-1]
        projected = hidden.shape[-1] if hidden.shape[-1] != size else 0
        stride = (4 if biases else 2) + bool(projected)
        packed = x.new_empty(0)  # the weights lie next to each other already
        x = x.transpose(0, 1).contiguous() if batch_first else x
        gates = x.shape[0] * x.shape[1] * GATES[mode] * size * (2 if both else 1)
        workspace = x.new_empty(int(RECURRENT_WORKSPACE * gates))  # noqa: F841, held until the layer is done
        y, last, last_cell, *_ = torch.ops.aten._cudnn_rnn(
            x,
            weights,
            stride,
            packed,
            hidden,
            cell,
            mode,
            size,
            projected,
            layers,
            False,
            dropout,
            train,
            both,
            [],
            None,
        )
        y = y.transpose(0, 1) if batch_first else y
        return (y, last) if cell is None else (y, last, last_cell)

    return run


def _softmax(torch: Any, op: Any, x: Any, dim: int, dtype: Any) -> Any:
    """The kernel for fp16 writes fp32 itself; other formats are cast before."""
    if x.dtype == torch.float16 and dtype == torch.float32:
        return op(x, dim, True)
    return op(x if dtype is None else x.to(dtype), dim, False)


def _dropout(torch: Any, x: Any, p: float, train: bool) -> Any:
    """One kernel draws the mask and applies it; without it these are kernels of their own."""
    if not train or p == 0 or not x.numel():
        return torch.ops.aten.alias(x)
    if p == 1:
        return x * torch.zeros((), dtype=x.dtype, device=x.device)
    return torch.ops.aten.native_dropout(x, p, train)[0]
