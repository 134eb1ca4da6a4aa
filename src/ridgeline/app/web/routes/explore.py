"""Ops on rooflines."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from ..answers.explore import Question, explore

router = APIRouter(tags=["explore"])
Name = Annotated[str, Field(max_length=100)]
Value = Annotated[str, Field(max_length=100)] | float | bool | None


class CaseForm(BaseModel):
    """An op with its sizes and formats."""

    op: Name
    values: dict[Name, Value] = Field(default_factory=dict, max_length=40)


class ExploreForm(BaseModel):
    machines: list[Name] = Field(min_length=1, max_length=8)
    cases: list[CaseForm] = Field(default_factory=list, max_length=64)
    ceilings: Literal["stated", "derived", "measured"] | None = None
    levels: bool = False
    dtype: Name | None = None


@router.post("/explore")
def ask(form: ExploreForm) -> dict[str, Any]:
    """A chart of the machines with the cases on it, and the answer for each case and machine."""
    cases = [(case.op, case.values) for case in form.cases]
    return explore(Question(form.machines, cases, form.ceilings, form.levels, form.dtype))
