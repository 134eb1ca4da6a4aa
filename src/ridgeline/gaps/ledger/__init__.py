"""The ledger: predictions sealed before the run and settled after it, in one file that only grows.

    hash(n) = SHA-256 of record n's fields, among them hash(n - 1) and the hash of its content;
    the number n itself is its place in the chain

What the chain finds: any field of any record that was changed, a record removed, put in, replaced or moved, and records
cut off the end while the head still counts them. What it cannot find alone: records cut off the end with the head set
back to fit, a ledger written anew from the start with every hash recomputed, an older copy of the whole file, and a
computer whose clock was set wrong on purpose. A head kept elsewhere (`anchor`, or the hash on top of the markdown view)
guards against the first three: `verify(expect=...)` asks whether that record is still in the chain. Whoever signs or
dates that head guards against the fourth.

A record is appended after a look at the file's layout, the head and the last record, at a cost that does not grow; the
whole chain is checked by `verify`, and by every report.

Times are those of the clock. Where it is behind an earlier record, because a clock was ahead then or was set back, the
record says so: `evidence_after` is the latest time of all records before it. A measurement is sealed evidence only if
it began after that, because an earlier one may have been made before the seal. `verify` has a notice of it, no fault.
"""

from __future__ import annotations

from .head import Head
from .ledger import Ledger, open_ledger
from .record import Sealed, Settled, text_hash
from .store import Broken
from .verify import Finding

__all__ = ["Broken", "Finding", "Head", "Ledger", "Sealed", "Settled", "open_ledger", "text_hash"]
