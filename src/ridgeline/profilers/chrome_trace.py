"""Chrome traces, as PyTorch and JAX write them: events read one at a time, and which spans of a thread lie within which."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ..core.errors import InputError
from ..core.intake import Door, clean, limit, refuse_over
from ..core.intake.door import shown
from ..core.intake.limits import over
from ..core.observation import LONGEST
from ..core.tabular import opened

EVENTS = "traceEvents"
UNREADABLE = "unreadable"  # the key of the note about events that were left out
MICRO = 1e-6  # a trace counts in microseconds

# -- the file, one event at a time ---------------------------------------------------------------------------------

PIECE = 1 << 22  # characters read at a time; a trace may be larger than memory
END_MARGIN = 12  # characters from the end within which an error means that the text stops there
MAX_SAID = 200  # characters of the parser's message that are passed on
MAX_UNREADABLE = 0.01  # of the events; more are no slips of the profiler's writer but another format
FEW_UNREADABLE = 10  # that may come before their share is known
_NEXT_EVENT = re.compile(r'\{\s*"ph"\s*:')  # what profilers write first in an event
_SIGN = re.compile(r"[^\s,:]")
_ENDS = tuple(" \t\r\n,]}")
_DECODER = json.JSONDecoder()


class _Broken(InputError):
    """A value that is not JSON."""


class _JsonStream:
    """JSON values of a text in turn, holding a piece of it at a time."""

    def __init__(self, path: Path, text: TextIO) -> None:
        self.path, self.text = path, text
        self.piece, self.at, self.read = "", 0, 0
        self.unreadable: list[_Broken] = []

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
            except RecursionError as error:
                raise self.too_deep() from error
            except ValueError as error:
                if not self.incomplete(error):
                    raise self.broken(error) from error
                if len(self.piece) - self.at > limit("line"):
                    raise over("line", f"'{self.path}', entry {self.read + 1},") from error
                if not self.more():
                    raise self.cut() from error
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

    def incomplete(self, error: ValueError) -> bool:
        """Whether the error may be gone once more of the text is read."""
        return isinstance(error, json.JSONDecodeError) and (
            error.msg.startswith("Unterminated") or error.pos + END_MARGIN >= len(self.piece)
        )

    def skip(self, error: _Broken) -> None:
        """Go on at the next event: profilers write some names without escaping their quotes."""
        self.unreadable.append(error)
        if len(self.unreadable) > max(FEW_UNREADABLE, MAX_UNREADABLE * self.read):
            raise self.unreadable[0]
        self.at += 1
        while not (start := _NEXT_EVENT.search(self.piece, self.at)):
            if len(self.piece) - self.at > limit("line") or not self.more():
                raise error
        self.at = start.start()

    def broken(self, error: Exception) -> _Broken:
        said = clean(str(error), MAX_SAID)
        return _Broken(f"'{self.path}' is not JSON after entry {self.read}: {said}; export the trace again")

    def too_deep(self) -> InputError:
        return InputError(f"'{self.path}' nests values too deeply after entry {self.read}; export the trace again")


def items(path: Path) -> Iterator[tuple[str, Any]]:
    """Keys and values of a Chrome trace in the order of the file, each event under `traceEvents`."""
    with opened(path) as text:
        source = _JsonStream(path, text)
        start = source.sign()
        if start not in "{[":
            raise InputError(
                f"'{path}' is not a trace: it begins with {shown(start)}, a trace is a JSON object of events"
            )
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
    most, before = limit("rows"), source.read
    while (sign := source.sign()) != "]":
        try:  # nearly every event is an object that lies whole in the piece
            if sign != "{":
                raise ValueError(sign)
            value, source.at = _DECODER.raw_decode(source.piece, source.at)
            source.read += 1
        except (ValueError, RecursionError):
            try:
                value = source.value()
            except _Broken as error:
                source.skip(error)
                continue
        if source.read > most:
            refuse_over("rows", source.read, f"'{source.path}', event {source.read:,},")
        yield EVENTS, value
    source.at += 1
    if count := len(source.unreadable):
        total = source.read - before + count
        if count > MAX_UNREADABLE * total:
            raise source.unreadable[0]
        yield UNREADABLE, f"{count:,} of {total:,} entries of the trace are not JSON and were left out"


# -- spans of a thread ---------------------------------------------------------------------------------------------

MAX_OPEN = 1000  # spans of a thread inside each other, as deep as Python's own calls
OP, RANGE, MODULE, FRAME, LAUNCH = "op", "range", "module", "frame", "launch"
SLACK = 1e-3  # microseconds by which the rounding of a start and a length may let neighbours overlap


class Span(NamedTuple):
    """A stretch of time of a thread. `ident` is the External id of an op or range, the correlation of a launch."""

    start: float
    end: float
    kind: str
    what: Any
    ident: int = 0


def nested(spans: Iterable[Span], path: Path, most: int = MAX_OPEN) -> Iterator[tuple[Span, list[Span]]]:
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
            if len(around) > most:
                raise InputError(
                    f"'{path}' has more than {most} events of one thread or stream open at once; in a trace they are "
                    "nested as calls are. Export the trace again"
                )


def stretches(span: Span, inner: list[Span]) -> Iterator[tuple[float, float]]:
    """The parts of a span outside the spans in it, which come in the order they began."""
    at = span.start
    for other in inner:
        if other.start > at:
            yield at, min(other.start, span.end)
        at = max(at, other.end)
    if at < span.end or not inner:
        yield at, max(at, span.end)


MAX_START = 1e18  # microseconds; clocks count from a boot or from 1970


def times(event: dict[str, Any], door: Door, place: int, start: float, length: float) -> tuple[float, float] | None:
    """Start and end of an event from its start and length; None, and a complaint, where they are no times."""
    if -MAX_START <= start <= MAX_START and 0 <= length <= LONGEST / MICRO:
        return start, start + length
    ts, dur = shown(event.get("ts")), shown(event.get("dur"))
    door.complain(f"event {place}, {shown(event.get('name'))}", f"has no usable time (ts {ts}, dur {dur})")
    return None


def usable(event: Any, door: Door, place: int) -> dict[str, Any]:
    """The arguments of an event; none, and a complaint, where it is no event."""
    if not isinstance(event, dict):
        door.complain(f"event {place}", f"is {shown(event)}; an event is a table")
        return {}
    args = event.get("args")
    if args is None or isinstance(args, dict):
        return args or {}
    door.complain(f"event {place}, {shown(event.get('name'))}", f"args must be a table, found {shown(args)}")
    return {}
