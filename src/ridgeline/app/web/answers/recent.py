"""Files that the page asked about lately: what was read of them stays in memory, so that the next card is there at once.

The page gives each file a random token and asks by it. Nothing is written anywhere, and a file is forgotten ten minutes after the
last question about it, or when newer ones need the room; the page then sends it again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from ....core.errors import InputError
from ....core.intake.source import GZIP
from .upload import Upload

MAX_FILES, MAX_BYTES = 4, 96 * 2**20  # in memory together; the newest always is
PACKED = 8  # bytes that one of a packed file becomes
MAX_MACHINES = 3  # whose answers are kept
FORGET_AFTER = 600.0  # seconds without a question


class Forgotten(InputError):
    """The file is not in memory: the page is to send it."""


@dataclass
class Reading:
    """A file while questions about it come: what was read, the answers for machines, how far the work is."""

    size: int = 0
    digest: bytes = b""  # of the file, to know another one that comes under the same token
    source: Callable[[Any], Any] | None = None
    answers: dict[str | None, Any] = field(default_factory=dict)
    done: int = 0
    total: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, done: int, total: int) -> None:
        self.done, self.total = done, total

    def keep(self, machine: str | None, answer: Any) -> None:
        while len(self.answers) >= MAX_MACHINES:
            del self.answers[next(iter(self.answers))]
        self.answers[machine] = answer


@dataclass(frozen=True)
class Asked:
    """A question about a file: its bytes or the token it was sent under, and the machine that was chosen."""

    upload: Upload
    machine: str | None = None
    reading: Reading = field(default_factory=Reading)


class Recent:
    """The readings by token, the one that was asked about last at the end."""

    def __init__(self) -> None:
        self._readings: dict[str, Reading] = {}
        self._lock = threading.Lock()
        self._timers: dict[str, threading.Timer] = {}

    def reading(self, token: str, content: bytes) -> Reading:
        """That of a token; a new one for other content that comes with it. Forgotten where there is neither."""
        if not token:
            return Reading()
        digest = sha256(content).digest() if content else b""
        with self._lock:
            reading = self._readings.get(token)
            if not content and (reading is None or reading.source is None):
                raise Forgotten("the file is no longer in memory; send it again")
            if reading is None or (content and reading.digest != digest):
                reading = Reading(len(content) * (PACKED if content.startswith(GZIP) else 1), digest)
            self._readings.pop(token, None)
            self._readings[token] = reading
            self._make_room()
            self._restart(token)
        return reading

    def progress(self, token: str) -> tuple[int, int]:
        """Kernels that are done, and all; zeros before they are counted."""
        reading = self._readings.get(token)
        return (reading.done, reading.total) if reading else (0, 0)

    def forget(self, token: str) -> None:
        with self._lock:
            self._drop(token)

    def _make_room(self) -> None:
        while len(self._readings) > 1 and (
            len(self._readings) > MAX_FILES or sum(each.size for each in self._readings.values()) > MAX_BYTES
        ):
            self._drop(next(iter(self._readings)))

    def _drop(self, token: str) -> None:
        self._readings.pop(token, None)
        timer = self._timers.pop(token, None)
        if timer is not None:
            timer.cancel()

    def _restart(self, token: str) -> None:
        timer = self._timers.pop(token, None)
        if timer is not None:
            timer.cancel()
        timer = self._timers[token] = threading.Timer(FORGET_AFTER, self.forget, (token,))
        timer.daemon = True
        timer.start()
