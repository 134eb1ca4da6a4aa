"""The ledger: predictions sealed before the run and settled after it, in one file that only grows.

    hash(n) = SHA-256 of record n's fields, among them hash(n - 1) and the hash of its content;
    the number n itself is its place in the chain

What the chain finds: any field of any record that was changed, a record removed, put in, replaced or moved, and,
because the head counts along, records cut off at the end. What it cannot find alone: a ledger written anew from the
start with every hash recomputed, an older copy of the whole file, and a computer whose clock was set wrong on
purpose. The head's hash, committed where others see it (it is on top of the markdown view), guards against the first
two: `verify(expect=...)` asks whether that record is still in the chain. Whoever dates that commit
guards against the third.
"""

from __future__ import annotations

from .ledger import Ledger, open_ledger
from .record import Sealed, Settled, text_hash
from .store import Broken
from .verify import Finding

__all__ = ["Broken", "Finding", "Ledger", "Sealed", "Settled", "open_ledger", "text_hash"]
