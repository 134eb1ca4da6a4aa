"""What the page can choose from: machines, ops with their parameters, number formats, models."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from ..answers import catalog

router = APIRouter(tags=["catalog"])


@router.get("/catalog")
def everything() -> dict[str, Any]:
    """Machines with their peaks, bandwidths and ridges; ops with the range of each size; formats; names of models."""
    return catalog.everything()
