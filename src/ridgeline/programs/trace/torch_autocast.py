"""Autocast of the traced GPU: products in low precision, functions that need the range in fp32, as torch's rules for CUDA say.

Torch's own kernels for autocast ask every tensor whether it is on a CUDA device, which tensors of the traced GPU cannot say
(see `torch_gpu`). The operators that have such a kernel are asked of torch; what each does with its tensors is below.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

KEY = "AutocastCUDA"
_LOW = """
    _convolution _scaled_dot_product_flash_attention _thnn_fused_gru_cell _thnn_fused_lstm_cell addbmm addmm addmv addr
    baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
    cudnn_convolution cudnn_convolution_transpose einsum gru_cell linalg_multi_dot linalg_vecdot linear lstm_cell matmul mm mv
    prelu rnn_relu_cell rnn_tanh_cell scaled_dot_product_attention
"""
_WIDEST = "addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot vdot"
# Computed in fp32 by an argument of their own, without a cast before: a softmax reads bf16 and writes fp32.
_BY_DTYPE = "prod softmax log_softmax cumprod cumsum linalg_vector_norm linalg_matrix_norm sum norm"
# All others that torch lists run in fp32.
LOW, WIDEST, BY_DTYPE = (frozenset(names.split()) for names in (_LOW, _WIDEST, _BY_DTYPE))


class Autocast:
    """The casts of one trace; a parameter is cast once in a region, as torch's cache does."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self._cast: dict[int, tuple[Any, Any]] = {}
        self._guard = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, KEY))

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        torch = self.torch
        library = torch.library.Library("aten", "IMPL")
        clear = torch.clear_autocast_cache
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns of every kernel that takes the place of another
                for name in torch._C._dispatch_get_all_op_names():
                    if name.startswith("aten::") and torch._C._dispatch_has_kernel_for_dispatch_key(name, KEY):
                        library.impl(name, self._kernel(name), KEY)
            torch.clear_autocast_cache = self._clear(clear)
            yield
        finally:
            torch.clear_autocast_cache = clear
            self._cast.clear()
            library._destroy()

    def _clear(self, clear: Callable[[], None]) -> Callable[[], None]:
        def both() -> None:
            self._cast.clear()
            clear()

        return both

    def _kernel(self, name: str) -> Callable[..., Any]:
        base, _, overload = name.removeprefix("aten::").partition(".")
        op = getattr(getattr(self.torch.ops.aten, base), overload or "default")
        takes_dtype = any(argument.name == "dtype" for argument in op._schema.arguments)

        def run(*args: Any, **kwargs: Any) -> Any:
            with self.torch._C._ExcludeDispatchKeyGuard(self._guard):
                if base in BY_DTYPE and takes_dtype:
                    return self._by_dtype(op, args, kwargs)
                dtype = self._format(base, args, kwargs)
                return op(*self._all(args, dtype), **{key: self._casted(value, dtype) for key, value in kwargs.items()})

        return run

    def _format(self, base: str, args: Any, kwargs: Any) -> Any:
        if base in LOW:
            return self.torch.get_autocast_dtype("cuda")
        if base not in WIDEST:
            return self.torch.float32
        formats = [item.dtype for item in self._tensors((*args, *kwargs.values())) if self._eligible(item)]
        return self.torch.float32 if self.torch.float32 in formats or not formats else formats[0]

    def _by_dtype(self, op: Any, args: Any, kwargs: Any) -> Any:
        """The operator with `dtype` fp32 where the program gives none."""
        names = [argument.name for argument in op._schema.arguments]
        place = names.index("dtype")
        given = args[place] if place < len(args) else kwargs.get("dtype")
        if given is not None or not self._eligible(args[0]):
            return op(*args, **kwargs)
        if place < len(args):
            return op(*args[:place], self.torch.float32, *args[place + 1 :], **kwargs)
        return op(*args, **{**kwargs, "dtype": self.torch.float32})

    def _eligible(self, value: Any) -> bool:
        if not isinstance(value, self.torch.Tensor) or value.device.type != "cuda":
            return False
        return bool(value.dtype.is_floating_point) and value.dtype != self.torch.float64

    def _tensors(self, values: Any) -> list[Any]:
        return [item for value in values for item in (value if isinstance(value, tuple | list) else (value,))]

    def _all(self, values: Any, dtype: Any) -> tuple[Any, ...]:
        return tuple(self._casted(value, dtype) for value in values)

    def _casted(self, value: Any, dtype: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(self._casted(item, dtype) for item in value)
        if not self._eligible(value) or value.dtype == dtype:
            return value
        torch = self.torch
        leaf = value.dtype == torch.float32 and value.requires_grad and value.is_leaf and not value._is_view()
        if dtype == torch.float32 or not leaf or not torch.is_autocast_cache_enabled():
            return value.to(dtype)
        if id(value) not in self._cast:
            self._cast[id(value)] = value, value.to(dtype)
        return self._cast[id(value)][1]
