"""Properties that are computed once, also where several threads ask at a time.

`functools.cached_property` of Python 3.11 holds one lock for a property of all objects of a class while it computes it. Two
threads whose properties ask for each other's then wait for ever: a server of ours did. Without the lock, which Python 3.12
has not either, two threads may compute the same value, and one of the two is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property
else:
    import functools

    class cached_property(functools.cached_property):  # noqa: N801 (named as the one it stands for)
        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            kept = instance.__dict__
            if self.attrname not in kept:
                kept[self.attrname] = self.func(instance)
            return kept[self.attrname]


__all__ = ["cached_property"]
