"""What a change would bring: a case, a chain of named changes, and each case of the chain priced.

A Case is an op call (or Work alone) on a machine. A Change makes another Case of it. `apply` prices a chain:

    time_after = time_before x T_after / T_before      T has the same form (kernel families or flat) on both sides
    program    = 1 / (1 - share + share / ratio)       what the change brings where the kernel is a share of the time

Where a change does more work at once (a batch), times are compared per unit of the baseline's work. The direction of a
change on the chart follows from the counts and the times, never from its name.

Times are times on the device. Its wait for a host that launches kernel by kernel is given apart (`waiting`), from the
machine's own figure; a captured graph takes it away.
"""

from .case import Case, Change, Neighbour
from .changes import CHANGES, parse
from .pricing import PricedCase, amdahl, apply, case_document, document

__all__ = ["CHANGES", "Case", "Change", "Neighbour", "PricedCase", "amdahl", "apply", "case_document", "document", "parse"]  # fmt: skip
