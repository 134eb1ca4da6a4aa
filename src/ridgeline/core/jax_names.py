"""What the names that JAX gives to operations say: the pass they belong to, and the scopes around them.

XLA keeps the stack of names of an operation in its metadata (`jit(step)/transpose(jvp(mlp))/dense/dot_general`), so that traced
and recorded programs have the same ones.
"""

from __future__ import annotations

import re

from .timeline import BACKWARD, FORWARD, OPTIMIZER, OTHER

_EMPTY = re.compile(r"(?:transpose\()?(?:jvp|vmap)\(\)\)?")


def pass_of(op_name: str, differentiates: bool) -> str:
    """The phase of an operation. Of a program that differentiates, what is neither forward nor backward updates parameters."""
    if "transpose(jvp(" in op_name:
        return BACKWARD
    if "jvp(" in op_name:
        return FORWARD
    return OTHER if "/" not in op_name else OPTIMIZER if differentiates else FORWARD


def scopes(op_name: str) -> tuple[str, ...]:
    """`jit(step)/jvp(mlp)/dense/dot_general` without its last part, the operation, and empty transformations."""
    parts = op_name.split("/")[:-1]
    return tuple(part for part in parts if part and not _EMPTY.fullmatch(part))
