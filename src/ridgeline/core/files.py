"""The user's paths and folders, and files that are written completely or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .errors import InputError
from .intake.text import clean

FOLDERS = {"config": ".config", "cache": ".cache", "data": ".local/share"}  # below the home folder
DRAFT = ".draft"  # how the name of a draft's folder ends
MAX_DRAFT_NAME = 40  # characters of the file's name in that of its draft's folder, which must not grow too long
MAX_DRAFT_AGE = 3600.0  # seconds after which a draft is one that a killed program left


def user_path(path: str | Path) -> Path:
    """A path as somebody typed it, with `~` and `~user` in full."""
    text = os.fspath(path)
    if "\0" in text:
        raise InputError(f"'{clean(text)}' is no path: it has a zero byte in it")
    try:
        return Path(text).expanduser()
    except RuntimeError:  # neither the environment nor the system knows that home
        start = clean(text.partition("/")[0])
        raise InputError(
            f"'{clean(text)}': there is no home folder that '{start}' means; write the path in full"
        ) from None


def folder(kind: str) -> Path:
    """The user's folder of a kind: `config`, `cache` or `data`. InputError where nobody says where; it is never guessed."""
    if os.name != "nt":
        _require_home(kind)
    try:
        import platformdirs
    except ImportError:  # a plain checkout without its dependencies still works
        given = _variable(f"XDG_{kind.upper()}_HOME") or ""
        return (Path(given) if given.strip() else Path.home() / FOLDERS[kind]) / "ridgeline"
    path: Path = getattr(platformdirs, f"user_{kind}_path")("ridgeline")
    return path


def _variable(name: str) -> str | None:
    """A variable of the environment, None where it is not set; the only ones the core asks for name the user's folders."""
    value = os.path.expandvars(f"${name}")
    return None if value == f"${name}" else value


def _require_home(kind: str) -> None:
    """InputError unless the variable that decides about the folder names one that can be used."""
    variable = f"XDG_{kind.upper()}_HOME"
    given = _variable(variable) or ""
    if given.strip():
        wrong = "not an absolute path" if not os.path.isabs(given) else "" if _usable(given) else "not a usable folder"
        fault, remedy = f"{variable} is '{clean(given)}', {wrong}", f"set {variable} to a folder of yours, or unset it"
    else:
        home = _variable("HOME")
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


def writable(path: str | Path) -> Path:
    """The file that is meant, where it can be written; else one message. For before long work as well as at its end."""
    asked = user_path(path)
    target = Path(os.path.realpath(asked))  # a link keeps pointing where it points
    if os.path.isdir(target):
        raise InputError(f"cannot write '{clean(str(asked))}': it is a folder; name a file in it")
    parent = clean(str(asked.parent))
    if not os.path.isdir(target.parent):
        raise InputError(f"cannot write '{clean(str(asked))}': the folder '{parent}' does not exist; create it first")
    if not os.access(target.parent, os.W_OK):
        raise InputError(
            f"cannot write '{clean(str(asked))}': the folder '{parent}' is not yours to write; choose another place"
        )
    return target


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a draft beside the file, then put it in place at once; on any error nothing is left behind.

    The draft has the name of the file, by whose suffix writers choose a format, in a hidden folder of its own: no
    listing of the folder takes what a killed program left for a file.
    """
    asked, target = user_path(path), writable(path)
    place = target.with_name(f".{target.name[:MAX_DRAFT_NAME]}.{secrets.token_hex(4)}{DRAFT}")
    draft = place / target.name
    try:
        place.mkdir(mode=0o700)
        write(draft)
        if os.path.exists(target) and not os.path.isfile(target):
            target.write_bytes(draft.read_bytes())  # a device or a pipe is written to, not replaced
        else:
            os.replace(draft, target)
            _remove_old_drafts(target)
    except OSError as error:
        raise InputError(
            f"cannot write '{clean(str(asked))}': {error.strerror or error}; choose another place"
        ) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return asked


def _remove_old_drafts(target: Path) -> None:
    """Drafts of a file that killed programs left; a younger one may still be written by another program."""
    start = f".{target.name[:MAX_DRAFT_NAME]}."
    with suppress(OSError):
        written = target.stat().st_mtime  # the time now, without asking a clock
        with os.scandir(target.parent) as entries:
            old = [
                entry.path
                for entry in entries
                if entry.name.startswith(start) and entry.name.endswith(DRAFT) and entry.is_dir(follow_symlinks=False)
                if written - entry.stat(follow_symlinks=False).st_mtime > MAX_DRAFT_AGE
            ]
        for path in old:
            shutil.rmtree(path, ignore_errors=True)


def write_text(path: str | Path, text: str) -> Path:
    return write_atomically(path, lambda draft: draft.write_text(text, encoding="utf-8"))
