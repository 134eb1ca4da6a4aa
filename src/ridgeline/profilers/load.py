"""Profiles as Observations: each module of this folder with `recognises` and `read` is a format."""

from __future__ import annotations

import importlib
import pkgutil
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ..core.errors import InputError, unknown
from ..core.files import user_path
from ..core.intake.door import shown
from ..core.intake.source import HEAD, head, refuse_bomb
from ..core.observation import Observation, admitted
from ..core.tabular import header, json_document
from ..core.timeline import Timeline
from .plain import TIMES, not_json

FORMATS = "`ridgeline import --help` lists the formats"
TOML_HINT = ": name a machine file with --on"


@cache
def importers() -> dict[str, ModuleType]:
    """The formats by name; `plain` comes last, because it accepts any table with a name and a time."""
    folder = [str(Path(__file__).parent)]
    names = sorted((item.name for item in pkgutil.iter_modules(folder)), key=lambda name: (name == "plain", name))
    modules = {name: importlib.import_module(f".{name}", __package__) for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "recognises")}


def formats() -> dict[str, str]:
    """How to export each format, by name."""
    return {
        name: getattr(module, "HOW", (module.__doc__ or "").partition("\n")[0]) for name, module in importers().items()
    }


def load(path: str | Path, as_: str | None = None) -> list[Observation]:
    """The observations of a file, its format recognised from the content unless `as_` names it."""
    path, as_ = _recognised(path, as_)
    observations: list[Observation] = importers()[as_].read(path)
    if not observations:
        raise InputError(f"'{path}' reads as {as_} and has no timings; export it again: {formats()[as_]}")
    return observations if as_ == "plain" else admitted(observations, f"'{path}'")


class NoTimeline(InputError):
    """A profile of a format that does not record when kernels ran."""


def timeline(path: str | Path, as_: str | None = None) -> Timeline:
    """The timeline of a trace, its format recognised from the content unless `as_` names it."""
    path, as_ = _recognised(path, as_)
    module = importers()[as_]
    if not hasattr(module, "timeline"):
        traces = " or ".join(how for name, how in formats().items() if hasattr(importers()[name], "timeline"))
        raise NoTimeline(
            f"'{path}' reads as {as_}, which records kernels and not when they ran; give a trace: {traces}"
        )
    result: Timeline = module.timeline(path)
    return result


def _recognised(path: str | Path, as_: str | None) -> tuple[Path, str]:
    path = user_path(path)
    if as_ is not None and as_ not in importers():
        raise unknown("format", as_, importers())
    if path.is_dir():
        raise InputError(f"'{path}' is a folder; name the profile in it")
    refuse_bomb(path)
    start = head(path)
    if not start.strip():
        raise InputError(f"'{path}' is empty; {FORMATS}")
    if as_ is None and _is_toml(start):
        raise InputError(f"'{path}' is TOML, as machine files are, and no profile{TOML_HINT}; {FORMATS}")
    if as_ is None:
        as_ = next((name for name, module in importers().items() if module.recognises(start, path)), None)
    if as_ in (None, "plain") and _CHROME_EVENT.search(start):
        raise InputError(
            f"'{path}' is a Chrome trace of neither PyTorch nor JAX, whose events say nothing of kernels; {FORMATS}"
        )
    if as_ is None:
        raise _unrecognised(start, path)
    return path, as_


# An event with a phase and a time, in either order of its fields.
_CHROME_EVENT = re.compile(
    r'\{[^{}]{0,400}"ph"\s*:\s*"[A-Za-z]"[^{}]{0,400}"ts"\s*:|\{[^{}]{0,400}"ts"\s*:[^{}]{0,400}"ph"\s*:\s*"[A-Za-z]"'
)


def _is_toml(start: str) -> bool:
    """Whether the lines at the start of a file are TOML: it has tables in brackets, as JSON has lists."""
    lines = start if len(start) < HEAD else start.rpartition("\n")[0]
    try:
        return bool(tomllib.loads(lines.removeprefix("\ufeff")))
    except (ValueError, RecursionError):
        return False


def _unrecognised(start: str, path: Path) -> InputError:
    """One line: what the file starts with, or where its JSON breaks off."""
    if start.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") and len(start) < HEAD:
        try:
            json_document(start.removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:
            return InputError(f"'{path}' {not_json(start, error)}; {FORMATS}")
    line = start.strip().partition("\n")[0].rstrip()
    names, _ = header(line)
    if len(names) > 1 and line.isprintable():
        return InputError(
            f"'{path}' has no known format. As a table it would need a header with name and one of {', '.join(TIMES)}; "
            f"its first line is {shown(line)}; {FORMATS}"
        )
    starts = shown(line) if line.isprintable() else "binary data"
    return InputError(f"'{path}' has no known format: it starts with {starts}; {FORMATS}")


def document(observations: Iterable[Observation]) -> list[dict[str, Any]]:
    """What `ridgeline import` writes, one entry per observation; what is not known is not there.

    The entries share the observations' own mappings, so that a large profile is not held twice: write them, do not
    change them.
    """
    return [_entry(item) for item in observations]


def _entry(item: Observation) -> dict[str, Any]:
    several = len(item.samples) > 1
    fields = ("flops", "bytes", "tool", "version", "conditions", "settings", "counters", "defined")
    known: dict[str, Any] = {
        "name": item.name,
        "kernel": item.kernel,
        "time_us": (item.median if several else item.samples[0]) * 1e6,
        "times_us": [sample * 1e6 for sample in item.samples] if several else [],
        **{field: getattr(item, field) for field in fields},
        "path": list(item.path),
        "notes": list(item.notes),
    }
    always = ("name", "time_us", "flops", "bytes", "tool", "conditions")
    return {key: value for key, value in known.items() if key in always or value}
