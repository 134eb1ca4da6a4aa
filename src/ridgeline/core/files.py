"""The user's paths, and files that are written completely or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .errors import InputError
from .intake.text import clean

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
