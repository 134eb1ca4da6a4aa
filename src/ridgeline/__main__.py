"""`python -m ridgeline`, and where the installed command starts."""

from __future__ import annotations

import gc
import sys

YOUNG_OBJECTS = (
    300_000  # between two collections: large profiles make millions of objects, hardly any of them in cycles
)


def main() -> None:
    """The command line; whatever happens, Ctrl-C while modules load included, ends in an answer or in one line."""
    try:
        from .app.last_resort import guarded

        code = guarded(_command)
    except KeyboardInterrupt:  # before there was a handler, or again while the first was answered
        code = 130
    sys.exit(code)


def _command() -> int:
    gc.set_threshold(YOUNG_OBJECTS)
    from .app.cli import run

    return run()


if __name__ == "__main__":
    main()
