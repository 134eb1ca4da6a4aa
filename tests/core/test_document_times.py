"""Times in documents: microseconds of what the code keeps in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ridgeline.core.documents import to_document


@dataclass(frozen=True)
class Timed:
    time: float
    samples: tuple[float, ...] = ()
    host: float | None = None
    old_us: float = 3.0

    DOCUMENT: ClassVar = ("time", "time_us=time", "times_us?=samples", "host_us=host", "old_us")


def test_a_key_in_microseconds_scales_an_attribute_in_seconds() -> None:
    assert to_document(Timed(2e-6)) == {"time": 2e-6, "time_us": 2.0, "host_us": None, "old_us": 3.0}
    assert to_document(Timed(0.0, (1e-6, 4e-6), 5e-6)) == {
        "time": 0.0,
        "time_us": 0.0,
        "times_us": [1.0, 4.0],
        "host_us": 5.0,
        "old_us": 3.0,
    }
