"""A view as a file to save: `attachment` answers POST /api/VIEW/export, for every view in the same way."""

from __future__ import annotations

from typing import Any, Literal

from starlette.responses import Response

from .answers.export import TYPES, Sheet, exported

Format = Literal["png", "svg", "csv", "json", "html"]
Theme = Literal["light", "dark"]
ATTACHED: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {kind.partition(";")[0]: {} for kind in TYPES.values()}}
}


def attachment(sheet: Sheet, view: str, form: Format, theme: Theme) -> Response:
    headers = {"content-disposition": f'attachment; filename="ridgeline-{view}.{form}"', "cache-control": "no-store"}
    return Response(exported(sheet, form, theme), media_type=TYPES[form], headers=headers)
