"""What every request and answer of the explorer passes: a limit on the size of uploads, and the security headers."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from pydantic import BaseModel
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Scripts come from this server alone. Plotly writes style attributes, so inline styles are allowed; they run nothing.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Refusal(BaseModel):
    """Why a request was refused, and what would be accepted."""

    error: str


class TooLarge(Exception):
    """The body of a request went over the limit while it was read."""


class Guard:
    def __init__(self, app: ASGIApp, max_upload: int) -> None:
        self.app, self.max_upload = app, max_upload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, received = False, 0

        async def guarded_send(message: Message) -> None:
            nonlocal begun
            if received > self.max_upload and not begun:
                return  # whatever the application made of a body that was cut short
            if message["type"] == "http.response.start":
                begun = True
                present = {name for name, _ in message["headers"]}
                extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(pair for pair in extra if pair[0] not in present)]
            await send(message)

        async def counted_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_upload:
                raise TooLarge
            return message

        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self.max_upload:
            await self._refuse(guarded_send)
            return
        with suppress(TooLarge):
            await self.app(scope, counted_receive, guarded_send)
        if received > self.max_upload and not begun:
            received = 0
            await self._refuse(guarded_send)

    async def _refuse(self, send: Send) -> None:
        text = (
            f"the upload is larger than {self.max_upload / 2**20:.0f} MiB; `ridgeline serve --max-upload` allows more"
        )
        body = json.dumps({"error": text}).encode()
        start: dict[str, Any] = {
            "type": "http.response.start", "status": 413,
            "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"connection", b"close")],
        }  # fmt: skip
        await send(start)
        await send({"type": "http.response.body", "body": body})
