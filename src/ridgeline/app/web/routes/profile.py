"""Bring your own: a profile, a trace, a table of cases or a result of ridgeline, as the raw body of a request."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Body, Depends, HTTPException, Query
from fastapi.responses import Response

from ....core.documents import to_document
from ....core.escaping import sound_json
from ....render.chart import finite
from ....render.draw.html import text as page_text
from ..answers import profile
from ..answers.recent import Asked, Forgotten, Recent
from ..answers.upload import Upload
from ..guard import Refusal

REFUSALS: dict[int | str, dict[str, Any]] = {
    410: {"model": Refusal, "description": "The file of this token is not in memory: send it again."},
    429: {"model": Refusal, "description": "Many files are being read."},
}
router = APIRouter(tags=["profile"], responses=REFUSALS)
Content = Annotated[
    bytes,
    Body(
        media_type="application/octet-stream", description="The file as it is; empty where its token says which it is."
    ),
]
MachineName = Annotated[
    str | None, Query(max_length=100, description="A machine of the catalog; else the one that the file names.")
]
FileName = Annotated[str, Query(max_length=300, description="The name of the file, which is only shown.")]
Place = Annotated[
    int, Query(ge=0, le=10_000_000, description="The row of the kernel in the table of the answer, from 0.")
]
Token = Annotated[
    str,
    Query(
        max_length=64,
        description="A random name for the file, under which later questions are asked without sending it again.",
    ),
]
# Reading is work for a processor: more at a time would only slow each other and the rest of the page down.
MAX_AT_ONCE, MAX_WAITING = 2, 256
_reading = CapacityLimiter(MAX_AT_ONCE)
_recent = Recent()


async def _read(work: Callable[[], Response]) -> Response:
    """The result of work on an upload, done on a thread so that other requests are answered meanwhile."""
    if _reading.statistics().tasks_waiting >= MAX_WAITING:
        raise HTTPException(429, "many files are being read; try again in a moment")
    try:
        return await to_thread.run_sync(work, limiter=_reading)
    except Forgotten as error:
        raise HTTPException(410, str(error)) from error


async def _asked(content: Content = b"", machine: MachineName = None, name: FileName = "", token: Token = "") -> Callable[[], Asked]:  # fmt: skip
    """What every question about a file says of it; made on the thread that answers it."""
    return lambda: Asked(Upload(content, name), machine, _recent.reading(token, content))


Question = Annotated[Callable[[], Asked], Depends(_asked)]


@router.post("/profile")
async def ask(asked: Question) -> Response:
    """What the file is and what it says: kernels on the roofline, a table, the gap cards of the longest."""
    return await _read(lambda: _json(profile.answered(asked())))


@router.post("/profile/card")
async def ask_card(asked: Question, place: Place) -> Response:
    """The gap card of one kernel: both gaps, the time by cause, the moves with their price."""
    return await _read(lambda: _json(profile.card(asked(), place)))


@router.post("/profile/report")
async def ask_report(asked: Question, form: Literal["html", "json"] = "html") -> Response:
    """The self-contained report as the commands write it, or its data."""
    make = _page if form == "html" else _data
    return await _read(lambda: make(asked()))


@router.get("/profile/progress")
async def ask_progress(token: Token) -> dict[str, int]:
    """How many kernels of the file are placed, and of how many; zeros while it is parsed."""
    done, total = _recent.progress(token)
    return {"done": done, "total": total}


def _page(asked: Asked) -> Response:
    text = page_text(profile.page(asked))
    headers = {"content-disposition": 'attachment; filename="ridgeline-report.html"'}
    return Response(text, media_type="text/html; charset=utf-8", headers=headers)


def _data(asked: Asked) -> Response:
    headers = {"content-disposition": 'attachment; filename="ridgeline-report.json"'}
    return Response(_json_text(profile.data(asked)), media_type="application/json", headers=headers)


def _json(answer: dict[str, Any]) -> Response:
    """Written on the thread that made it: the answer of ten thousand kernels takes a while."""
    return Response(_json_text(answer), media_type="application/json")


def _json_text(value: Any) -> str:
    try:
        text = json.dumps(value, allow_nan=False, default=to_document)
    except ValueError:  # infinity or NaN, which are rare: only then all of it is looked through
        text = json.dumps(finite(to_document(value)), allow_nan=False)
    return sound_json(text)
