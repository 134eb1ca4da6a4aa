"""What ridgeline wrote itself: a chart, or the items of a reconciled report, drawn and explained again.

The file may come from anyone, so every value is checked as it comes in; nothing of it is computed anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....core.cached import cached_property
from ....core.errors import InputError, RidgelineError
from ....core.intake import Door, refuse_over
from ....core.intake.door import MAX_NUMBER, shown
from ....core.intake.source import whole_text
from ....core.machine import Machine
from ....core.tabular import json_document
from ....core.units import counted
from ....profilers.plain import not_json
from ....render.chart import SCHEMA, Chart, Item, Picture, document, read
from ....render.charts.gaps import Landed
from ....render.charts.kernels import landed_document, placed_chart
from ....render.draw.html import Page, Section
from ....render.table import Column, Table, columns, microseconds, percent
from .gap_cards import gap_card
from .lookup import machine_names, machine_of
from .pictures import pictured, tabled

MAX_ITEMS = 20_000
MAX_ROWS, MAX_CARDS = 500, 24
SIGNS = (f'"{SCHEMA}"', '"ridgeline.chart/', '"sealed"', '"ridgeline"')
NUMBERS = (
    "count", "predicted_us", "low_us", "high_us", "floor_us", "over_floor", "share_of_roofline", "vertical_gap", "horizontal_gap",
    "excess_bytes", "excess_flops", "flops", "bytes", "intensity_algorithmic", "intensity_observed",
)  # fmt: skip
TEXTS = ("engine", "bound_predicted", "bound_observed", "limiter_observed", "sentence", "phase")
MOVE_TEXTS = ("move", "cause", "status", "changes", "limit")
NO_CARD = "a saved chart has no gap cards; give the profile or report that it was made of"


def saved_document(start: str, path: Path) -> dict[str, Any] | None:
    """The chart or report in a file that ridgeline wrote; None for anything else, such as its tables and profiles."""
    text = start.lstrip("\ufeff \t\r\n")
    if not text.startswith("{") or not any(sign in text for sign in SIGNS) or '"traceEvents"' in text:
        return None
    content = whole_text(path)
    refuse_over("cells", 8 * content.count("{") + content.count("[") + content.count(","), f"'{path}' with its values")
    try:
        saved = json_document(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{path}' {not_json(content, error)}") from None
    if not isinstance(saved, dict):
        return None
    is_chart = str(saved.get("schema", "")).startswith("ridgeline.chart/")
    return saved if is_chart or ("items" in saved and "sentence" in saved) else None


@dataclass(frozen=True)
class SavedAnswer:
    title: str
    saved: Mapping[str, Any]
    chosen: Machine | None

    @property
    def is_chart(self) -> bool:
        return "items" not in self.saved

    def answer(self) -> dict[str, Any]:
        if self.is_chart:
            return {
                "kind": "chart", "title": self.title, "machine": None, "answer": [self.picture.title], "warnings": [], "count": 0,
                "table": None, "cards": [], "chart": pictured(self.picture), "no_chart": "",
            }  # fmt: skip
        chart, why = self._drawn()
        return {
            "kind": "report", "title": self.title, "machine": self.machine.name if self.machine else None,
            "guessed": self.chosen is None, "answer": [self._sentence], "warnings": self._warnings, "count": len(self.items),
            "table": tabled(self.table), "chart": chart, "no_chart": why,
            "cards": [self.card(place) for place in range(min(MAX_CARDS, len(self.items)))],
        }  # fmt: skip

    # -- a chart -------------------------------------------------------------------------------------------

    @cached_property
    def picture(self) -> Picture:
        """The chart of a document, refused where a part of it is not as charts are."""
        try:
            picture = read(self.saved)
            document(picture)
            if not all(map(_drawable, picture.charts)):
                raise ValueError("a place on it is no number")
            return picture
        except RidgelineError:
            raise
        except Exception as error:  # whatever a forged part leads to
            raise InputError(f"{self.title} is no chart that ridgeline wrote: {shown(str(error))}") from error

    # -- a report ------------------------------------------------------------------------------------------

    @cached_property
    def machine(self) -> Machine | None:
        """The chosen machine, or the one that the report is about; None where that is not in the catalog."""
        named = self.saved.get("machine")
        name = named.get("name") if isinstance(named, Mapping) else named
        return self.chosen or (machine_of(name) if isinstance(name, str) and name in machine_names() else None)

    @property
    def _sentence(self) -> str:
        return Door(self.title).text(self.saved.get("sentence"), "sentence") or counted(len(self.items), "kernel")

    @property
    def _warnings(self) -> list[str]:
        return (
            []
            if self.machine
            else ["the report is about a machine that is not in the catalog: choose one for the chart"]
        )

    @cached_property
    def items(self) -> list[dict[str, Any]]:
        """The items by measured time, the longest first; all complaints come at once."""
        door = Door(self.title)
        listed = door.items(self.saved.get("items"), "items")
        if len(listed) > MAX_ITEMS:
            raise InputError(f"{self.title} has {len(listed):,} items; the page takes {MAX_ITEMS:,}")
        items = [checked_item(door, item, f"item {number}") for number, item in enumerate(listed, 1)]
        door.close()
        if not items:
            raise InputError(f"{self.title} is a report without any item; reconcile a profile that has some")
        return sorted(items, key=lambda item: -item["measured_us"] * (item["count"] or 1.0))

    @cached_property
    def landed(self) -> dict[int, Landed]:
        if self.machine is None:
            return {}
        made = {place: landed_document(self.machine, item, str(place)) for place, item in enumerate(self.items)}
        return {place: landed for place, landed in made.items() if landed is not None}

    def _drawn(self) -> tuple[dict[str, Any] | None, str]:
        if self.machine is None:
            return None, "choose the machine to see the kernels on its roofline"
        if not self.landed:
            return None, "no kernel of this report does arithmetic, so none has a place on the roofline"
        left_out = [item["name"] for place, item in enumerate(self.items) if place not in self.landed]
        title = f"Predicted vs measured on {self.machine.name}"
        return pictured(placed_chart(self.machine, title, list(self.landed.values()), left_out)), ""

    @property
    def table(self) -> Table:
        heads = columns(
            Column("name", "kernel"), Column("bound_observed", "bound"), microseconds("measured_us", "measured"),
            microseconds("predicted_us", "predicted"), percent("error", digits=2), microseconds("floor_us", "roofline"),
            percent("share_of_roofline", "% of roofline", 2), Column("top", "next"),
        )  # fmt: skip
        rows = [
            {
                **item, "top": next((move["move"] for move in item["advice"]), ""),
                "error": None if item["predicted_us"] is None else item["predicted_us"] / item["measured_us"] - 1,
            }
            for item in self.items[:MAX_ROWS]
        ]  # fmt: skip
        return Table("", heads, rows)

    def card(self, place: int) -> dict[str, Any]:
        if self.is_chart:
            raise InputError(NO_CARD)
        if not 0 <= place < len(self.items):
            raise InputError(f"there is no kernel {place + 1}; the report has {len(self.items)}")
        return gap_card(self.machine, self.items[place], self.landed.get(place))

    def page(self) -> Page:
        if self.is_chart:
            return Page(self.picture.title, [Section("", "", [self.picture])], document(self.picture))
        return Page(f"{self.title}: gaps", [Section("Gaps", tables=[self.table])], self.items, [self._sentence])

    def data(self) -> Any:
        return document(self.picture) if self.is_chart else self.items


def _drawable(chart: Chart) -> bool:
    """Whether everything has a place: numbers, and texts where texts belong."""
    spots = [point.spot for point in chart.points] + [spot for line in chart.lines for spot in line.points]
    spots += [spot for arrow in chart.arrows for spot in (arrow.start, arrow.end)]
    lengths = [(bar.value, bar.start or 0.0) for bar in chart.bars] + [(mark.value, 0.0) for mark in chart.marks]
    spans = [span for region in chart.regions for span in (region.x, region.y) if span is not None]
    pairs = [*spots, *lengths, *spans, chart.x.range, chart.y.range]
    numbers = all(len(pair) == 2 and all(isinstance(value, int | float) for value in pair) for pair in pairs)
    parts: tuple[Item, ...] = (*chart.points, *chart.lines, *chart.bars, *chart.marks, *chart.arrows)
    return numbers and all(isinstance(text, str) for part in parts for text in (part.label, part.group, part.role))


def checked_item(door: Door, value: Any, place: str) -> dict[str, Any]:
    """An item of a report with the types its figures have; what is null or absent is None, empty or an empty list."""
    row = door.table(value, place)
    item: dict[str, Any] = {
        "name": door.text(row.get("name"), f"{place}, name", needed=True) or "kernel",
        "measured_us": door.number(row.get("measured_us"), f"{place}, measured_us", 1e-9, 1e15),
    }
    for name in NUMBERS:
        item[name] = None if row.get(name) is None else door.number(row[name], f"{place}, {name}")
    if item["share_of_roofline"] is None and row.get("share_of_roof") is not None:
        item["share_of_roofline"] = door.number(row["share_of_roof"], f"{place}, share_of_roof")
    item |= {name: door.text(row.get(name), f"{place}, {name}") for name in TEXTS}
    item["findings"] = door.texts(row.get("findings"), f"{place}, findings") if row.get("findings") else ()
    item["accounting"] = [
        _entry(door, entry, f"{place}, accounting")
        for entry in door.items(row.get("accounting"), f"{place}, accounting")
    ]
    item["advice"] = [
        _advice(door, move, f"{place}, advice") for move in door.items(row.get("advice"), f"{place}, advice")
    ]
    return item


def _entry(door: Door, value: Any, place: str) -> dict[str, Any]:
    row = door.table(value, place)
    return {
        "cause": door.text(row.get("cause"), f"{place}, cause"),
        "us": door.number(row.get("us"), f"{place}, us", -MAX_NUMBER),
    }


def _advice(door: Door, value: Any, place: str) -> dict[str, Any]:
    row = door.table(value, place)
    move: dict[str, Any] = {name: door.text(row.get(name), f"{place}, {name}") for name in MOVE_TEXTS}
    move["gain_us"] = (
        None if row.get("gain_us") is None else door.number(row["gain_us"], f"{place}, gain_us", -MAX_NUMBER)
    )
    for name in ("evidence", "missing"):
        move[name] = door.texts(row.get(name), f"{place}, {name}") if row.get(name) else ()
    end = door.table(row.get("end"), f"{place}, end")
    move["end"] = None
    if end:
        spot = {name: door.number(end.get(name), f"{place}, end, {name}") for name in ("intensity", "rate")}
        move["end"] = spot if spot["intensity"] > 0 and spot["rate"] > 0 else None
    return move
