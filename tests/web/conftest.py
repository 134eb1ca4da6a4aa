"""The explorer in Chromium: one server for all tests, a browser for each module, a new tab for each test or one that tests share.

To load the page and Plotly takes seconds of a core, to go from place to place in it a fraction of one: tests of single views
share a tab (`visit`), tests of links, files and state open their own (`open_page`).

A test fails on an error in the console, on an exception in a script, and on a request to anywhere but the server. What the
server refuses with a message (400, 413, 422) is no such error: the page shows the message, and tests look for it there.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from browser import CHROMIUM

# without the packages of the explorer there is nothing to test
collect_ignore_glob = [] if all(map(find_spec, ("fastapi", "uvicorn", "plotly"))) else ["test_*.py"]
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
PATIENCE = 30_000  # milliseconds until a condition that never comes true is a failure; a passing test does not wait
# forget what was done, and mark what is shown, to see when the next place has replaced it
LEAVE = """() => { localStorage.clear(); for (const each of document.querySelectorAll("#view > *")) each.dataset.left = ""; }"""
REFUSED = re.compile(r"status of (400|413|422)\b")


@pytest.fixture(scope="session")
def explorer() -> Iterator[str]:
    """The address of a running explorer, without a slash at the end."""
    import uvicorn

    from ridgeline.app.web.server import make_app

    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(), log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server has ended"
        time.sleep(0.01)
    yield f"http://127.0.0.1:{taken.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    taken.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser. One for each module: while it is open, no event loop can run in the thread of the tests."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any, explorer: str) -> Iterator[Callable[..., Any]]:
    """`open_page("/explore?machines=...", width=390)`: a tab at that place of the explorer, in a context of its own."""
    problems: list[str] = []
    contexts: list[Any] = []

    def opened(place: str = "/", width: int = 1280, height: int = 860, **options: Any) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": height}, base_url=explorer, **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        _listen(page, explorer, problems)
        page.goto(f"{explorer}/#{place}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not problems


@pytest.fixture(scope="module")
def tab(chromium: Any, explorer: str) -> tuple[Any, list[str]]:
    """A tab that the tests of a module share, and the problems it has met."""
    problems: list[str] = []
    page = chromium.new_context(base_url=explorer).new_page()
    page.set_default_timeout(PATIENCE)
    _listen(page, explorer, problems)
    page.goto(f"{explorer}/#/")
    return page, problems


@pytest.fixture
def visit(tab: tuple[Any, list[str]], explorer: str) -> Iterator[Callable[..., Any]]:
    """`visit("/explore", width=390, color_scheme="dark")`: the shared tab at that place, with nothing remembered."""
    page, problems = tab
    problems.clear()

    def visited(place: str = "/", width: int = 1280, height: int = 860, **media: Any) -> Any:
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(**{"color_scheme": "light", "reduced_motion": "no-preference", **media})
        page.goto(f"{explorer}/#/")
        page.evaluate(LEAVE)
        if place != "/":
            page.goto(f"{explorer}/#{place}")
            page.locator("#view > :not([data-left])").first.wait_for(state="attached")
        return page

    yield visited
    assert not problems


def _listen(page: Any, explorer: str, problems: list[str]) -> None:
    page.on("console", lambda said: _keep_error(said, problems))
    page.on("pageerror", lambda error: problems.append(f"exception: {error}"))
    page.on("request", lambda request: _keep_foreign(request.url, explorer, problems))


def _keep_error(said: Any, problems: list[str]) -> None:
    if said.type == "error" and not REFUSED.search(said.text):
        problems.append(f"console: {said.text} {said.location.get('url', '')}")


def _keep_foreign(address: str, explorer: str, problems: list[str]) -> None:
    if not address.startswith((explorer, "data:", "blob:", "file:")):
        problems.append(f"request to {address}")
