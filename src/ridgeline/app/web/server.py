"""The server of the explorer: the page and its files, the questions under /api, and what is refused.

A request changes nothing and reaches no file: machines and models are looked up by name; uploads are read as data and removed at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from ...core.errors import RidgelineError
from ...core.version import __version__
from ...render.chart import finite
from .assets import add_assets
from .guard import Guard, Refusal
from .routes import routers

MAX_UPLOAD = 64 * 2**20  # bytes of one request
MIN_PACKED = 1024  # bytes below which packing an answer does not pay
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
REFUSALS = {
    400: {"model": Refusal, "description": "The question cannot be answered; the message says why."},
    413: {"model": Refusal, "description": "The request is larger than the server accepts."},
    422: {"model": Refusal, "description": "The request is not of the form described here."},
}


class PlainJson(JSONResponse):
    """JSON that every browser reads: null in place of infinity and NaN, `?` in place of halves of characters."""

    def render(self, content: Any) -> bytes:
        try:
            text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except ValueError:
            text = json.dumps(finite(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def make_app(hosts: Sequence[str] = LOOPBACK, max_upload: int = MAX_UPLOAD) -> FastAPI:
    """The application; `hosts` are the names it answers to, so that no other site can speak to it through a browser."""
    app = FastAPI(
        title="ridgeline explorer",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        default_response_class=PlainJson,
    )
    app.add_middleware(GZipMiddleware, minimum_size=MIN_PACKED, compresslevel=1)
    app.add_middleware(Guard, max_upload=max_upload)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.add_exception_handler(RidgelineError, _refuse_question)
    app.add_exception_handler(RequestValidationError, _refuse_form)
    app.add_exception_handler(HTTPException, _refuse_address)
    for router in routers():
        app.include_router(router, prefix="/api", responses=REFUSALS)  # type: ignore[arg-type]
    add_assets(app)
    return app


def refusal(status: int, text: str) -> JSONResponse:
    return PlainJson({"error": text}, status)


async def _refuse_question(request: Request, error: Exception) -> Response:
    return refusal(400, str(error))


def _field(place: Sequence[str | int]) -> str:
    """The field that a complaint is about, without the part of the request that it is in."""
    return ".".join(str(part) for part in place[1:]) or "request"


# What is wrong with a value, by pydantic's name for it; its own sentences are about lists and validation.
COMPLAINTS = {
    "missing": "is missing", "extra_forbidden": "is not known", "dict_type": "must be a JSON object", "list_type": "must be a list",
    "too_short": "needs at least {min_length}, got {actual_length}", "too_long": "takes at most {max_length}, got {actual_length}",
    "string_too_short": "must not be empty", "string_too_long": "must have at most {max_length} characters",
    "greater_than": "must be above {gt}", "greater_than_equal": "must be at least {ge}", "less_than": "must be below {lt}", "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}", "bool_parsing": "must be true or false", "bool_type": "must be true or false", "finite_number": "must be a finite number",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"), "int_parsing_size": "is too large",
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"), "string_type": "must be text",
}  # fmt: skip


def _complaint(item: dict[str, Any]) -> str:
    if item["type"] == "json_invalid":
        return "the body is not JSON"
    said = COMPLAINTS.get(item["type"])
    return (
        f"{_field(item['loc'])} {said.format(**item.get('ctx', {}))}"
        if said
        else f"{_field(item['loc'])}: {item['msg']}"
    )


async def _refuse_form(request: Request, error: Exception) -> Response:
    """Every complaint about the request in one line, with the field it is about."""
    assert isinstance(error, RequestValidationError)
    return refusal(422, "; ".join(map(_complaint, error.errors()))[:1000])


async def _refuse_address(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = refusal(error.status_code, str(error.detail))
    answer.headers.update(error.headers or {})
    return answer
