"""Numbers that a program reads from tensors, which have no data while it is traced.

Reading one (`loss.item()`) is recorded and gives a number that can be printed, stored and computed with. Deciding on it ends
the trace, because what the program does then depends on data.
"""

from __future__ import annotations

import sys
from typing import Any

# Readers inside torch by what they may go on with: steps made so far, gradients that overflowed.
KNOWN_READERS = {"torch.optim": 1.0, "torch.amp.grad_scaler": 0.0, "torch.cuda.amp": 0.0}
# Checks of libraries by what they look for: masks that hide something, sequences packed in one row, bad arguments.
KNOWN_CHECKS = (
    "transformers.masking_utils",
    "transformers.modeling_attn_mask_utils",
    "transformers.utils.import_utils",
    "transformers.modeling_utils",
)
CHECKED = "attention masks given as inputs are taken to hide nothing: no padding, one sequence a row"
_ARITHMETIC = "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow neg pos abs round"
_DECIDING = "lt le gt ge eq ne bool int index trunc floor ceil hash"


MAX_FRAMES = 4


class DataDependent(Exception):
    """A decision of the program on a number that is not known."""


class UnknownNumber(float):
    """A number read from a tensor without data."""


def _computing(*_: Any) -> UnknownNumber:
    return UnknownNumber("nan")


def _deciding(*_: Any) -> Any:
    raise DataDependent("the program decides on a number that it reads from a tensor")


for _name in _ARITHMETIC.split():
    setattr(UnknownNumber, f"__{_name}__", _computing)
for _name in _DECIDING.split():
    setattr(UnknownNumber, f"__{_name}__", _deciding)


def known_to_reader() -> float | None:
    """What a part of torch that reads a tensor goes on with; None for any other reader."""
    for name in callers():
        for reader, value in KNOWN_READERS.items():
            if name.startswith(reader):
                return value
    return None


def passes_check() -> bool:
    """Whether a decision is a check of a library that programs pass."""
    return any(name.startswith(KNOWN_CHECKS) for name in callers())


def callers() -> list[str]:
    """The modules of the nearest frames above the functions of this package."""
    frame: Any = sys._getframe(2)
    names: list[str] = []
    while frame is not None and len(names) < MAX_FRAMES:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(__package__):
            names.append(name)
        frame = frame.f_back
    return names
