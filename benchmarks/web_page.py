"""How long people wait for the page, in Chromium: until what they asked for is painted, and how
long any piece of work keeps the page from answering them."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.web_site import Site
from demo.browser import Tab, browsing

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
CARDS = 'settled() && main().querySelectorAll(".card").length >= 3'
NEXT = '[...main().querySelectorAll("a")].find((each) => each.textContent === "Next devices")'


@contextmanager
def cold_tab() -> Iterator[Tab]:
    """A browser that has never been anywhere."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        browsing(Path(profile)) as tab,
    ):
        tab.looks(1100, 900, "light")
        yield tab


def view_seconds(tab: Tab, site: Site, view: str, *conditions: str) -> list[float]:
    """Seconds from the navigation until each condition holds and is painted; of a page that is
    loaded anew, without anything kept from an earlier one."""
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
    # What has just ended is told a moment later.
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
