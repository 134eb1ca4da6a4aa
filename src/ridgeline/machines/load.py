"""A machine by name: from the catalog, the user's folder, a file, or the one this runs on.

A name is looked up in full first (`h200-sxm`), then as a short form: some of a name's dash-separated words in order
(`h200`, `a100-80gb`), then as a driver's name (`NVIDIA H200`). A short form that fits several machines lists them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..core.errors import UnknownName, unknown
from ..core.machine import Machine
from . import coefficients
from .files import HERE, by_driver_name, load_file, paths, saved_file


def load(name: str | Path) -> Machine:
    """The machine of a name, a short form, a TOML file, or `here` (the one this runs on)."""
    asked = str(name).strip()
    if asked == HERE or asked.startswith(f"{HERE}:"):
        return local(asked.partition(":")[2] or None)
    if asked.endswith(".toml") or "/" in asked or "\\" in asked:
        return load_file(Path(asked).expanduser())
    known = paths()
    key = asked.lower().replace("_", "-").replace(" ", "-")
    if key in known:
        return load_file(known[key])
    fitting = [candidate for candidate in known if fits(key, candidate)]
    if len(fitting) == 1:
        return load_file(known[fitting[0]])
    if fitting:
        raise UnknownName(f"'{asked}' fits several machines: {', '.join(sorted(fitting))}; name one of them.")
    machine, remark = by_driver_name(asked)
    if machine is not None:
        return machine
    hint = "See `ridgeline machines`, or give a .toml file, or --peak and --bandwidth."
    raise unknown("machine", asked, known, f"{remark} {hint}".lstrip())


def local(which: str | None = None) -> Machine:
    """The machine this runs on: as it was measured, where a measurement of this very machine was saved, else as detected."""
    from .detect.local import here  # late, because a machine of the catalog needs no detection

    detected = coefficients.with_defaults(here(which))
    path = saved_file(which)
    if not path.is_file():
        return detected
    saved = load_file(path)
    if saved.title == detected.title:
        return saved
    note = f"{path} was measured on another machine ({saved.title}) and is not used; measure this one"
    return replace(detected, notes=(*detected.notes, note))


def fits(short: str, name: str) -> bool:
    """Whether a short form is some of a name's words, in order: `a100-80gb` fits `a100-sxm-80gb`, never `a10`."""
    words = iter(name.split("-"))
    return all(part in words for part in short.split("-"))
