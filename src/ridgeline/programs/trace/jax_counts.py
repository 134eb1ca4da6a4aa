"""The rules for all primitives of JAX, and `counted`, which looks one up."""

from __future__ import annotations

from math import prod
from typing import Any

from ...core.errors import InputError
from ...core.trace import FREE, VIEW
from ..aten.arguments import Missing
from . import jax_collectives, jax_products, jax_rules
from .jax_case import Case, Count, Rule, unknown

RULES: dict[str, Rule] = {**jax_rules.RULES, **jax_products.RULES, **jax_collectives.RULES}


class Counts:
    """Counts of a program's primitives; equal ones, as in every layer of a model, are counted once."""

    def __init__(self) -> None:
        self.known: dict[Any, Count] = {}

    def count(self, case: Case) -> Count:
        try:
            key = (case.name, case.inputs, case.outputs, case.phase, *case.params.items(), *case.axes.items())
            if key not in self.known:
                self.known[key] = counted(case)
            return self.known[key]
        except TypeError:  # a parameter that cannot be compared
            return counted(case)


def counted(case: Case) -> Count:
    """What a primitive costs; one that has no rule, or whose rule does not fit, is listed as unknown."""
    try:
        if not sum(prod(tensor.shape) for tensor in (*case.tensors, *case.outputs)):
            return Count(FREE, VIEW)  # nothing to do for arrays without elements
        rule = RULES.get(case.name)
        if rule is not None:
            return rule(case)
        return jax_rules.pointwise(case) if jax_rules.is_pointwise(case) else unknown(f"no rule for {case.name}")
    except (Missing, InputError) as missing:
        return unknown(str(missing))
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        return unknown(f"its arguments do not fit its rule ({type(error).__name__})")
