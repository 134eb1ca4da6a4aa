"""Lessons: the list, and each with its HTML."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path

from ....core.errors import unknown
from .. import lesson as lessons
from ..guard import Refusal

router = APIRouter(tags=["lessons"])
Slug = Annotated[str, Path(max_length=100)]


@router.get("/lessons")
def listed() -> dict[str, Any]:
    """All lessons in order: slug, title, summary, minutes."""
    return {"lessons": [entry.document() for entry in lessons.index()]}


@router.get("/lessons/{slug}", responses={404: {"model": Refusal, "description": "There is no such lesson."}})
def shown(slug: Slug) -> dict[str, Any]:
    """One lesson: HTML with its figures filled in, the number of quick checks, and the lessons next to it."""
    known = {entry.slug for entry in lessons.index()}
    if slug not in known:
        raise HTTPException(404, str(unknown("lesson", slug, known)))
    return lessons.document(slug)
