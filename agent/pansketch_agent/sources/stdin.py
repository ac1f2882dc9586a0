"""Standard input: one JSON object a line, with the attributes or the key, at the clock's time.

Input is decoded directly from one fixed buffer, yielded at once, and overwritten. An invalid line
is dropped without a log. A line longer than the buffer is dropped up to its end.
"""

import os
import select
import threading
from collections.abc import Callable, Iterator
from math import inf

import numpy as np

from pansketch_agent.host.clock import Clock
from pansketch_agent.sources.decoders import RecordDecoder
from pansketch_agent.sources.readings import Readings, Rows

MAX_LINE_BYTES = 8192
MAX_ROWS = 256
POLL_SECONDS = 0.2


def lines(
    handle: int,
    decoder: RecordDecoder,
    clock: Clock,
    stop: threading.Event,
    max_bytes_per_second: float = inf,
) -> Iterator[Readings]:
    """Yield readings from a file descriptor until its end, or until `stop` is set."""
    at, rows = np.zeros(MAX_ROWS), decoder.empty(MAX_ROWS)

    def rest(got: int) -> None:
        if max_bytes_per_second < inf:
            clock.wait(stop, got / max_bytes_per_second)

    for objects in _chunks(handle, stop, rest):
        for count in _fill(objects, rows, decoder):
            at.fill(clock.now())
            yield Readings(at[:count], rows[:count])
            rows.fill(0)
        decoder.overwrite_freed()


def _fill(objects: Iterator[memoryview], rows: Rows, decoder: RecordDecoder) -> Iterator[int]:
    """Write the readings of the lines into `rows`; yield their number whenever it is full."""
    count = 0
    try:
        for line in objects:
            count += decoder.decode_line(line, rows, count)
            if count == MAX_ROWS:
                yield count
                count = 0
        if count:
            yield count
    finally:
        rows.fill(0)


def _chunks(
    handle: int, stop: threading.Event, throttle: Callable[[int], None]
) -> Iterator[Iterator[memoryview]]:
    """Yield the complete lines of each arrival.

    `throttle` receives the number of bytes before more are read.
    """
    buffer = bytearray(MAX_LINE_BYTES)
    view = memoryview(buffer)
    filled, too_long = 0, False
    while not stop.is_set():
        got = _read(handle, view[filled:])
        if got is None:
            continue
        filled += got
        end = filled if got == 0 else buffer.rfind(b"\n", 0, filled) + 1
        begin = buffer.find(b"\n", 0, end) + 1 if too_long else 0
        if begin or not too_long:
            yield _split(buffer, begin, end)
        if got == 0:
            view[:] = bytes(MAX_LINE_BYTES)
            return
        too_long = (too_long and not end) or (not end and filled == MAX_LINE_BYTES)
        rest = 0 if too_long else filled - end
        view[:rest] = bytes(view[end : end + rest])
        view[rest:] = bytes(MAX_LINE_BYTES - rest)
        filled = rest
        throttle(got)


def _split(buffer: bytearray, begin: int, end: int) -> Iterator[memoryview]:
    """Yield the lines in buffer[begin:end], as views."""
    view = memoryview(buffer)
    while begin < end:
        stop = buffer.find(b"\n", begin, end)
        stop = end if stop < 0 else stop
        yield view[begin:stop]
        begin = stop + 1


def _read(handle: int, into: memoryview) -> int | None:
    """Return the bytes read; 0 at the end, None when nothing has arrived for a while."""
    try:
        ready, _, _ = select.select([handle], [], [], POLL_SECONDS)
        return os.readv(handle, [into]) if ready else None
    except BlockingIOError:
        return None
    except (OSError, ValueError):
        return 0
