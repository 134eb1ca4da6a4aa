"""Exercises about number formats, memory levels, tiles, energy and communication."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from ..answers import exercises_extended, exercises_formats
from .exercises import Case, Name

router = APIRouter(prefix="/exercise", tags=["exercises"])
Tile = Annotated[int, Field(ge=1, le=1 << 16)]


class PrecisionForm(BaseModel):
    case: Case
    on: Name
    dtypes: list[Name] = Field(min_length=1, max_length=12)
    chosen: Name
    weights_only: bool = False


class LevelsForm(BaseModel):
    case: Case
    on: Name
    tile: Tile | None = None


class TilingForm(BaseModel):
    n: Annotated[int, Field(ge=1, le=1 << 20)]
    on: Name
    tiles: list[Tile] = Field(min_length=1, max_length=16)
    chosen: Tile


class EnergyForm(BaseModel):
    on: Name
    intensity: Annotated[float, Field(ge=1e-3, le=1e6, allow_inf_nan=False)]
    textbook: bool = False


class CommunicationForm(BaseModel):
    on: Name
    tokens: Annotated[int, Field(ge=1, le=1 << 40)]
    devices: Annotated[int, Field(ge=2, le=1 << 20)]
    link: Name | None = None


@router.post("/precision")
def precision(form: PrecisionForm) -> dict[str, Any]:
    """A case in another format: what happens to bytes, AI, ridge and time."""
    if form.weights_only:
        return exercises_formats.weights(form.case, form.on, form.chosen)
    return exercises_formats.precision(form.case, form.on, form.dtypes, form.chosen)


@router.post("/levels")
def levels(form: LevelsForm) -> dict[str, Any]:
    """One kernel at every memory level."""
    return exercises_formats.levels(form.case, form.on, form.tile)


@router.post("/tiling")
def tiling(form: TilingForm) -> dict[str, Any]:
    """AI against the side of a tile."""
    return exercises_formats.tiling(form.n, form.on, form.tiles, form.chosen)


@router.post("/energy")
def energy(form: EnergyForm) -> dict[str, Any]:
    """Work per joule at an AI."""
    return exercises_extended.energy(form.on, form.intensity, form.textbook)


@router.post("/communication")
def communication(form: CommunicationForm) -> dict[str, Any]:
    """Data-parallel training over a link of a machine."""
    return exercises_extended.communication(form.on, form.tokens, form.devices, form.link)
