"""Ops on rooflines."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from ....core.machine import RATES
from ....render.charts.plane import Ranges
from ..answers.card import MAX_CHAIN, card, changed
from ..answers.explore import Question, explore, sheet
from ..attachment import ATTACHED, Format, Theme, attachment

router = APIRouter(tags=["explore"])
Name = Annotated[str, Field(max_length=100)]
Ceilings = Literal["stated", "derived", "measured"] | None
Spot = Annotated[float, Field(ge=1e-9, le=RATES[1])]
Value = Annotated[str, Field(max_length=100)] | float | bool | None


class CaseForm(BaseModel):
    """An op with its sizes and formats."""

    op: Name
    values: dict[Name, Value] = Field(default_factory=dict, max_length=40)


class PlaneForm(BaseModel):
    """The axes of the chart that is shown: the answer's are no smaller."""

    x: tuple[Spot, Spot]
    y: tuple[Spot, Spot]


class ExploreForm(BaseModel):
    machines: list[Name] = Field(min_length=1, max_length=8)
    cases: list[CaseForm] = Field(default_factory=list, max_length=64)
    ceilings: Ceilings = None
    levels: bool = False
    dtype: Name | None = None
    plane: PlaneForm | None = None


class CardForm(CaseForm):
    """A case on one machine."""

    machine: Name
    ceilings: Ceilings = None


class ChangesForm(CardForm):
    """A chain of changes of a case, each applied to the result of the one before."""

    changes: list[Name] = Field(min_length=1, max_length=MAX_CHAIN)


def ranges_of(plane: PlaneForm | None) -> Ranges | None:
    return None if plane is None else (plane.x, plane.y)


def _question(form: ExploreForm) -> Question:
    cases = [(case.op, case.values) for case in form.cases]
    return Question(form.machines, cases, form.ceilings, form.levels, form.dtype, ranges_of(form.plane))


@router.post("/explore")
def ask(form: ExploreForm) -> dict[str, Any]:
    """A chart of the machines with the cases on it, and the answer for each case and machine."""
    return explore(_question(form))


@router.post("/explore/card")
def show_card(form: CardForm) -> dict[str, Any]:
    """One case: its facts, the source of each number, and the changes that would make it faster, priced."""
    return card(form.op, form.values, form.machine, form.ceilings)


@router.post("/explore/changes")
def price_changes(form: ChangesForm) -> dict[str, Any]:
    """A chain of changes, priced, with arrows on the plane."""
    return changed(form.op, form.values, form.machine, form.ceilings, form.changes)


@router.post("/explore/export", response_class=Response, responses=ATTACHED)
def save(form: ExploreForm, format: Format, theme: Theme = "light") -> Response:
    """What the page shows, as a file."""
    return attachment(sheet(_question(form)), "rooflines", format, theme)
