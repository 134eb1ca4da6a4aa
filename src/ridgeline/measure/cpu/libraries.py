"""Compiled libraries in a folder of this user alone, loaded only if owner, mode and hash are right.

A library is opened once; what is checked and what is loaded is that one open file, whatever happens to its name
meanwhile. The hash of its content is in a file next to it.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import Any

from ...core.files import write_text

PRIVATE = 0o700
OTHERS_WRITE = 0o022


def make_private(folder: Path) -> None:
    """A folder for this user alone; OSError where it cannot be one: a link, somebody else's, or others may write to it."""
    folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    state = os.lstat(folder)
    if stat.S_ISLNK(state.st_mode):
        raise OSError(errno.EPERM, "it is a link to another folder")
    if fault := _fault(state):
        raise OSError(errno.EPERM, fault)
    if stat.S_IMODE(state.st_mode) != PRIVATE:
        os.chmod(folder, PRIVATE)


def _fault(state: os.stat_result) -> str:
    """Why somebody else may have written a file or folder; empty where nobody can have."""
    if state.st_uid != os.geteuid():
        return "it belongs to another user"
    return "others may write to it" if state.st_mode & OTHERS_WRITE else ""


def kept(file: Path) -> tuple[Any, str]:
    """The library of a file; None where there is none to be used, with the reason where somebody may have changed it."""
    try:
        handle, digest = _opened(file)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, error.strerror or str(error)
    try:
        expected = _digest_file(file).read_text(encoding="ascii").strip()
    except (OSError, ValueError):  # written by a version that kept none, or killed in between
        expected = ""
    if digest == expected:
        try:
            return _load(handle, file), ""
        except (OSError, AttributeError):
            pass
    os.close(handle)
    return None, "its content has changed" if expected not in ("", digest) else ""


def keep(draft: Path, file: Path) -> Any:
    """Put a library that was just compiled in its place, and load it."""
    os.chmod(draft, PRIVATE)  # a linker writes it as the umask says, which may let a group write
    handle, digest = _opened(draft)
    try:
        os.replace(draft, file)
        write_text(_digest_file(file), digest + "\n")
        return _load(handle, file)
    except BaseException:
        os.close(handle)
        raise


def _digest_file(file: Path) -> Path:
    return file.with_suffix(".sha256")


def _opened(file: Path) -> tuple[int, str]:
    """A handle to a library and the hash of its content; OSError where others can have written it."""
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe is not waited for
    try:
        state = os.fstat(handle)
        fault = _fault(state) if stat.S_ISREG(state.st_mode) else "it is not a file"
        if fault:
            raise OSError(errno.EPERM, fault)
        with open(handle, "rb", closefd=False) as content:
            return handle, hashlib.file_digest(content, "sha256").hexdigest()
    except BaseException:
        os.close(handle)
        raise


def _load(handle: int, file: Path) -> Any:
    """The library behind a handle, which stays open: the loader knows libraries by name, and another would get this one's."""
    opened = f"/proc/self/fd/{handle}"
    library = ctypes.CDLL(opened if os.path.exists(opened) else str(file))
    library.rl_count  # noqa: B018  a file that loads but is not ours raises here
    return library
