"""What readers cost the server, and the taking in: large files, readers who go away, readers beside
a fleet that reports, and a thousand at once."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.ingest import Messages
from benchmarks.row import Row, at_least, at_most
from benchmarks.scale import resident
from benchmarks.web_reading import asked, at_once, read
from benchmarks.web_site import STREAMS, Site, allow_connections, busy_seconds, peak_mib
from collector.reader import Selection
from collector.reader import reading as stored

SAMPLE = "/v1/streams/air/sample?seed=1&format=parquet&rows="
DENSITY = "/v1/streams/air/query?question=density&attribute=temp&attribute=pm25"
MEAN = "/v1/streams/air/query?question=mean&attribute=temp"
FEW_ROWS, MANY_ROWS = 100_000, 1_000_000
WARMING = 4  # files of few rows before the one of many
MOST_GROWTH_MIB = 8.0
CANCELLED = 10  # more than there is room for at a time
LEAVE_SECONDS, LOOK_SECONDS = 1.0, 2.0
IDLE = 0.02  # of one processor
PARALLEL = 1_000
PATHS = (MEAN, SAMPLE + "1000", "/v1/devices", "/v1/releases?stream=air", "/v1/streams", "/metrics")


def files(site: Site) -> list[Row]:
    """One file of many rows, against files of few, which each thread that draws has drawn."""
    for _ in range(WARMING):
        read(site, SAMPLE + str(FEW_ROWS))
    before = peak_mib(site.web_pid)
    started = time.perf_counter()
    status, size = read(site, SAMPLE + str(MANY_ROWS))
    seconds = time.perf_counter() - started
    grown = peak_mib(site.web_pid) - before
    note = f"peak {before:.0f} MiB after {FEW_ROWS:,} rows; status {status}"
    many = f"{MANY_ROWS:,} rows as Parquet"
    return [
        at_most(f"{many}, more memory than {FEW_ROWS:,}", grown, "MiB", MOST_GROWTH_MIB, note),
        Row(many, MANY_ROWS / seconds, "rows/s", note=f"{size / 2**20:.0f} MiB"),
    ]


def cancelled(site: Site) -> list[Row]:
    """Processor time that goes on for readers who have left, and the places that they had."""
    endless = SAMPLE + "100000000"
    with asked(site, endless) as response:
        busy = _share(site, lambda: response.read(1 << 16))
    served = 0
    for _ in range(CANCELLED):
        with asked(site, endless) as response:
            served += response.status == 200 and bool(response.read(1))
    time.sleep(LEAVE_SECONDS)
    idle = _share(site, lambda: time.sleep(0.1))
    note = f"{LEAVE_SECONDS:g} s after {CANCELLED} had left; {busy:.2f} while one reads"
    return [
        at_most("cancelled files, processor", idle, "cores", IDLE, note),
        at_least("cancelled files, served", served, f"of {CANCELLED}", CANCELLED),
    ]


def at_once_and_taking_in(site: Site, messages: Messages) -> list[Row]:
    """A thousand requests that are open together, while a fleet reports."""
    allow_connections()
    paths = [PATHS[number % len(PATHS)] for number in range(PARALLEL)]
    with ThreadPoolExecutor(1) as beside:
        taking = beside.submit(site.fill, messages)
        found = at_once(site, paths)
        seconds = taking.result()
    said = ", ".join(f"{status}: {n}" for status, n in sorted(found.items()))
    answered = sum(found[status] for status in ("200", "503"))
    name = f"{PARALLEL:,} requests at once"
    return [
        at_least(f"{name}, served or refused", answered, f"of {PARALLEL}", PARALLEL, said),
        at_most(f"{name}, ends of the server", ends(site), "", 0),
        at_most(f"{name}, releases lost", lost(site, messages), f"of {len(messages)}", 0),
        Row(f"{name}, ingest", len(messages) / seconds, "releases/s"),
        Row(f"{name}, server afterwards", resident(site.web_pid), "MiB"),
    ]


def ends(site: Site) -> int:
    """How often what answers was started anew, or failed."""
    return site.log.count("starting it anew") + site.log.count("Traceback")


def lost(site: Site, messages: Messages) -> int:
    """Releases among these that the database does not have byte for byte."""
    wanted = {payload for _, payload in messages}
    with stored(site.database) as reader:
        for stream in STREAMS:
            wanted.difference_update(each.payload for each in reader.releases(Selection(stream)))
    return len(wanted)


def _share(site: Site, meanwhile: Callable[[], object]) -> float:
    """Processors that the server keeps busy while something is done again and again."""
    before, started = busy_seconds(site.web_pid), time.perf_counter()
    while (took := time.perf_counter() - started) < LOOK_SECONDS:
        meanwhile()
    return (busy_seconds(site.web_pid) - before) / took
