"""The files of the page: its own, the colours and layout it shares with the reports, and plotly.js from the plotly package."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib import resources
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from ...core.errors import RidgelineError
from ...render.draw.html import page_css, variables

STATIC = Path(__file__).with_name("static")


def add_assets(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def index() -> Response:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})

    @app.get("/theme.css", include_in_schema=False)
    def theme() -> Response:
        return Response(variables() + page_css(), media_type="text/css", headers={"cache-control": "no-cache"})

    @app.get("/plotly.js", include_in_schema=False)
    def plotly(request: Request) -> Response:
        packed, tag = plotly_script()
        headers = {"etag": tag, "cache-control": "public, max-age=86400", "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(gzip.decompress(packed), media_type="text/javascript", headers=headers)
        return Response(packed, media_type="text/javascript", headers={**headers, "content-encoding": "gzip"})

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


@cache
def plotly_script() -> tuple[bytes, str]:
    """plotly.js as the plotly package carries it, packed, and its tag."""
    try:
        source = resources.files("plotly").joinpath("package_data/plotly.min.js").read_bytes()
    except (ModuleNotFoundError, OSError) as error:
        raise RidgelineError(
            "the explorer draws with the plotly package, which is not installed: pip install 'ridgeline[web]'"
        ) from error
    return gzip.compress(source, 1), f'"{hashlib.sha256(source).hexdigest()[:16]}"'
