"""A browser for all tests of the page, and what they wait with."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from testbed.chromium import DEADLINE_SECONDS, Tab, browsing
from tests.packages import needs
from tests.waiting import until

OUT = Path(__file__).resolve().parents[4] / "out" / "page"


@pytest.fixture(scope="session")
@needs("chromium")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browsing(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def tab(chromium: Tab) -> Iterator[Tab]:
    """As new: nothing recorded, a wide light window; afterwards it opens no connection."""
    chromium.emulate(1100, 900, "light")
    for noted in (chromium.errors, chromium.requests, chromium.failures):
        noted.clear()
    yield chromium
    chromium.call("Page.navigate", url="about:blank")


@pytest.fixture
def shoot(tab: Tab) -> Callable[[str], Path]:
    """A picture of the whole page, into out/page."""
    return lambda name: tab.shoot(OUT / f"{name}.png")


@pytest.fixture
def soon() -> Callable[[Callable[[], object]], object]:
    """Waits until something holds, and gives what it gave."""

    def wait(holds: Callable[[], object]) -> object:
        found: list[object] = []
        until(lambda: found.append(holds()) or found[-1])
        return found[-1]

    return wait


@pytest.fixture
def prefixed() -> Callable[[str, str], object]:
    return below


@contextmanager
def below(inside: str, prefix: str) -> Iterator[str]:
    """A proxy that shows a server below a prefix, and nothing beside it; its address with it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith(prefix):
                self.send_error(404)
                return
            url = f"{inside}/{self.path.removeprefix(prefix)}"
            answer = httpx.get(url, timeout=DEADLINE_SECONDS, verify=False)
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers.get("content-type", "text/plain"))
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_: object) -> None:
            """Nothing is written."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{prefix}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(DEADLINE_SECONDS)
