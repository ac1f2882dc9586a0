"""The API and its page under real conditions: the collector behind a mosquitto, in Chromium.

    python -m benchmarks.http.http [--quick] [--out FOLDER]

Measures the time from navigation to content in a browser with an empty cache. Measures the cost of
files, of clients that leave, and of a thousand requests for the server, and of clients for
ingestion. All traffic stays on loopback.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.harness import report
from benchmarks.harness.result import MeasurementFailed, Row, at_most
from benchmarks.http import load
from benchmarks.http import load as web_load
from benchmarks.http.site import STREAMS, Site, of_devices, of_fleet, serving
from benchmarks.performance.ingest import Messages, broker, publish
from testbed.chromium import BrowserError, Tab, browser, browsing
from testbed.mosquitto import executable

PART = 50  # devices in one part of the list
# Times are milliseconds since the navigation began. A task that is shorter than 50 ms is not told.
MEASURING = """
window.tasks = [];
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) window.tasks.push(each.duration);
}).observe({ type: "longtask", buffered: true });
window.painted = (holds) => new Promise((done) => {
  const look = () => {
    if (!holds()) return;
    watcher.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now())));
  };
  const watcher = new MutationObserver(look);
  watcher.observe(document, { subtree: true, childList: true, attributes: true });
  look();
});
window.main = () => document.getElementById("main");
window.settled = () => main()?.getAttribute("aria-busy") === "false";
"""
ROWS = 'settled() && main().querySelectorAll("tbody tr").length >= {rows}'
PICTURE = 'main()?.querySelector("figure svg")'
PICTURES = 'settled() && main().querySelectorAll("figure svg").length >= 2'
# Of all attributes of the stream, and of each.
LINES = 'settled() && main().querySelectorAll("figure svg").length >= 7'
CARDS = 'settled() && main().querySelectorAll(".card").length >= 3'
NEXT = '[...main().querySelectorAll("a")].find((each) => each.textContent === "Next devices")'


@contextmanager
def cold_tab() -> Iterator[Tab]:
    """A browser that has never been anywhere."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        browsing(Path(profile)) as tab,
    ):
        tab.emulate(1100, 900, "light")
        yield tab


def view_seconds(tab: Tab, site: Site, view: str, *conditions: str) -> list[float]:
    """Seconds from the navigation until each condition holds and is painted, with an empty
    cache."""
    waiting = ", ".join(f"painted(() => {each})" for each in conditions)
    script = f"{MEASURING}window.found = Promise.all([{waiting}]);"
    tab.call("Page.navigate", url="about:blank")
    tab.call("Network.clearBrowserCache")
    added = tab.call("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
    try:
        tab.call("Page.navigate", url=f"{site.url}/#{view}")
        tab.until("window.found")
        return [each / 1000 for each in tab.run("found")]
    finally:
        tab.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added)


def longest_task(tab: Tab) -> float:
    """Seconds of the longest task of the page that is open; 0.05 where none was longer."""
    # The collector learns of an ended client a moment later.
    tab.run("new Promise((done) => setTimeout(done, 100))")
    return float(max([50.0, *tab.run("tasks")])) / 1000


def part_seconds(tab: Tab, devices: int) -> list[float]:
    """From each click on "Next devices" until the next part is painted, to the end of the list of
    the Fleet view that is open."""
    found = []
    for shown in range(PART, devices, PART):
        rows = min(PART, devices - shown)
        first = json.dumps(tab.run('main().querySelector("tbody tr").innerText'))
        changed = f'main().querySelector("tbody tr").innerText !== {first}'
        holds = f"{ROWS.format(rows=rows)} && {changed}"
        took = tab.run(
            "(async () => { const began = performance.now();"
            f" {NEXT}.click(); return await painted(() => {holds}) - began; }})()"
        )
        found.append(took / 1000)
    return found


FIRST_VIEW_SECONDS = 1.0
DEVICES, WINDOWS = 12, 49
MANY_DEVICES, QUICK_DEVICES, FEW_WINDOWS = 1_000, 200, 4
RUNS, QUICK_RUNS = 7, 3
BURST_WINDOWS = 40  # of each device, that arrive while a thousand ask
PAUSE_SECONDS = 1.5  # The last count of the fleet is old by then.
FIRST = "first view (Fleet)"
CHANGES, ALL_CHANGES = "What changed, first picture", "What changed, all pictures"
AFTER_START = "first time after a start"  # of the server, seconds after it
Measure = Callable[[Path, int, bool], list[Row]]


def run(quick: bool, watch: report.Watch = iter) -> list[Row]:
    """Raises MeasurementFailed."""
    if executable() is None:
        return [Row("not measured", 0.0, "", note="there is no mosquitto on this machine")]
    try:
        browser()
    except BrowserError as error:
        return [Row("not measured", 0.0, "", note=str(error))]
    rows = []
    pieces: list[Measure] = [_twelve, _many, _load, load.run]
    for measure in watch(pieces):
        with tempfile.TemporaryDirectory() as folder, broker(Path(folder)) as port:
            try:
                rows += measure(Path(folder), port, quick)
            except BrowserError as error:
                raise MeasurementFailed(f"web: {error}") from error
    return rows


