"""The one place where the command line prints: only clean text reaches a terminal, and an output that fails is named."""

from __future__ import annotations

import re
import sys

# Everything that moves the cursor or says something to the terminal: what is left are texts, lines and colours.
_COLOUR = re.compile("(\x1b\\[[0-9;]{0,16}m)")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Unprintable(Exception):
    """Standard output takes no more."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def harmless(text: str) -> str:
    """The text with lines and colours only; other control characters become blanks."""
    if text.isprintable():
        return text
    parts = _COLOUR.split(text)
    parts[::2] = [_CONTROL.sub(" ", part) for part in parts[::2]]
    return "".join(parts)


def echo(text: object = "", err: bool = False) -> None:
    """A line, or several, on standard output or standard error; colours on terminals only."""
    stream = sys.stderr if err else sys.stdout
    shown = harmless(str(text))
    try:
        # not by click, which writes UTF-8 to an output that says it takes ASCII
        print(shown if stream.isatty() else _COLOUR.sub("", shown), file=stream, flush=True)
    except OSError as error:
        if not err:  # standard error has remarks only
            raise Unprintable(error) from error
