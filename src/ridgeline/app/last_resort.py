"""The last resort of the command line: what no command expected ends as one line and an exit code of its own.

It is loaded before everything else, so that it covers the imports too, and needs the standard library only.
"""

from __future__ import annotations

import codecs
import errno
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

DONE, CHECK_FAILED, BAD_INPUT, FAULT, INTERRUPTED, CLOSED_PIPE = 0, 1, 2, 70, 130, 141
NO_MEMORY = "out of memory; free some, raise its limit (ulimit -v), or use a smaller input"
# How the loader of libraries and the threads of the system say that there is none left.
MEMORY_WORDS = (
    "cannot allocate memory",
    "failed to map segment",
    "can't start new thread",
    "cannot create shared object",
)
OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO)  # of a stream, where no file is named
SPELLING = "ridgeline.spelling"  # the error handler of encodings
SOON = 0.01  # seconds

_interrupted = False


def guarded(command: Callable[[], int]) -> int:
    """The exit code of a command. Nothing that it raises gets out, except a second Ctrl-C."""
    prepare_streams()
    _catch_interrupts()
    try:
        code = command()
        code = flushed() or code
    except SystemExit as end:
        code = flushed() or (end.code if isinstance(end.code, int) else CHECK_FAILED if end.code else DONE)
    except BaseException as error:
        of_stream = isinstance(error, OSError) and error.filename is None and error.errno in OUTPUT_ERRORS
        code = unprintable(error) if isinstance(error, OSError) and of_stream else explain(error)
    with suppress(ValueError):  # from here on, Ctrl-C has nothing to clean up and nothing to say
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return code


def explain(error: BaseException) -> int:
    """Say on standard error what happened, in one line, and give the exit code of it."""
    if _interrupted or isinstance(error, KeyboardInterrupt):
        return INTERRUPTED  # libraries turn an interrupted import into errors of other kinds
    with suppress(Exception):
        if os.environ.get("RIDGELINE_DEBUG"):
            import traceback

            traceback.print_exception(error)
    say(f"ridgeline: {_line(error)}")
    silence_stdout()
    return FAULT


def _line(error: BaseException) -> str:
    try:
        if is_memory(error):
            return NO_MEMORY
        from ..core.errors import first_line
        from ..core.intake.text import clean

        words, kind = clean(first_line(error)), type(error).__name__
        what = kind if words == kind else f"{kind}: {words}"
        return f"unexpected {what}; this is a fault of ridgeline: please report it with the traceback that RIDGELINE_DEBUG=1 prints"
    except Exception:  # not even the modules for a sentence can be loaded
        return NO_MEMORY


def is_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    chain = [error, *filter(None, (error.__cause__, error.__context__))]
    return any(word in str(each).lower() for each in chain for word in MEMORY_WORDS)


def say(line: str) -> None:
    """A line on standard error, where that can be written."""
    with suppress(Exception):
        print(line, file=sys.stderr, flush=True)


def flushed() -> int:
    """Send off what is still buffered for standard output; 0, or the exit code where it cannot be sent."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return unprintable(error)
    except ValueError:  # closed by the command itself
        return DONE
    return DONE


def unprintable(error: OSError) -> int:
    """The exit code where standard output takes no more; silent where its reader has gone, as `| head` does."""
    silence_stdout()
    if error.errno == errno.EPIPE:
        return CLOSED_PIPE
    say(f"ridgeline: the answer cannot be printed: {error.strerror}; send it elsewhere")
    return BAD_INPUT


def silence_stdout() -> None:
    """Drop what is still buffered, which Python would try to write once more at exit, and complain."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def prepare_streams() -> None:
    """Closed streams lead nowhere, so that no file gets their number; no character is unprintable in any encoding."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(descriptor, mode, encoding="utf-8"))  # noqa: SIM115 - until the end
    codecs.register_error(SPELLING, _spelled)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=SPELLING)


def _spelled(error: UnicodeError) -> tuple[str, int]:
    """Characters that the encoding of an output lacks, in its own: blocks as #, arrows as >, others as ?."""
    from ..core.spelling import in_ascii

    if not isinstance(error, UnicodeEncodeError):
        raise error
    return in_ascii(error.object[error.start : error.end]), error.end


def _catch_interrupts() -> None:
    """Ctrl-C raises KeyboardInterrupt, and is kept in mind where that gets lost; unheard errors are one line as well."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody wants it ignored
        with suppress(ValueError):  # only the main thread may
            signal.signal(signal.SIGINT, _interrupt)
    sys.excepthook = lambda kind, error, place: explain(error) and None
    sys.unraisablehook = _unraisable


def _interrupt(number: int, frame: object) -> None:
    global _interrupted
    _interrupted = True
    raise KeyboardInterrupt


def _unraisable(lost: sys.UnraisableHookArgs) -> None:
    """An error where none can be raised, such as in a finalizer: Ctrl-C is repeated, others matter to developers only."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        import _thread
        import threading

        again = threading.Timer(SOON, _thread.interrupt_main)
        again.daemon = True
        again.start()
    elif os.environ.get("RIDGELINE_DEBUG"):
        sys.__unraisablehook__(lost)