def _twelve(folder: Path, port: int, quick: bool) -> list[Row]:
    """The page of the demo's fleet."""
    runs = QUICK_RUNS if quick else RUNS
    air = of_fleet(DEVICES, WINDOWS + runs, ["air"])
    first, news = air[: DEVICES * WINDOWS], air[DEVICES * WINDOWS :]
    with serving(folder / "twelve", port) as site:
        publish(port, of_devices(DEVICES))
        site.fill([*first, *of_fleet(DEVICES, WINDOWS, STREAMS[1:])])
    with serving(folder / "twelve", port) as site:
        return _views(site, DEVICES, [news[n * DEVICES :][:DEVICES] for n in range(runs)])


def _load(folder: Path, port: int, quick: bool) -> list[Row]:
    """Files, readers who leave, and a thousand requests, of a server that has shown no page."""
    air = of_fleet(DEVICES, WINDOWS + BURST_WINDOWS, ["air"])
    first, burst = air[: DEVICES * WINDOWS], air[DEVICES * WINDOWS :]
    with serving(folder / "load", port) as site:
        site.fill(first)
        rows = [*web_load.files(site), *web_load.cancelled(site)]
        return rows + web_load.at_once_and_taking_in(site, burst)


def _many(folder: Path, port: int, quick: bool) -> list[Row]:
    """The page of a large fleet, and its list of devices from the first part to the last."""
    devices = QUICK_DEVICES if quick else MANY_DEVICES
    with serving(folder / "many", port) as site:
        publish(port, of_devices(devices))
        site.fill(of_fleet(devices, FEW_WINDOWS))
    with serving(folder / "many", port) as site:
        return [*_views(site, devices, [[]] * QUICK_RUNS), _parts(site, devices)]


def _views(site: Site, devices: int, news: Sequence[Messages]) -> list[Row]:
    """Each view, as often as there is a new state, in a new browser each time. The server has just
    started: all pictures of changes have a row of their own for the first time."""
    found: dict[str, list[float]] = {}
    longest = 0.0
    for messages in news:
        site.fill(messages)
        time.sleep(PAUSE_SECONDS)
        with cold_tab() as tab:
            for name, seconds in _visits(tab, site, devices):
                known = name != ALL_CHANGES or f"{name}, {AFTER_START}" in found
                found.setdefault(name if known else f"{name}, {AFTER_START}", []).append(seconds)
                longest = max(longest, longest_task(tab))
    label = f"{devices:,} devices"
    rows = [row for name, times in found.items() for row in _timed(f"{label}, {name}", times)]
    note = "longest that the page gives no answer to a click; 0.05: none was longer"
    return [*rows, Row(f"{label}, longest task", longest, "s", note=note)]


def _visits(tab: Tab, site: Site, devices: int) -> Iterator[tuple[str, float]]:
    """The views in turn. Releases came just before, so the server sometimes fits a new model. The
    worst picture includes a fit, and the median mostly does not."""
    yield FIRST, view_seconds(tab, site, "fleet", ROWS.format(rows=min(PART, devices)))[0]
    picture, all_pictures = view_seconds(tab, site, "stream/air", PICTURE, PICTURES)
    yield "Stream view, first picture", picture
    yield "Stream view, all pictures", all_pictures
    yield "Stream view again", view_seconds(tab, site, "stream/air", PICTURES)[0]
    yield "Privacy view", view_seconds(tab, site, "privacy", CARDS)[0]
    picture, all_pictures = view_seconds(tab, site, "changes/air", PICTURE, LINES)
    yield CHANGES, picture
    yield ALL_CHANGES, all_pictures


def _timed(name: str, times: Sequence[float]) -> list[Row]:
    note = f"median of {len(times)}; worst {max(times):.2f} s"
    detail = {str(number): seconds for number, seconds in enumerate(times)}
    if not name.endswith((FIRST, CHANGES, ALL_CHANGES)):
        return [Row(name, median(times), "s", note=note, detail=detail)]
    return [
        at_most(name, median(times), "s", FIRST_VIEW_SECONDS, note, detail),
        at_most(f"{name}, worst", max(times), "s", FIRST_VIEW_SECONDS),
    ]


def _parts(site: Site, devices: int) -> Row:
    """Every further part of the list, by clicks."""
    with cold_tab() as tab:
        view_seconds(tab, site, "fleet", ROWS.format(rows=PART))
        times = part_seconds(tab, devices)
        longest = longest_task(tab)
    note = (
        f"worst of {len(times)} parts, median {median(times):.2f} s; longest task {longest:.2f} s"
    )
    name = f"{devices:,} devices, next part of the list"
    return at_most(name, max(times), "s", FIRST_VIEW_SECONDS, note)


if __name__ == "__main__":
    sys.exit(report.main("http.http", __doc__, run, lambda folder, rows: [], None))
