"""What a change would bring: a case, a chain of named changes, the stops on the way and the arrow of each.

A Case is an op call (or bare Work) on a machine. A Change makes another Case of it. `apply` prices a chain:

    time_after = time_before x T_after / T_before      T rests on the same kind of formula on both sides
    program    = 1 / (1 - share + share / ratio)       what the change brings where the kernel is a share of the time

Where a change does more work at once (a batch), times are compared per unit of the baseline's work. Which way an arrow
points follows from the counts and the times, never from the name of the change.

Times are times on the device. What it waits for the host that sends kernel by kernel stands beside them (`waiting`), from
the machine's own figure; a captured graph takes it away.
"""

from .case import Case, Neighbour
from .changes import CHANGES, Change, parse
from .stops import Stop, amdahl, apply, document

__all__ = ["CHANGES", "Case", "Change", "Neighbour", "Stop", "amdahl", "apply", "document", "parse"]
