"""Exercises of the lessons, first to seventh: what the reader did goes in, what it means comes back."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from ..answers import exercises, exercises_roofs

router = APIRouter(prefix="/exercise", tags=["exercises"])
Name = Annotated[str, Field(max_length=100)]
Case = Annotated[str, Field(max_length=400)]
Size = Annotated[int, Field(ge=1, le=1 << 20)]
Factor = Annotated[float, Field(ge=1 / exercises_roofs.MAX_FACTOR, le=exercises_roofs.MAX_FACTOR)]
Quantity = Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)]


class FactoryForm(BaseModel):
    steps: Annotated[float, Field(gt=0, le=1e6)]


class CountsForm(BaseModel):
    cases: list[Case] = Field(min_length=1, max_length=8)
    on: Name


class RoofForm(BaseModel):
    on: Name
    dtype: Name


class ReadoutForm(RoofForm):
    intensity: Quantity
    performance: Quantity


class ChangedRoofForm(RoofForm):
    compute: Factor = 1.0
    bandwidth: Factor = 1.0


class TitledCase(BaseModel):
    title: Name
    case: Case


class PlaceForm(BaseModel):
    on: Name
    cases: list[TitledCase] = Field(min_length=1, max_length=12)
    chosen: int = 0
    guess: Quantity | None = None
    all: bool = False


class BatchForm(RoofForm):
    in_features: Size
    out_features: Size
    batch: Annotated[int, Field(ge=1, le=exercises.MAX_BATCH)]
    machines: list[Name] = Field(default_factory=list, max_length=8)


class GenerationsForm(BaseModel):
    machines: list[Name] = Field(min_length=1, max_length=8)
    dtype: Name


class PhasesForm(RoofForm):
    hidden: Annotated[int, Field(ge=32, le=1 << 17)]
    prompt: Annotated[int, Field(ge=1, le=1 << 20)]


@router.post("/factory")
def factory(form: FactoryForm) -> dict[str, Any]:
    """Workers and a belt at so many steps per part."""
    return exercises.factory(form.steps)


@router.post("/counts")
def counts(form: CountsForm) -> dict[str, Any]:
    """FLOPs, bytes, AI of cases, and the time of compute and memory for each."""
    return exercises.counts(form.cases, form.on)


@router.post("/buildup")
def buildup(form: RoofForm) -> dict[str, Any]:
    """The chart of a machine in four steps."""
    return exercises_roofs.buildup(form.on, form.dtype)


@router.post("/roofline")
def roofline(form: RoofForm) -> dict[str, Any]:
    """The chart of a machine with nothing on it."""
    return exercises_roofs.empty_roofline(form.on, form.dtype)


@router.post("/readout")
def readout(form: ReadoutForm) -> dict[str, Any]:
    """What a point of the chart means."""
    return exercises_roofs.readout(form.on, form.dtype, form.intensity, form.performance)


@router.post("/place")
def place(form: PlaceForm) -> dict[str, Any]:
    """The chart on which to place a case; with a guess, whether it is right; with `all`, every case in its place."""
    cases = [(item.title, item.case) for item in form.cases]
    return (
        exercises.placed_all(cases, form.on) if form.all else exercises.place(cases, form.on, form.chosen, form.guess)
    )


@router.post("/roof")
def roof(form: ChangedRoofForm) -> dict[str, Any]:
    """A machine with more or less compute and bandwidth."""
    return exercises_roofs.roof(form.on, form.dtype, form.compute, form.bandwidth)


@router.post("/generations")
def generations(form: GenerationsForm) -> dict[str, Any]:
    """Machines in order: compute, bandwidth, ridge, growth, and who gains more."""
    return exercises_roofs.growth(form.machines, form.dtype)


@router.post("/phases")
def phases(form: PhasesForm) -> dict[str, Any]:
    """Prefill and decode of one layer, side by side."""
    return exercises_roofs.phases(form.on, form.dtype, form.hidden, form.prompt)


@router.post("/batch")
def batch(form: BatchForm) -> dict[str, Any]:
    """A linear layer at a batch, and the batch at which it crosses the ridge."""
    layer = exercises.Layer(form.in_features, form.out_features, form.dtype)
    return exercises.batch(layer, form.on, form.batch, form.machines)
