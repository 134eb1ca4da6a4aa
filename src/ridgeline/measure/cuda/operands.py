"""Operands of timed kernels: views of random normal values of each format, which are made once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...core.errors import InputError
from .draw import GIB, POOL_BYTES

Run = Callable[[], Any]

ALIGN_ELEMENTS = 512  # elements between operands, so that each starts on a boundary kernels like
FILL_ELEMENTS = 1 << 28  # elements filled at once

# Our names of formats and torch's; tf32 is stored as fp32.
FORMATS = {
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "int8": "int8",
}


class ValuePool:
    """Random normal values of each format, made once; operands are views of them, never zeros."""

    def __init__(self, torch: Any, device: str, size: int = POOL_BYTES) -> None:
        self.torch, self.device, self.size = torch, device, size
        self._values: dict[str, Any] = {}
        self._next: dict[str, int] = {}

    def begin(self) -> None:
        """A new case: its operands may lie where those of the last one did, but not over each other."""
        self._next.clear()

    def take(self, name: str, *shape: int) -> Any:
        torch_name = FORMATS[name]
        values = self._values.get(torch_name)
        if values is None:
            values = self._values[torch_name] = self._fill(torch_name)
        count, start = math.prod(shape), self._next.get(torch_name, 0)
        if start + count > values.numel():
            raise InputError(
                f"the operands need {(start + count) * values.element_size() / GIB:.1f} GiB of {name} values and the "
                f"pool holds {self.size / GIB:.1f}; use smaller sizes"
            )
        self._next[torch_name] = start + -(-count // ALIGN_ELEMENTS) * ALIGN_ELEMENTS
        return values[start : start + count].view(shape)

    def _fill(self, torch_name: str) -> Any:
        torch = self.torch
        dtype = getattr(torch, torch_name)
        count = self.size // torch.empty(0, dtype=dtype).element_size()
        values = torch.empty(count, dtype=dtype, device=self.device)
        narrow = values.element_size() == 1  # no generator of its own: made in fp32 and converted
        deviation = 32.0 if torch_name == "int8" else 1.0
        for part in values.split(FILL_ELEMENTS):
            if narrow:
                part.copy_((torch.randn(part.numel(), device=self.device) * deviation).clamp_(-120.0, 120.0))
            else:
                part.normal_()
        return values


@dataclass(frozen=True)
class Operands:
    """What a builder works with: operands in the format of the case, and torch."""

    torch: Any
    device: str
    dtype: str
    pool: ValuePool

    def take(self, *shape: int) -> Any:
        return self.pool.take(self.dtype, *shape)

    def integers(self, below: int, count: int) -> Any:
        return self.torch.randint(below, (count,), device=self.device)

    def product(self, run: Run) -> Run:
        """The same run with TF32 allowed exactly when the case asks for it; other formats know no such switch."""
        if FORMATS[self.dtype] != "float32":
            return run
        products, convolutions = self.torch.backends.cuda.matmul, self.torch.backends.cudnn
        allowed = self.dtype == "tf32"

        def switched() -> Any:
            products.allow_tf32 = allowed
            convolutions.allow_tf32 = allowed
            return run()

        return switched
