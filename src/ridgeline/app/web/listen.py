"""Listens for the page, tells where it is, and opens it in a browser."""

from __future__ import annotations

import ipaddress
import socket
import threading
import webbrowser
from collections.abc import Callable

import uvicorn

from ...core.errors import InputError
from .answers.catalog import everything
from .assets import plotly_script
from .server import LOOPBACK, make_app

BACKLOG = 2048  # connections that wait to be taken


def listen(host: str, port: int, max_upload: int, open_page: bool, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C. The port is taken before anything is said, so that the address is right."""
    plotly_script()  # its absence is said before, not to the first reader
    hosts = LOOPBACK if _is_loopback(host) else ("*",)
    taken = _bind(host, port)
    address = f"http://{_written(host)}:{taken.getsockname()[1]}/"
    say(f"explorer at {address}   Ctrl-C ends it")
    if hosts == ("*",):
        say("everyone who can reach this machine can use it: there is no login")
    threading.Thread(target=everything, daemon=True).start()  # reads all machine files before the page asks
    server = uvicorn.Server(uvicorn.Config(make_app(hosts, max_upload), log_level="warning", access_log=False))
    if open_page:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    with taken:
        server.run(sockets=[taken])


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        taken = socket.socket(family, kind, protocol)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(place)
        taken.listen(BACKLOG)  # who connects before the server has started waits, instead of being refused
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port (0 takes a free one) or --host"
        ) from error
    return taken


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _written(host: str) -> str:
    return f"[{host}]" if ":" in host else "127.0.0.1" if host == "0.0.0.0" else host
