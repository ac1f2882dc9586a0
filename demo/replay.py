"""All devices of a fleet replay their files to the end, beside a count of what has arrived."""

import time
from concurrent.futures import Future, ThreadPoolExecutor

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from demo.comparison import Raw, read_raw
from pansketch_collector.storage.reader import reading
from pansketch_fleet.config.loader import Config
from testbed.local_fleet import POLL_SECONDS, DemoFailed, LocalFleet

STREAM = "air"


def replay(
    fleet: LocalFleet, config: Config, devices: list[str], deadline: float, console: Console
) -> list[Raw]:
    """Runs all agents to their end, before a moment of the monotonic clock; returns the raw data,
    which only this demo holds. Raises DemoFailed."""
    for device in devices:
        fleet.start_agent(device)
    names = next(stream for stream in config.streams if stream.name == STREAM).names
    columns = (
        TextColumn("releases stored"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with (
        ThreadPoolExecutor(1) as beside,
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
    ):
        files = [beside.submit(read_raw, device, names) for device in devices]
        task = progress.add_task("", total=None)
        while not fleet.finished(devices):
            if time.monotonic() > deadline:
                raise DemoFailed("not finished in time; see the logs")
            progress.update(task, completed=stored(config), total=_expected(config, files))
            time.sleep(POLL_SECONDS)
        raw = [file.result() for file in files]
        progress.update(task, completed=stored(config), total=_expected(config, files))
    return raw


def _expected(config: Config, files: list[Future[Raw]]) -> int | None:
    """The total number of releases, once all files are read."""
    if not all(file.done() for file in files):
        return None
    return sum(file.result().windows(stream) for file in files for stream in config.streams)


def stored(config: Config) -> int:
    """The number of releases that the collector stores."""
    with reading(config.collector.database) as store:
        return sum(holding.windows for holding in store.holdings())
