"""Chrome traces, as PyTorch and JAX write them: events read one at a time, and which spans of a thread lie within which."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ..core.errors import InputError
from ..core.tabular import opened

EVENTS = "traceEvents"
MICRO = 1e-6  # a trace counts in microseconds

# -- the file, one event at a time ---------------------------------------------------------------------------------

PIECE = 1 << 22  # characters read at a time; a trace may be larger than memory
MAX_EVENT = 1 << 26  # characters of one event beyond which the text is taken to be broken
END_MARGIN = 8  # characters from the end within which an error means that the text stops there
_SIGN = re.compile(r"[^\s,:]")
_ENDS = tuple(" \t\r\n,]}")
_DECODER = json.JSONDecoder()


class _JsonStream:
    """JSON values of a text in turn, holding a piece of it at a time."""

    def __init__(self, path: Path, text: TextIO) -> None:
        self.path, self.text = path, text
        self.piece, self.at, self.read = "", 0, 0

    def more(self) -> bool:
        """Read on behind what is left; False at the end."""
        try:
            piece = self.text.read(PIECE)
        except EOFError:  # a compressed file that was cut off
            piece = ""
        self.piece, self.at = self.piece[self.at :] + piece, 0
        return bool(piece)

    def sign(self) -> str:
        """The next character that means something."""
        while True:
            sign = _SIGN.search(self.piece, self.at)
            if sign:
                self.at = sign.start()
                return sign[0]
            self.at = len(self.piece)
            if not self.more():
                raise self.cut()

    def value(self) -> Any:
        self.sign()
        while True:
            try:
                value, end = _DECODER.raw_decode(self.piece, self.at)
            except (ValueError, RecursionError) as error:
                if len(self.piece) - self.at > MAX_EVENT or not self.more():
                    raise self.broken(error) from error
                continue
            if not isinstance(value, dict | list | str) and self.piece[end : end + 1] not in _ENDS and self.more():
                continue  # a number that may go on in the next piece
            self.at = end
            self.read += 1
            return value

    def cut(self) -> InputError:
        return InputError(
            f"'{self.path}' is cut off after {self.read} entries: the run that wrote it was stopped, or it was copied in part. "
            "Nothing of it was used; record or copy it again"
        )

    def broken(self, error: Exception) -> InputError:
        if isinstance(error, json.JSONDecodeError) and (
            error.msg.startswith("Unterminated") or error.pos + END_MARGIN >= len(self.piece)
        ):
            return self.cut()
        return InputError(f"'{self.path}' is not JSON after entry {self.read}: {error}; export the trace again")


def items(path: Path) -> Iterator[tuple[str, Any]]:
    """Keys and values of a Chrome trace in the order of the file, each event under `traceEvents`."""
    with opened(path) as text:
        source = _JsonStream(path, text)
        start = source.sign()
        if start not in "{[":
            raise InputError(f"'{path}' is not a trace: it begins with '{start}', a trace is a JSON object of events")
        source.at += 1
        if start == "[":
            yield from _events(source)
            return
        while source.sign() != "}":
            key = str(source.value())
            if key == EVENTS and source.sign() == "[":
                source.at += 1
                yield from _events(source)
            else:
                yield key, source.value()


def _events(source: _JsonStream) -> Iterator[tuple[str, Any]]:
    while (sign := source.sign()) != "]":
        try:  # nearly every event is an object that lies whole in the piece
            if sign != "{":
                raise ValueError(sign)
            value, source.at = _DECODER.raw_decode(source.piece, source.at)
            source.read += 1
        except (ValueError, RecursionError):
            value = source.value()
        yield EVENTS, value
    source.at += 1


# -- spans of a thread ---------------------------------------------------------------------------------------------

OP, RANGE, MODULE, LAUNCH = "op", "range", "module", "launch"
SLACK = 1e-3  # microseconds by which the rounding of a start and a length may let neighbours overlap


class Span(NamedTuple):
    """A stretch of time of a thread. `ident` is the External id of an op or range, the correlation of a launch."""

    start: float
    end: float
    kind: str
    what: Any
    ident: int = 0


def nested(spans: Iterable[Span]) -> Iterator[tuple[Span, list[Span]]]:
    """Spans of one thread in the order they began, each with those still open around it, outermost first.

    Only starts are compared: launch calls carry the driver's clock and may end a little after the op around them.
    """
    around: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end, span.ident)):
        while around and around[-1].end <= span.start + SLACK:
            around.pop()
        yield span, around
        if span.kind != LAUNCH:
            around.append(span)


def times(event: dict[str, Any], path: Path, start: float, length: float) -> tuple[float, float]:
    """Start and end of an event from its start and length; one message where they are no times."""
    if not (-math.inf < start < math.inf and 0 <= length < math.inf):
        raise InputError(
            f"'{path}' has an event '{event.get('name')}' without a usable time "
            f"(ts {event.get('ts')!r}, dur {event.get('dur')!r}); export the trace again"
        )
    return start, start + length
