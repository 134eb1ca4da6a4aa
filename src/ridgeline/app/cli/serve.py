"""The explorer in a browser."""

from __future__ import annotations

import click

from ...core.errors import InputError, RidgelineError
from .command import command
from .echo import echo

DEFAULT_PORT = 8050


@command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; others can reach 0.0.0.0.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="0 takes a free one."
)
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@click.option("--max-upload", metavar="SIZE", default="64MiB", show_default=True, help="Largest file the page accepts.")
def serve(host: str, port: int, no_open: bool, max_upload: str) -> None:
    """Open the explorer in a browser.

    Rooflines, your profiles, language models and lessons. Everything runs on this machine; nothing is fetched or sent elsewhere, and uploads are not stored. Ctrl-C ends it.
    """
    from ...core.units import parse

    size = int(parse(max_upload, "B"))
    if size <= 0:
        raise InputError(f"--max-upload must be positive, got '{max_upload}'")
    try:
        from ..web.listen import listen
    except ModuleNotFoundError as error:
        raise RidgelineError(
            f"the explorer needs {error.name}, which is not installed: pip install 'ridgeline[web]'"
        ) from error
    listen(host, port, size, open_page=not no_open, say=lambda text: echo(text, err=True))
