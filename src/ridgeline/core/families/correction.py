"""Correction: what the time by a formula is multiplied with, from timings of the machine itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from .effects import Array
from .family import Family, Sizes


class Placed(NamedTuple):
    """Logarithms of the factors of some cases."""

    correction: Array
    lowest: Callable[[], Array]  # here and at larger sizes, as far as the interval has to reach down to it


class Correction(ABC):
    @abstractmethod
    def at(self, sizes: Sizes) -> Placed:
        """Where the cases are among the timings, which is most of the work, is found once for both."""

    @abstractmethod
    def unfit(self, family: Family) -> str:
        """What keeps it from correcting times of a family; nothing where it can."""

    @abstractmethod
    def text(self) -> str:
        """What `read` takes."""

    def correction(self, sizes: Sizes) -> Array:
        """The logarithm of what the formula's times are to be multiplied with."""
        return self.at(sizes).correction

    def lowest(self, sizes: Sizes) -> Array:
        """The lowest correction here and at larger sizes, as far as the interval has to reach down to it."""
        return self.at(sizes).lowest()
