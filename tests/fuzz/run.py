"""One input through one target under a limit of time and memory; what goes wrong is a Finding."""

from __future__ import annotations

import hashlib
import re
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

from fuzz.checks import WrongValue
from fuzz.targets import TARGETS
from ridgeline.core.errors import RidgelineError

MAX_SECONDS = 10.0  # of the processor, so that a busy machine finds nothing of its own
MAX_MEMORY = 1 << 30  # bytes above what the process had before
SLACK = 1 << 29  # address space beyond that, which is reserved and never used
KINDS = ("exception", "over 10 s", "over 1 GB", "wrong value")


class TooLong(BaseException):
    """Not an Exception, so that no parser mistakes it for bad input."""


@dataclass(frozen=True)
class Finding:
    target: str
    kind: str  # of KINDS
    what: str  # type and text of the exception
    frame: str  # innermost line of ridgeline
    data: bytes

    @property
    def key(self) -> tuple[str, str, str]:
        """Findings of one key are one fault; a wrong value goes by what is wrong, without the value."""
        name, _, text = self.what.partition(": ")
        return self.kind, name, self.frame or re.split(" is |:", text)[0][:60]

    @property
    def name(self) -> str:
        return hashlib.sha256(repr((self.target, self.key)).encode()).hexdigest()[:10]


def address_space() -> int:
    """Bytes of this process."""
    with suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
    return 0


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def guarded() -> Iterator[None]:
    """Limits of time and memory for what runs inside."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = address_space()
    if used:
        resource.setrlimit(resource.RLIMIT_AS, (used + MAX_MEMORY + SLACK, hard))
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS, 1.0)  # again, should the first be swallowed
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def run(target: str, data: bytes, function: Callable[[bytes], Any] | None = None) -> Finding | None:
    """What is wrong with an input, or None."""
    call, used = function or TARGETS[target], peak_memory()
    try:
        with guarded():
            call(data)
    except TooLong as error:
        return _finding(target, KINDS[1], error, data)
    except WrongValue as error:
        return _finding(target, KINDS[3], error, data)
    except RidgelineError as error:
        problem = error if isinstance(str(error), str) and str(error).strip() else None
        if problem is None:
            return _finding(target, KINDS[3], error, data)
        if _memory(error):
            return _finding(target, KINDS[2], error, data)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return _finding(target, KINDS[2] if _memory(error) else KINDS[0], error, data)
    if peak_memory() - used > MAX_MEMORY:
        return Finding(target, KINDS[2], f"{(peak_memory() - used) >> 20} MiB", "", data)
    return None


def _memory(error: BaseException | None) -> bool:
    """Whether an error comes from a lack of memory, also where it was turned into a message."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _finding(target: str, kind: str, error: BaseException, data: bytes) -> Finding:
    frames = [item for item in traceback.extract_tb(error.__traceback__) if "/src/ridgeline/" in item.filename]
    frame = ""
    if frames:
        last = frames[-1]
        frame = f"{last.filename.partition('/src/ridgeline/')[2]}:{last.lineno} {last.name}"
    text = " ".join(str(error).split())[:300].encode("ascii", "backslashreplace").decode()
    return Finding(target, kind, f"{type(error).__name__}: {text}", frame, data)


def minimised(finding: Finding, tries: int = 300) -> Finding:
    """The same fault with fewer bytes: pieces are left out while it stays."""
    if finding.kind in KINDS[1:3]:
        return finding  # each try would take as long
    data, size = finding.data, max(1, len(finding.data) // 2)
    while size and tries > 0:
        place = 0
        while place < len(data) and tries > 0:
            tries -= 1
            shorter = data[:place] + data[place + size :]
            again = run(finding.target, shorter)
            if again is not None and again.key == finding.key:
                data, finding = shorter, again
            else:
                place += size
        size //= 2
    return finding


def main() -> None:
    """`python -m fuzz.run TARGET FILE...`: replay inputs."""
    target, *paths = sys.argv[1:]
    failed = False
    for path in paths:
        with open(path, "rb") as file:
            print(f"{path}: ", end="", flush=True)
            finding = run(target, file.read())
        failed |= finding is not None
        print(f"{finding.kind}: {finding.what} at {finding.frame}" if finding else "fine", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
