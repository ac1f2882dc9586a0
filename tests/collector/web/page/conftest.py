"""A headless Chromium, driven by its DevTools protocol: what it shows, asks and complains of."""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets.sync.client import ClientConnection, connect

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--hide-scrollbars", "--remote-debugging-port=0"),
)
DEADLINE_SECONDS = 30.0
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--hide-scrollbars", "--remote-debugging-port=0"),
)
OUT = Path(__file__).resolve().parents[4] / "out" / "page"


class Tab:
    """A page in a browser of its own. `errors`: of its console and its scripts; `requests`: the
    addresses that it asked for; `failures`: (status, address) of refused ones."""

    def __init__(self, connection: ClientConnection) -> None:
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

    def call(self, method: str, **parameters: object) -> dict:
        """One command and its result; what happens meanwhile is noted."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session and not method.startswith("Browser."):
            message["sessionId"] = self._session
        self._connection.send(json.dumps(message))
        while (found := json.loads(self._connection.recv(DEADLINE_SECONDS))).get(
            "id"
        ) != self._last:
            self._note(found)
        assert "error" not in found, (method, found["error"])
        return found["result"]

    def _note(self, event: dict) -> None:
        method, about = event.get("method"), event.get("params", {})
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

    def run(self, script: str) -> object:
        """The value of an expression in the page; a promise is awaited."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str) -> None:
        """Waits until an expression is true in the page."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < deadline, (script, self.text(), self.errors)
            time.sleep(0.05)

    def open(self, url: str) -> None:
        """Loads it anew, also where only what follows the # differs."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        self.until("document.getElementById('main')?.getAttribute('aria-busy') === 'false'")

    def text(self) -> str:
        return str(self.run("document.body.innerText"))

    def press(self, key: str) -> None:
        code = {"Tab": 9, "Enter": 13}[key]
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        typed = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **about, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def looks(self, width: int, height: int, scheme: str) -> None:
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

    def shoot(self, name: str) -> Path:
        """A picture of the whole page, into out/page."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        OUT.mkdir(parents=True, exist_ok=True)
        file = OUT / f"{name}.png"
        file.write_bytes(base64.b64decode(found["data"]))
        return file


def browser() -> str:
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    raise AssertionError("these tests need chromium: apt install chromium")


@contextmanager
def browsing(profile: Path) -> Iterator[Tab]:
    """A tab; the browser and all its processes are gone afterwards."""
    process = subprocess.Popen(
        [browser(), *OPTIONS, f"--user-data-dir={profile}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with connect(_address(profile, process), max_size=None) as connection:
            yield Tab(connection)
    finally:
        process.terminate()
        try:
            process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(profile: Path, process: subprocess.Popen[bytes]) -> str:
    """Where the browser listens, which it writes into its profile."""
    file, deadline = profile / "DevToolsActivePort", time.monotonic() + DEADLINE_SECONDS
    while not (file.exists() and len(file.read_text().splitlines()) == 2):
        assert process.poll() is None, "chromium ended by itself"
        assert time.monotonic() < deadline, "chromium does not listen"
        time.sleep(0.05)
    port, path = file.read_text().splitlines()
    return f"ws://127.0.0.1:{port}{path}"


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browsing(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def tab(chromium: Tab) -> Iterator[Tab]:
    """As new: nothing noted, a wide light window; afterwards it asks nobody for anything."""
    chromium.looks(1100, 900, "light")
    for noted in (chromium.errors, chromium.requests, chromium.failures):
        noted.clear()
    yield chromium
    chromium.call("Page.navigate", url="about:blank")


@pytest.fixture
def soon() -> Callable[[Callable[[], object]], object]:
    """Waits until something holds, and gives what it gave."""

    def wait(holds: Callable[[], object]) -> object:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (found := holds()):
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.05)
        return found

    return wait
