"""Which generator reads which configured source."""

import threading
from collections.abc import Iterator
from pathlib import Path

from agent.clock import Clock
from agent.sources import replay, stdin, system
from agent.sources.readings import Readings
from fleet.settings import ReplaySource, Stream, SystemSource

STDIN = 0


def open_source(
    stream: Stream, clock: Clock, stop: threading.Event, root: Path
) -> Iterator[Readings]:
    """The stream's readings, from now on; `root` is the folder with proc/ and sys/."""
    domain, source = stream.spec.domain, stream.source
    if isinstance(source, ReplaySource):
        if source.speed is None:
            return replay.blocks(source.path, domain)
        return replay.paced(source.path, domain, source.speed, clock, stop)
    if isinstance(source, SystemSource):
        return system.readings(domain, source.interval_seconds, clock, stop, root)
    return stdin.lines(STDIN, domain, clock, stop)
