"""The mutation engine: a worker process runs inputs, its supervisor ends it when it hangs and keeps what was found.

An input that reaches new lines of ridgeline becomes a parent of further inputs. Lines are traced on one input of
`TRACED`, because tracing costs more than most parsers.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from fuzz.documents import edited
from fuzz.inputs import workspace
from fuzz.run import KINDS, Finding, minimised, run
from fuzz.targets import TARGETS
from fuzz.tokens import bombs, mutated

CORPUS = Path(__file__).with_name("corpus")
MAX_WAIT = 60.0  # seconds of the clock after which a worker that does not react is killed
TRACED = 8
BOMB_EVERY = 300
EDITED = 0.5  # share of the inputs that are documents of the right shape
MAX_PARENTS = 2000
PACKAGE = os.sep + "ridgeline" + os.sep


def corpus(target: str) -> dict[str, bytes]:
    """The kept inputs of a target: seeds, and every fault there was."""
    return {path.name: path.read_bytes() for path in sorted((CORPUS / target).glob("*")) if path.is_file()}


class Lines:
    """The lines of ridgeline that were reached so far."""

    def __init__(self) -> None:
        self.reached: set[tuple[CodeType, int]] = set()
        self.ours: dict[CodeType, bool] = {}

    def traced(self, function: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        def call(data: bytes) -> None:
            sys.settrace(self._enter)
            try:
                function(data)
            finally:
                sys.settrace(None)

        return call

    def _enter(self, frame: FrameType, _event: str, _value: Any) -> Any:
        code = frame.f_code
        if code not in self.ours:
            self.ours[code] = PACKAGE in code.co_filename
        return self._line if self.ours[code] else None

    def _line(self, frame: FrameType, event: str, _value: Any) -> Any:
        if event == "line":
            self.reached.add((frame.f_code, frame.f_lineno))
        return self._line


@dataclass
class Session:
    """The inputs of one target, and what they found."""

    target: str
    seed: int
    seconds: float = float("inf")
    count: float = float("inf")
    inputs: int = 0
    lines: int = 0
    findings: dict[tuple[str, str, str], Finding] = field(default_factory=dict)

    def counts(self) -> Counter[str]:
        return Counter(finding.kind for finding in self.findings.values())


def inputs(session: Session, start: int, lines: Lines | None, parents: list[bytes]) -> Iterator[bytes]:
    """The corpus first, then mutations for as long as they are asked for, a bomb now and then; `start` are done already."""
    kept = list(corpus(session.target).values()) or [b""]
    parents.extend(kept)
    chance = random.Random(f"{session.seed} {start}")
    yield from kept[start:]
    waiting = [] if session.count < float("inf") else bombs(kept[0])  # seconds each: not in a short run
    for number in count():
        if waiting and number % BOMB_EVERY == BOMB_EVERY - 1:
            yield waiting.pop(chance.randrange(len(waiting)))
        # recent parents reach lines that others do not
        parent = chance.choice(parents[-20:] if lines and chance.random() < 0.3 else parents)
        data = edited(chance, session.target, parent) if chance.random() < EDITED else parent
        yield data if data is not parent and chance.random() < 0.8 else mutated(chance, data, kept)


def work(session: Session, start: int, shared: Any, found: Any, place: Path) -> None:
    """What a worker does: inputs one after the other; findings go to the supervisor as they come."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("error", RuntimeWarning)
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    lines = Lines() if session.seconds < float("inf") else None
    parents: list[bytes] = []
    seen: set[tuple[str, str, str]] = set()
    end = time.monotonic() + session.seconds
    for number, data in enumerate(inputs(session, start, lines, parents), start):
        if number >= session.count or time.monotonic() > end:
            break
        place.write_bytes(data)
        shared[0], shared[1] = number, time.monotonic()
        before = len(lines.reached) if lines else 0
        traced = lines is not None and (number % TRACED == 0 or number < 100) and len(data) < 100_000
        finding = run(session.target, data, lines.traced(TARGETS[session.target]) if traced and lines else None)
        if finding is not None and traced and finding.kind == KINDS[1]:
            finding = run(session.target, data)  # tracing alone may have taken the time
        if traced and lines and finding is None and len(lines.reached) > before and len(parents) < MAX_PARENTS:
            parents.append(data)
            shared[2] = len(lines.reached)
        shared[1] = 0.0
        if finding is not None and finding.key not in seen:
            seen.add(finding.key)
            found.put(minimised(finding))
            if finding.kind == KINDS[2]:
                break  # the peak of this process stays where it is
    shared[0] = number + 1 if number + 1 < session.count else session.count
    found.put(None)
    found.close()
    found.join_thread()
    shutil.rmtree(workspace(), ignore_errors=True)
    os._exit(0)


def fuzz(session: Session, tell: Callable[[Finding], None] | None = None) -> Session:
    """Run a session; a worker that dies or hangs is a finding, and the next one goes on behind its input."""
    fork = multiprocessing.get_context("fork")
    end = time.monotonic() + session.seconds
    place = workspace() / f"{session.target}.current"
    done = 0
    while done < session.count and (left := end - time.monotonic()) > 0:
        shared, found = fork.Array("d", 3, lock=False), fork.Queue()
        part = Session(session.target, session.seed, left, session.count)
        worker = fork.Process(target=work, args=(part, done, shared, found, place))
        worker.start()
        ended = _watch(session, worker, shared, found, tell)
        done = int(shared[0]) if ended else int(shared[0]) + 1
        session.lines = max(session.lines, int(shared[2]))
        if not ended:
            kind, what = (KINDS[1], "Hang: killed") if ended is False else (KINDS[0], f"Died: {worker.exitcode}")
            _keep(session, Finding(session.target, kind, what, "", place.read_bytes()), tell)
    session.inputs = done
    place.unlink(missing_ok=True)
    return session


def _watch(session: Session, worker: Any, shared: Any, found: Any, tell: Any) -> bool | None:
    """True when the worker came to its end, False when it had to be killed, None when it died."""
    import queue

    while True:
        try:
            finding = found.get(timeout=0.5)
        except queue.Empty:
            if not worker.is_alive() and found.empty():
                return None
            began = shared[1]  # read once: the worker sets it to 0 between two inputs
            if began and time.monotonic() - began > MAX_WAIT:
                worker.kill()
                worker.join()
                return False
            continue
        if finding is None:
            worker.join()
            return True
        _keep(session, finding, tell)


def _keep(session: Session, finding: Finding, tell: Callable[[Finding], None] | None) -> None:
    if finding.key not in session.findings:
        session.findings[finding.key] = finding
        if tell:
            tell(finding)
