"""Exercises about regimes, gaps and estimates: what the reader chose goes in, what ridgeline computes comes back."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from ..answers import exercises_drill, exercises_regimes, exercises_stages
from .exercises import Case, Name

router = APIRouter(prefix="/exercise", tags=["exercises"])
Title = Annotated[str, Field(max_length=200)]


class RegimeForm(BaseModel):
    on: Name
    case: Case
    guess: Literal["memory", "compute", "overhead"]


class NamedCase(BaseModel):
    title: Title
    case: Case


class RegimesForm(BaseModel):
    on: Name
    cases: list[NamedCase] = Field(min_length=1, max_length=12)


class CardForm(BaseModel):
    seed: Annotated[int, Field(ge=0, le=2**31)]
    number: Annotated[int, Field(ge=0, le=999)]


class EstimateForm(CardForm):
    given: Annotated[str, Field(max_length=40)]


@router.post("/regime")
def regime(form: RegimeForm) -> dict[str, Any]:
    """Whether a kernel has the regime that was chosen; its times and its gap."""
    return exercises_regimes.regime(form.case, form.on, form.guess)


@router.post("/regimes")
def regimes(form: RegimesForm) -> dict[str, Any]:
    """All kernels of the exercise on one chart."""
    return exercises_regimes.all_regimes([(item.title, item.case) for item in form.cases], form.on)


@router.get("/stages")
def stages() -> dict[str, Any]:
    """Recorded versions of one GEMM, each with both gaps and the roof that applies."""
    return exercises_stages.path()


@router.post("/drill")
def drill(form: CardForm) -> dict[str, Any]:
    """One flash card."""
    return exercises_drill.card(form.seed, form.number)


@router.post("/drill/answer")
def drill_answer(form: EstimateForm) -> dict[str, Any]:
    """Whether the answer to a card is right, and the right one."""
    return exercises_drill.check(form.seed, form.number, form.given)
