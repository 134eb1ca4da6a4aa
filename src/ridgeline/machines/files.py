"""Machine files: those of the catalog and of the user's folder, by their own name and by the name a driver reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from ..core.errors import InputError, RidgelineError
from ..core.files import folder
from ..core.machine import Machine
from . import coefficients
from .merge import with_measured
from .schema import read

CATALOG = Path(__file__).with_name("catalog")
MEASURED = CATALOG / "measured"  # what was measured of a machine of the catalog, one file of the same name each
HERE = "here"


def user_folder() -> Path:
    """Where users keep machine files of their own (one TOML each)."""
    return folder("config") / "machines"


def saved_file(which: str | None = None) -> Path:
    """Where `ridgeline measure` keeps what it measured on this machine."""
    return user_folder() / (f"{HERE}-{which}.toml" if which else f"{HERE}.toml")


@cache
def paths() -> dict[str, Path]:
    """Machine files by name; a user's file goes before the catalog's of the same name."""
    folders = (CATALOG, user_folder())
    every = {path.stem: path for folder in folders if folder.is_dir() for path in sorted(folder.glob("*.toml"))}
    return {name: path for name, path in every.items() if name != HERE and not name.startswith(f"{HERE}-")}


def names() -> list[str]:
    """The machines there are: those of the catalog, and the user's own."""
    return sorted(paths())


def load_file(path: Path) -> Machine:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read the machine file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file in UTF-8, so it is not a machine file") from error
    if path.parent != CATALOG:
        return coefficients.with_defaults(read(text, str(path)))
    machine = replace(read(text, f"catalog/{path.name}"), fitted=coefficients.of_machine(path.stem))
    measured = MEASURED / path.name
    if measured.is_file():
        machine = with_measured(machine, load_file(measured))
    return coefficients.with_defaults(machine)


def everything() -> Iterable[Machine]:
    return (load_file(path) for _, path in sorted(paths().items()))


def by_driver_name(reported: str, kind: str | None = None) -> tuple[Machine | None, str]:
    """The machine whose driver reports exactly this name, never a part of one; and a remark where its file is broken.

    Only files that mention the name are parsed: parsing the complete catalog takes longer than detection.
    """
    wanted = _normalised(reported)
    remark = ""
    for path in paths().values() if wanted else ():
        try:
            if wanted not in _normalised(path.read_text(encoding="utf-8")):
                continue
            machine = load_file(path)
        except (OSError, ValueError):
            continue
        except RidgelineError as error:
            problem = str(error).splitlines()[0]
            remark = f"The machine file {path.name} mentions this device and cannot be used: {problem}."
            continue
        if kind in (None, machine.kind) and wanted in map(_normalised, machine.aliases):
            return machine, ""
    return None, remark


def _normalised(text: str) -> str:
    return " ".join(text.lower().split())
