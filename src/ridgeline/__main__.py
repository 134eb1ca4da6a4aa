"""`python -m ridgeline`, and where the installed command starts."""

from __future__ import annotations

import sys


def main() -> None:
    """The command line. Ctrl-C while its modules load ends as it does later, in one word."""
    try:
        from .app.cli import main as command
    except KeyboardInterrupt:
        sys.exit("Aborted!")
    command(prog_name="ridgeline")


if __name__ == "__main__":
    main()
