"""Machine files: those of the catalog and of the user's folder, by their own name and by the name a driver reports.

A user's file goes before the catalog's of the same name or with the same alias. One that cannot be read is listed as
broken and hides no other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ..core.errors import InputError, RidgelineError, SchemaError, letters
from ..core.files import user_path
from ..core.intake import clean, limit
from ..core.intake.limits import over
from ..core.machine import Machine
from . import coefficients
from .folders import folder
from .merge import with_measured
from .schema import read

CATALOG = Path(__file__).with_name("catalog")
MEASURED = CATALOG / "measured"  # what was measured of a machine of the catalog, one file of the same name each
HERE = "here"


def user_folder() -> Path:
    """Where users keep machine files of their own (one TOML each); InputError where their home is not known."""
    return folder("config") / "machines"


def saved_file(which: str | None = None) -> Path:
    """Where `ridgeline measure` keeps what it measured on this machine."""
    return user_folder() / (f"{HERE}-{which}.toml" if which else f"{HERE}.toml")


def saved_measurement(which: str | None = None) -> Path | None:
    """The file of what was measured on this machine; None where there is none, or no folder it could be in."""
    try:
        file = saved_file(which)
        return file if file.is_file() else None
    except (InputError, OSError):
        return None


def _in_folder(place: Path) -> dict[str, Path]:
    """Machine files of a folder by name, without hidden ones, which are drafts, and without those of this machine."""
    try:
        files = sorted(path for path in place.glob("*.toml") if not path.name.startswith("."))
    except OSError:
        return {}
    return {path.stem: path for path in files if path.stem != HERE and not path.stem.startswith(f"{HERE}-")}


@cache
def paths() -> dict[str, Path]:
    """Machine files by name, the user's first; a user's file goes before the catalog's of the same name."""
    try:
        own = _in_folder(user_folder())
    except InputError:  # without a home there are no files in it, and the catalog needs none
        own = {}
    return own | {name: path for name, path in _in_folder(CATALOG).items() if name not in own}


def names() -> list[str]:
    """The machines there are: those of the catalog, and the user's own."""
    return sorted(paths())


def _text(path: Path) -> str:
    """The text of a machine file. Not more than the limit is read of what may be a device or have no end."""
    shown = clean(str(path))
    try:
        with path.open("rb") as file:
            content = file.read(int(limit("machine")) + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the machine file {shown}: {getattr(error, 'strerror', error)}") from error
    if len(content) > limit("machine"):
        raise over("machine", f"the machine file {shown}")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{shown} is not a text file in UTF-8, so it is not a machine file") from error


def load_file(path: Path) -> Machine:
    path = user_path(path)
    if path.parent == CATALOG:
        return _of_catalog(path)
    return coefficients.with_defaults(read(_text(path), clean(str(path))))


@cache  # files of the package do not change, and to read one takes a hundred times as long as to predict with it
def _of_catalog(path: Path) -> Machine:
    machine = replace(read(_text(path), f"catalog/{path.name}"), fitted=coefficients.of_machine(path.stem))
    measured = MEASURED / path.name
    if measured.is_file():
        machine = with_measured(machine, read(_text(measured), str(measured)))
    return coefficients.with_defaults(machine)


@dataclass(frozen=True)
class Broken:
    """A machine file that cannot be used, and the first thing that is wrong with it."""

    name: str
    file: str
    complaint: str


@dataclass(frozen=True)
class Listing:
    """All machine files: the machines by the name that loads them, the broken files, and what is there twice."""

    machines: Mapping[str, Machine]
    broken: tuple[Broken, ...]
    remarks: tuple[str, ...]


def listing() -> Listing:
    machines: dict[str, Machine] = {}
    broken: list[Broken] = []
    for name, path in sorted(paths().items()):
        try:
            if not path.is_file():  # a pipe would be waited for
                raise InputError("it is not a file")
            machines[name] = load_file(path)
        except (RidgelineError, OSError) as error:
            complaint = error.complaints[0] if isinstance(error, SchemaError) else str(error)
            broken.append(Broken(clean(name), clean(str(path)), complaint))
    return Listing(machines, tuple(broken), tuple(_remarks(machines)))


def everything() -> list[Machine]:
    """The machines that can be read, in the order of their names."""
    return list(listing().machines.values())


def _remarks(machines: Mapping[str, Machine]) -> list[str]:
    """Which file counts where two have a name or an alias; only a user's file can bring a second one."""
    try:
        where = clean(str(user_folder()))
    except InputError as error:
        return [str(error)]
    own = {name for name, path in paths().items() if path.parent != CATALOG}
    if not own:
        return []
    remarks = [
        f"{name}: the file in {where} is used, not the catalog's"
        for name in own
        if (CATALOG / f"{name}.toml").is_file()
    ]
    by_letters: dict[str, str] = {}
    for name in paths():  # the user's come first
        first = by_letters.setdefault(letters(name), name)
        if first != name:
            remarks.append(f"{clean(first)} and {clean(name)} differ in dashes only; write the one you mean in full")
    for name, machine in machines.items():
        if name in own and machine.name != name:
            remarks.append(
                f"{clean(name)}: the file calls the machine '{machine.name}'; it is loaded by the name of the file"
            )
    return remarks + _alias_remarks(machines)


def _alias_remarks(machines: Mapping[str, Machine]) -> list[str]:
    remarks = []
    owners: dict[str, str] = {}
    for name in paths():  # the user's come first, as in `by_driver_name`
        for alias in dict.fromkeys(map(_normalised, machines[name].aliases)) if name in machines else ():
            first = owners.setdefault(alias, name)
            if first != name:
                remarks.append(f"the alias '{alias}' is in {clean(first)} and {clean(name)}; it means {clean(first)}")
    return remarks


def by_driver_name(reported: str, kind: str | None = None) -> tuple[Machine | None, str]:
    """The machine whose driver reports exactly this name, never a part of one; and a remark where its file is broken.

    Only files that mention the name are parsed: parsing the complete catalog takes longer than detection.
    """
    wanted = _normalised(reported)
    remark = ""
    for path in paths().values() if wanted else ():
        if not _mentions(path, wanted):
            continue
        try:
            machine = load_file(path)
        except RidgelineError as error:
            problem = str(error).splitlines()[0]
            remark = f"The machine file {clean(path.name)} mentions this device and cannot be used: {problem}."
            continue
        if kind in (None, machine.kind) and wanted in map(_normalised, machine.aliases):
            return machine, ""
    return None, remark


def _mentions(path: Path, wanted: str) -> bool:
    """As a whole text: `cpu` is a word of many files and an alias of none."""
    try:
        return path.is_file() and re.search(f"[\"'] ?{re.escape(wanted)} ?[\"']", _normalised(_text(path))) is not None
    except (OSError, InputError):  # what cannot be read mentions nothing
        return False


def _normalised(text: str) -> str:
    return " ".join(text.lower().split())
