"""The catalog: machines by name, from the package, the user's folder or a file.

A name is looked up whole first (`h200-sxm`), then as a driver's name (`NVIDIA H200`), then as a short form: some of
a name's dash-separated words in order (`h200`, `a100-80gb`). A short form that fits several machines lists them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from ..core.errors import InputError, UnknownName, unknown
from ..core.files import folder
from ..core.machine import Figure, Machine
from . import coefficients as fitted
from .schema import read

CATALOG = Path(__file__).with_name("catalog")
MEASURED = CATALOG / "measured"  # what was measured of a machine of the catalog, one file of the same name each
HERE = "here"


def user_folder() -> Path:
    """Where users keep machine files of their own (one TOML each)."""
    return folder("config") / "machines"


@cache
def files() -> dict[str, Path]:
    """Machine files by name; a user's file goes before the catalog's of the same name."""
    folders = (CATALOG, user_folder())
    found = {path.stem: path for folder in folders if folder.is_dir() for path in sorted(folder.glob("*.toml"))}
    return {name: path for name, path in found.items() if name != HERE and not name.startswith(f"{HERE}-")}


def names() -> list[str]:
    return sorted(files())


def load_file(path: Path) -> Machine:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read the machine file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file in UTF-8, so it is not a machine file") from error
    if path.parent != CATALOG:
        return fitted.with_defaults(read(text, str(path)))
    machine = replace(read(text, f"catalog/{path.name}"), fitted=fitted.of_machine(path.stem))
    measured = MEASURED / path.name
    if measured.is_file():
        machine = with_measured(machine, load_file(measured))
    return fitted.with_defaults(machine)


def with_measured(machine: Machine, other: Machine) -> Machine:
    """The machine with what another file measured of it; nothing stated or derived is touched."""

    def put(figure: Figure, seen: Figure | None) -> Figure:
        if seen is None or seen.measured is None:
            return figure
        return replace(
            figure,
            measured=seen.measured,
            measurement=seen.measurement,
            spread=seen.spread,
            sustained=seen.sustained,
            source=figure.source or seen.source,
        )

    peaks = {name: put(figure, other.peaks.get(name)) for name, figure in machine.peaks.items()}
    theirs = {level.name: level for level in other.levels}
    levels = tuple(
        replace(
            level,
            bandwidth=put(level.bandwidth, theirs[level.name].bandwidth),
            latency=put(level.latency, theirs[level.name].latency),
            mixes=theirs[level.name].mixes,
        )
        if level.name in theirs
        else level
        for level in machine.levels
    )
    speeds = {link.name: link.per_direction for link in other.links}
    return replace(
        machine,
        peaks=peaks | {name: figure for name, figure in other.peaks.items() if name not in peaks},
        levels=levels,
        links=tuple(
            replace(link, per_direction=put(link.per_direction, speeds.get(link.name))) for link in machine.links
        ),
        launch=put(machine.launch, other.launch),
        dispatch=put(machine.dispatch, other.dispatch),
        energy={**machine.energy, **other.energy},
        conditions=other.conditions,
        sources={**machine.sources, **other.sources},
    )


def load(name: str | Path) -> Machine:
    """The machine of a name, a short form, a TOML file, or `here` (the one this runs on)."""
    asked = str(name).strip()
    if asked == HERE or asked.startswith(f"{HERE}:"):
        return local(asked.partition(":")[2] or None)
    if asked.endswith(".toml") or "/" in asked or "\\" in asked:
        return load_file(Path(asked).expanduser())
    known = files()
    key = asked.lower().replace("_", "-").replace(" ", "-")
    if key in known:
        return load_file(known[key])
    fitting = [candidate for candidate in known if fits(key, candidate)]
    if len(fitting) == 1:
        return load_file(known[fitting[0]])
    if fitting:
        raise UnknownName(f"'{asked}' fits several machines: {', '.join(sorted(fitting))}; name one of them.")
    matched = by_driver_name(asked)
    if matched is not None:
        return matched
    raise unknown("machine", asked, known, "See `ridgeline machines`, or give a .toml file, or --peak and --bandwidth.")


def saved_file(which: str | None = None) -> Path:
    """Where `ridgeline measure` keeps what it found on this machine."""
    return user_folder() / (f"{HERE}-{which}.toml" if which else f"{HERE}.toml")


def local(which: str | None = None) -> Machine:
    """The machine this runs on: as it was measured, where a measurement of this very machine was saved, else as detected."""
    from .detect.local import here

    found = fitted.with_defaults(here(which))
    path = saved_file(which)
    if not path.is_file():
        return found
    saved = load_file(path)
    if saved.title == found.title:
        return saved
    note = f"{path} was measured on another machine ({saved.title}) and is not used; measure this one"
    return replace(found, notes=(*found.notes, note))


def fits(short: str, name: str) -> bool:
    """Whether a short form is some of a name's words, in order: `a100-80gb` fits `a100-sxm-80gb`, never `a10`."""
    words = iter(name.split("-"))
    return all(part in words for part in short.split("-"))


def everything() -> Iterable[Machine]:
    return (load_file(path) for _, path in sorted(files().items()))


def by_driver_name(reported: str) -> Machine | None:
    """The machine whose driver reports exactly this name; never a part of a name."""
    wanted = " ".join(reported.lower().split())
    for machine in everything():
        if any(" ".join(alias.lower().split()) == wanted for alias in machine.aliases):
            return machine
    return None
