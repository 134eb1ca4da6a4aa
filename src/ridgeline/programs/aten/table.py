"""The table: every operator by its base name with the rule that counts it, and `count`, which looks a call up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...core.errors import RidgelineError
from ...core.timeline import Call
from ...core.work import Work
from . import (
    attention,
    collective,
    convolution,
    elementwise,
    further,
    images,
    indexing,
    loss,
    matmul,
    memory,
    norm,
    optimizer,
    reduction,
    selection,
    softmax,
    sparse,
)
from .arguments import Arguments, Missing, Settings, base_name, elements
from .counted import FREE, HOST, UNKNOWN, WORK, WRAPPER, Counted, Rule
from .kinds import WRAPPERS, is_free, is_host, is_wrapper

FAMILIES = (
    matmul, convolution, attention, norm, softmax, loss, reduction, elementwise, memory, indexing, images, selection, optimizer, further,
)  # fmt: skip
RULES: dict[str, Rule] = {name: rule for family in FAMILIES for name, rule in family.RULES.items()}
NAMESPACES = ("aten::", "mkldnn::", "torch::", "onednn::", "prims::")
NOTHING = Settings()


def rule_of(name: str) -> Rule | None:
    """The rule for an operator's name, with or without its namespace and overload."""
    if collective.is_collective(name):
        return collective.collective
    base = base_name(name)
    if "::" in name and not name.startswith(NAMESPACES):
        return attention.LIBRARIES.get(name.partition(".")[0])
    if base in RULES:
        return RULES[base]
    if base.startswith("_foreach_"):
        return optimizer.foreach
    return elementwise.elementwise if elementwise.is_elementwise(base) else None


def count(call: Call, settings: Settings = NOTHING, *, leaf: bool | None = None) -> Counted:
    """What a call costs: its work, or that it is free, a wrapper, a read by the host, or why it is not known.

    `leaf` says that the call made no further operator calls (as every call that a dispatch mode records): an operator that
    usually leaves its work to inner calls then does it itself. A kernel that was launched directly by a wrapper is a call
    to count with `leaf` too. It never raises, whatever the call holds.
    """
    try:
        return _count(call, settings if leaf is None else replace(settings, leaf=leaf))
    except Missing as missing:
        return Counted(UNKNOWN, reason=str(missing))
    except RidgelineError as error:
        return _refused(call, str(error))
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError) as error:
        return Counted(UNKNOWN, reason=f"its arguments do not fit its rule ({type(error).__name__})")


def _count(call: Call, settings: Settings) -> Counted:
    name = str(call.name)
    base = base_name(name)
    if is_host(base):
        return Counted(HOST)
    if is_free(base):
        return Counted(FREE)
    rule = sparse.sparse if any(tensor.sparse for tensor in call.tensors) else rule_of(name)
    wrapper = is_wrapper(name, settings.device)
    if wrapper and not (settings.leaf and (rule or "::" in name) and base in WRAPPERS):
        return Counted(WRAPPER)
    if rule is None:
        return Counted(UNKNOWN, reason=f"no rule for {name[:80]}")
    arguments = Arguments(call, settings)
    empty = arguments.tensors and all(not elements(tensor) for tensor in arguments.outputs or arguments.tensors)
    if empty and base not in memory.RANGES:  # these make their results as large as they need them
        return Counted(FREE)  # nothing to do for tensors without elements
    counted = rule(arguments)
    result = counted if isinstance(counted, Counted) else Counted(WORK, counted)
    return result if result.work is None or _does_something(result.work) else Counted(FREE)


def _does_something(work: Work) -> bool:
    moved = [np.max(np.asarray(size)) for size in work.moves.values()]
    return bool(max([float(np.max(np.asarray(work.flops))), *moved], default=0.0) > 0)


def _refused(call: Call, reason: str) -> Counted:
    """A call that an op refuses: one on tensors without elements does nothing."""
    if any(0 in tensor.shape for tensor in call.tensors):
        return Counted(FREE)
    return Counted(UNKNOWN, reason=reason)
