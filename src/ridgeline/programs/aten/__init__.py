"""Operator calls as Work: one table from a call (name, shapes, formats, numbers, as profiles and traces record them) to counts.

    count(Call("aten::mm", (Tensor((8, 16), "bf16"), Tensor((16, 4), "bf16")))).work

Rules are by family of operators, one file each. Where a call does not decide its work the count says what is missing.
"""

from .arguments import Settings
from .counted import Counted
from .coverage import Coverage, UnknownOperator, coverage
from .evidence import evidence
from .table import RULES, count, rule_of

__all__ = ["RULES", "Counted", "Coverage", "Settings", "UnknownOperator", "count", "coverage", "evidence", "rule_of"]
