"""A headless Chromium, driven by its DevTools protocol: what it shows, asks and complains of."""

import base64
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import connect
from websockets.sync.connection import Connection

from testbed.notify_socket import ProgramEnded, ProgramTimeout
from testbed.program import Program

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--hide-scrollbars", "--remote-debugging-port=0"),
)
DEADLINE_SECONDS = 180.0  # Far beyond what a busy machine needs: for what hangs.


class BrowserError(Exception):
    """No browser is installed, or it or the page did not do what was asked of it."""


class Tab:
    """A page in a browser of its own. `errors`: of its console and its scripts; `requests`: the
    addresses that it asked for; `failures`: (status, address) of refused ones. All methods raise
    BrowserError."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._last = connection, 0
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.failures: list[tuple[int, str]] = []
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """One command and its result; what happens meanwhile is noted."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session and not method.startswith("Browser."):
            message["sessionId"] = self._session
        self._connection.send(json.dumps(message))
        while (found := self._received()).get("id") != self._last:
            self._note(found.get("method"), found.get("params", {}))
        if "error" in found:
            raise BrowserError(f"{method}: {found['error']}")
        result: dict[str, Any] = found["result"]
        return result

    def _received(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._connection.recv(DEADLINE_SECONDS))
        except TimeoutError as error:
            raise BrowserError(f"nothing from the browser in {DEADLINE_SECONDS:g} s") from error
        return found

    def _note(self, method: str | None, about: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(about["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and about["type"] in ("error", "assert"):
            self.errors.append(json.dumps(about["args"]))
        elif method == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.errors.append(about["entry"]["text"] + " " + about["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif method == "Network.responseReceived" and about["response"]["status"] >= 400:
            self.failures.append((about["response"]["status"], about["response"]["url"]))

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a JavaScript `Promise` is awaited."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise BrowserError(f"the script failed: {found['exceptionDetails']}")
        return found["result"].get("value")

    def until(self, script: str) -> None:
        """Waits until an expression is true in the page."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self.run(f"Boolean({script})"):
            if time.monotonic() > deadline:
                raise BrowserError(f"never true: {script}\n{self.text()}\n{self.errors}")
            time.sleep(0.05)

    def open(self, url: str) -> None:
        """Reload the page, also if only the fragment after the # differs."""
        self.call("Page.navigate", url="about:blank")
        failed = self.call("Page.navigate", url=url).get("errorText")
        if failed:
            raise BrowserError(f"{url}: {failed}")
        self.until("document.getElementById('main')?.getAttribute('aria-busy') === 'false'")

    def text(self) -> str:
        return str(self.run("document.body.innerText"))

    def emulate(self, width: int, height: int, scheme: str) -> None:
        """The size of the window, and whether its owner likes it dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def shoot(self, file: Path, height: int | None = None) -> Path:
        """A picture as PNG: of the whole page, or of as many pixels from its top."""
        only = {}
        if height is not None:
            width = self.run("document.documentElement.clientWidth")
            only["clip"] = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True, **only)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(found["data"]))
        return file


def browser() -> str:
    """The program's path. Raises BrowserError where there is none."""
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    raise BrowserError("no chromium: install it (Debian: apt install chromium)")


@contextmanager
def browsing(profile: Path) -> Iterator[Tab]:
    """A tab; the browser and all its processes are gone afterwards. `profile`: an empty folder."""
    command = [browser(), *OPTIONS, f"--user-data-dir={profile}"]
    with Program(command, profile / "chromium.log") as program:
        # No pings: their answers queue behind events, which no test reads while it is idle.
        address = _address(profile, program)
        with connect(address, max_size=None, ping_interval=None) as connection:
            yield Tab(connection)


def _address(profile: Path, program: Program) -> str:
    """The address of the DevTools interface, which the browser writes into its profile."""
    file = profile / "DevToolsActivePort"
    try:
        program.until(
            lambda: file.exists() and len(file.read_text().splitlines()) == 2,
            "its address",
            DEADLINE_SECONDS,
        )
    except (ProgramTimeout, ProgramEnded) as error:
        raise BrowserError(str(error)) from error
    port, path = file.read_text().splitlines()
    return f"ws://127.0.0.1:{port}{path}"
