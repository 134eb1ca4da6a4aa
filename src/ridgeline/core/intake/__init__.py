"""The door for everything that comes from outside: text is cleaned, values are checked, sizes are limited, once.

    limits   how much of anything is accepted, and the option that accepts more
    text     names and texts without control characters, terminal escapes and surrogates
    door     typed values of a document; all complaints come at once, each with its place

What has passed the door is not checked again.
"""

from __future__ import annotations

from .door import Door, at
from .limits import limit, refuse_over
from .text import clean

__all__ = ["Door", "at", "clean", "limit", "refuse_over"]
