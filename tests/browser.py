"""Drives Chromium over the pipe of its DevTools protocol: JSON messages, each ended by a zero byte. Nothing to install."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--no-first-run", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 60.0  # seconds until a condition that never comes true is a failure; a passing test does not wait


class Browser:
    """One Chromium with one tab; what the page asks of the network and writes to the console is kept."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        to_browser, self.requests_to = os.pipe()
        self.answers_from, from_browser = os.pipe()

        def at_3_and_4() -> None:  # where Chromium expects its ends of the pipes
            inputs, outputs = os.dup(to_browser), os.dup(from_browser)
            os.dup2(inputs, 3)
            os.dup2(outputs, 4)

        self.process = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=at_3_and_4, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """The result of a command; events that come before it are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.requests_to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def _read(self) -> Any:
        while b"\0" not in self.buffer:
            part = os.read(self.answers_from, 1 << 20)
            assert part, "Chromium has ended"
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def open(self, page: Path, width: int = 1400, height: int = 900, script: bool = True) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.media()
        self.move(0, 0)
        self.events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.until("document.readyState === 'complete'")

    def media(self, kind: str = "", scheme: str = "light") -> None:
        self.call(
            "Emulation.setEmulatedMedia", media=kind, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait for a condition on the page."""
        end = time.monotonic() + PATIENCE
        while not self.ask(expression):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.02)

    def _mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, x: float, y: float) -> None:
        self._mouse("mouseMoved", x, y)

    def hover(self, expression: str, click: bool = False) -> None:
        """Move the pointer to the centre of an element, and click there."""
        box = f"(e => {{ e.scrollIntoView({{block: 'center', inline: 'center'}}); const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})({expression})"
        x, y = self.ask(box)
        self.move(x, y)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self._mouse(kind, x, y, button="left", clickCount=1)

    def click(self, expression: str) -> None:
        self.hover(expression, click=True)

    def press(self, key: str) -> None:
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key], **text)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def requested(self) -> list[str]:
        """Addresses the page asked for."""
        events = [event["params"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [event["request"]["url"] for event in events]

    def complaints(self) -> list[Any]:
        """Errors, and what was written to the console."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event["params"] for event in self.events if event["method"] in kinds]

    def screenshot(self, path: Path, complete: bool = True) -> None:
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=complete)
        path.write_bytes(base64.b64decode(picture["data"]))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def close(self) -> None:
        os.close(self.requests_to)
        os.close(self.answers_from)
        self.process.terminate()
        self.process.wait()


KEYS = {"Enter": 13, "Escape": 27, "ArrowRight": 39, "ArrowLeft": 37}
