"""The probe library: C compiled at first use for exactly this CPU, kept by source, compiler, flags and CPU.

Nothing half-written is ever loaded: the compiler writes a temporary file that is then renamed. Where the user's cache
folder cannot be written, or is not the user's alone, a private temporary folder serves for this run.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...core.errors import InputError, RidgelineError
from ...core.notes import CONDITIONS, Note
from ...machines.folders import folder
from . import libraries

KERNELS = Path(__file__).parents[1] / "kernels"
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-std=gnu11", "-pthread", "-shared", "-fPIC")
MAX_COMPILE_SECONDS = 120
_GIVEN_UP: dict[tuple[str, ...], str] = {}  # compilers that did not finish, which are not waited for twice in one run


class BuildError(RidgelineError):
    """The probe library cannot be made on this machine; the message says why and what to do."""


@dataclass(frozen=True)
class Built:
    """The loaded library, and how it was compiled."""

    library: Any
    file: Path
    compiler: str
    flags: tuple[str, ...]
    notes: tuple[Note, ...] = ()


def compiler() -> tuple[list[str], str]:
    """The C compiler to call: $CC, else the first of cc, gcc, clang, with a remark where $CC names no program."""
    text = os.environ.get("CC", "").strip()
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that is not closed
        words = []
    if words and shutil.which(words[0]):
        return words, ""
    missing = f"$CC names '{text}', which cannot be found" if text else ""
    for name in COMPILERS:
        if path := shutil.which(name):
            return [path], missing
    also = f" {missing} either." if missing else ""
    raise BuildError(
        f"no C compiler found (looked for {', '.join(COMPILERS)}).{also} Install one (Debian: apt install gcc) for full speed."
    )


def version(command: Sequence[str]) -> str:
    """The first line of a compiler's version text."""
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"the C compiler '{command[0]}' cannot be started: {error}. Set CC to one that can.") from None
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def native() -> str:
    """The flag for exactly this CPU, as the architecture spells it."""
    return "-mcpu=native" if platform.machine().lower() in ("aarch64", "arm64") else "-march=native"


def cpu_identity() -> str:
    """What distinguishes this CPU for a compiler: model and instruction sets."""
    wanted = ("model name", "flags", "features", "cpu implementer", "cpu part", "cpu family", "model", "stepping")
    rows: list[str] = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if not line.strip() and rows:
                break
            if line.partition(":")[0].strip().lower() in wanted:
                rows.append(" ".join(line.split()))
    return "\n".join(rows) or f"{platform.machine()} {platform.processor()}"


def sources() -> list[Path]:
    return sorted(KERNELS.glob("*.[ch]"))


def cache_folder() -> Path:
    return folder("cache") / "kernels"


def build() -> Built:
    """The library, from the cache or compiled now; BuildError with one clear message where that is impossible."""
    command, missing = compiler()
    if tuple(command) in _GIVEN_UP:
        raise BuildError(_GIVEN_UP[tuple(command)])
    name = version(command)
    text = f"compiled without the compiler asked for: {missing}, so {command[0]} was used"
    other = (Note(CONDITIONS, text),) if missing else ()
    refusals: list[str] = []
    for flags in ((*FLAGS, native()), FLAGS):
        try:
            built = _with_flags(command, name, flags)
            return replace(built, notes=(*other, *built.notes))
        except CompileError as error:
            why = f"the C compiler '{command[0]}' ({name}) cannot compile the probes: {error}. Set CC to another one, or update it."
            if isinstance(error, Unfinished):  # other flags will not make it quicker
                _GIVEN_UP[tuple(command)] = why
                raise BuildError(why) from None
            # a compiler that does not know this CPU still compiles for the architecture's common ground
            refusals.append(why)
    raise BuildError(refusals[0])


class CompileError(BuildError):
    """The compiler ran and refused."""


class Unfinished(CompileError):
    """The compiler did not finish in time."""


def _with_flags(command: Sequence[str], compiler_name: str, flags: tuple[str, ...]) -> Built:
    digest = hashlib.sha256()
    for part in (compiler_name, " ".join(command), " ".join(flags), platform.platform(), cpu_identity()):
        digest.update(part.encode() + b"\0")
    for path in sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    name = f"probes-{digest.hexdigest()[:24]}.so"
    notes: tuple[Note, ...] = ()
    if native() not in flags:
        text = f"compiled without {native()}, which this compiler refuses: wide vector registers may be missing"
        notes = (Note(CONDITIONS, text),)
    try:
        file = cache_folder() / name
        trouble = str(file.parent)
        libraries.make_private(file.parent)
        library, changed = libraries.kept(file)
        if changed:
            text = f"the library {file} was not loaded ({changed}), so the probes were compiled again"
            notes = (*notes, Note(CONDITIONS, text))
        if library is None:
            library = _compiled(command, flags, file)
        return Built(library, file, compiler_name, flags, notes)
    except InputError as error:
        trouble = str(error)
    except OSError as error:
        trouble = f"{trouble}: {error.strerror or error}"
    try:
        folder = Path(tempfile.mkdtemp(prefix="ridgeline-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        library = _compiled(command, flags, folder / name)
        text = f"the cache folder cannot be used ({trouble}), so the probes were compiled for this run only"
        notes = (*notes, Note(CONDITIONS, text))
        return Built(library, folder / name, compiler_name, flags, notes)
    except (OSError, InputError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BuildError(
            f"the compiled probes can be written nowhere: {trouble}; temporary folder: {reason}. "
            "Free some space, or set XDG_CACHE_HOME to a folder you can write."
        ) from None


def _compiled(command: Sequence[str], flags: Sequence[str], file: Path) -> Any:
    """Compile to a temporary file, then put it in place and load it. OSError: the folder's fault; CompileError: the compiler's."""
    handle, temporary = tempfile.mkstemp(prefix=f".{file.stem}-", suffix=".part", dir=file.parent)
    os.close(handle)
    units = [str(path) for path in sources() if path.suffix == ".c"]
    try:
        done = subprocess.run(
            [*command, *flags, "-o", temporary, *units, "-lm"],
            capture_output=True, text=True, timeout=MAX_COMPILE_SECONDS, check=False, stdin=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(file.parent), "LC_ALL": "C"},
        )  # fmt: skip
        text = done.stderr.strip()
        if done.returncode < 0:
            raise CompileError(f"it was killed by signal {-done.returncode}")
        if done.returncode or not os.path.getsize(temporary):
            if "No space left" in text or "Read-only file system" in text:
                raise OSError(28, "No space left on device" if "No space left" in text else "Read-only file system")
            reason = next((line for line in text.splitlines() if "error" in line.lower()), text.partition("\n")[0])
            raise CompileError(reason or f"it ended with code {done.returncode} and said nothing")
        return libraries.keep(Path(temporary), file)
    except subprocess.TimeoutExpired:
        raise Unfinished(f"it did not finish within {MAX_COMPILE_SECONDS} s") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
