"""What report pages share: pictures where there are data for them, facts behind dots, Ctrl-C while one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError, Interrupted
from ...render.draw.html import Section, key_of

if TYPE_CHECKING:
    from ...render.chart import Chart, Picture
    from ...render.table import Table


@contextmanager
def reported_interrupt(out: Path) -> Iterator[None]:
    """Drawing takes seconds: Ctrl-C during it becomes a message. No part of the file is left."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"stopped by Ctrl-C while {out} was made; it was not written") from None


def drawable(*makers: Callable[[], Picture]) -> list[Picture]:
    """The pictures there are data for."""
    pictures: list[Picture] = []
    for make in makers:
        with suppress(InputError):
            pictures.append(make())
    return pictures


def with_facts(chart: Chart, items: Sequence[Mapping[str, Any]]) -> Chart:
    """The chart with times, share of the roofline and bound of each kernel behind its dots, as the page's card shows them."""
    by_name = {
        item["name"]: {key: item.get(key) for key in ("measured_us", "predicted_us", "low_us", "high_us", "floor_us")}
        | {"share_of_roofline": item.get("share_of_roofline", item.get("share_of_roof"))}
        | {"bound": item.get("bound_observed") or item.get("bound_predicted")}
        for item in items
    }
    points = (replace(point, details=by_name.get(key_of(point), point.details)) for point in chart.points)
    return replace(chart, points=tuple(points))


def filled(sections: Sequence[Section]) -> list[Section]:
    """The sections that have something to show."""
    return [
        section
        for section in sections
        if section.words
        or section.pictures
        or section.cards
        or any(table.rows or table.notes for table in section.tables)
    ]


def untitled(*tables: Table) -> list[Table]:
    """Tables under the heading of their section, which says what they are."""
    return [replace(table, title="") for table in tables]
