"""Machines compared."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from ..answers.compare import compare, sheet
from ..answers.lookup import texts_of
from ..attachment import ATTACHED, Format, Theme, attachment
from .explore import CaseForm, Ceilings, Name, PlaneForm, ranges_of

router = APIRouter(tags=["compare"])
MAX_CASES = 256
Text = Annotated[str, Field(max_length=500)]


class CompareForm(BaseModel):
    machines: list[Name] = Field(min_length=2, max_length=8)
    dtype: Name = "bf16"
    ceilings: Ceilings = None
    cases: list[CaseForm] = Field(default_factory=list, max_length=64)
    lines: list[Text] = Field(default_factory=list, max_length=MAX_CASES)
    plane: PlaneForm | None = None


def _asked(form: CompareForm) -> tuple[Any, ...]:
    cases = [(case.op, case.values) for case in form.cases]
    return form.machines, [*cases, *texts_of(form.lines)], form.dtype, form.ceilings, ranges_of(form.plane)


@router.post("/compare")
def ask(form: CompareForm) -> dict[str, Any]:
    """Growth from machine to machine, and each case on all of them. `lines` are cases as texts or rows of a CSV table."""
    return compare(*_asked(form))


@router.post("/compare/export", response_class=Response, responses=ATTACHED)
def save(form: CompareForm, format: Format, theme: Theme = "light") -> Response:
    """What the page shows, as a file."""
    return attachment(sheet(*_asked(form)), "compared", format, theme)
