"""Operators that PyTorch takes apart unless their tensors are on a CUDA device, kept as the one kernel that a GPU runs."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from . import torch_attention

# Have kernels of their own on CPUs and GPUs; builds without CUDA take them apart elsewhere.
KERNELS = ("native_channel_shuffle", "mish_backward", "silu_backward")
KEY = "AutogradCUDA"  # where an operator arrives after autocast, before it is differentiated or taken apart


@contextlib.contextmanager
def gpu_kernels(torch: Any) -> Iterator[None]:
    """For a while, attention, dropout, softmax and RMS norm of tensors on the traced GPU are single operators."""
    library = torch.library.Library("aten", "IMPL")
    kernels: dict[str, Callable[..., Any]] = {
        "scaled_dot_product_attention": lambda *args, **kwargs: torch_attention.attend(torch, *args, **kwargs),
        "dropout": lambda x, p, train: _dropout(torch, x, p, train),
        "rms_norm": lambda x, shape, weight=None, eps=None: torch.ops.aten._fused_rms_norm(x, shape, weight, eps)[0],
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


def _never_run(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("a kernel of the traced GPU")


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
