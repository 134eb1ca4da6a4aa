"""The user's folders of configuration, cached files and data, by the environment."""

from __future__ import annotations

import os
from pathlib import Path

from ..core.errors import InputError
from ..core.intake.text import clean

FOLDERS = {"config": ".config", "cache": ".cache", "data": ".local/share"}  # below the home folder


def folder(kind: str) -> Path:
    """The user's folder of a kind: `config`, `cache` or `data`. InputError where nobody says where; it is never guessed."""
    if os.name != "nt":
        _require_home(kind)
    try:
        import platformdirs
    except ImportError:  # a plain checkout without its dependencies still works
        given = os.environ.get(f"XDG_{kind.upper()}_HOME", "")
        return (Path(given) if given.strip() else Path.home() / FOLDERS[kind]) / "ridgeline"
    path: Path = getattr(platformdirs, f"user_{kind}_path")("ridgeline")
    return path


def _require_home(kind: str) -> None:
    """InputError unless the variable that decides about the folder names one that can be used."""
    variable = f"XDG_{kind.upper()}_HOME"
    given = os.environ.get(variable, "")
    if given.strip():
        wrong = "not an absolute path" if not os.path.isabs(given) else "" if _usable(given) else "not a usable folder"
        fault, remedy = f"{variable} is '{clean(given)}', {wrong}", f"set {variable} to a folder of yours, or unset it"
    else:
        home = os.environ.get("HOME")
        wrong = _wrong_home(home)
        fault = "HOME is not set" if home is None else f"HOME is '{clean(home)}', {wrong}"
        remedy = f"set HOME to your home folder, or {variable} to the folder to use"
    if wrong:
        raise InputError(f"your {kind} folder is not known: {fault}; {remedy}")


def _wrong_home(home: str | None) -> str:
    if not home:
        return "which is no folder"
    if not os.path.isabs(home):
        return "not an absolute path"
    if os.path.realpath(home) == "/":
        return "which is the root of the file system"
    if not os.path.isdir(home):
        return "which is not a folder"
    return "" if _usable(home) else "which you may not read"


def _usable(path: str) -> bool:
    """Whether a folder can be read, or could be made: nothing else is in its place."""
    return os.access(path, os.R_OK | os.X_OK) and os.path.isdir(path) if os.path.lexists(path) else True
