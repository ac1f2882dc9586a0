"""Standard input: one JSON object a line, attribute names as keys, the clock's time.

What has arrived is decoded straight from one fixed buffer, handed over at once, and overwritten. A
line that is no reading is dropped, unseen; a line longer than the buffer is dropped up to its end.
"""

import os
import select
import threading
from collections.abc import Callable, Iterator
from math import nan
from typing import Any

import msgspec
import numpy as np

from agent.clock import Clock
from agent.sources.readings import FloatArray, Readings, json_parser, overwrite_freed_floats
from pansketch import Domain

MOST_LINE_BYTES = 8192
MOST_ROWS = 256
POLL_SECONDS = 0.2

_DECODER = msgspec.json.Decoder(dict[str, Any])


def lines(handle: int, domain: Domain, clock: Clock, stop: threading.Event) -> Iterator[Readings]:
    """Readings from a file descriptor until its end, or until `stop` is set."""
    decode = _row_decoder(domain)
    at, values = np.zeros(MOST_ROWS), np.zeros((MOST_ROWS, domain.dimension))
    for rows in _chunks(handle, stop):
        for count in _fill(rows, values, decode):
            at.fill(clock.now())
            yield Readings(at[:count], values[:count])
            values.fill(0)
        overwrite_freed_floats()


def _fill(rows: Iterator[memoryview], values: FloatArray, decode: "RowDecoder") -> Iterator[int]:
    """Writes the readings among the lines into `values`; yields how many whenever it is full."""
    count = 0
    try:
        for row in rows:
            count += decode(row, values[count])
            if count == MOST_ROWS:
                yield count
                count = 0
        if count:
            yield count
    finally:
        values.fill(0)


RowDecoder = Callable[[memoryview, FloatArray], bool]


def _row_decoder(domain: Domain) -> RowDecoder:
    parsers = [(attribute.name, json_parser(attribute)) for attribute in domain.attributes]

    def decode(line: memoryview, into: FloatArray) -> bool:
        """Whether the line is an object; its values, NaN where there is none, stand in `into`."""
        try:
            document = _DECODER.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return False
        into[:] = [parse(document.get(name, nan)) for name, parse in parsers]
        return True

    return decode


def _chunks(handle: int, stop: threading.Event) -> Iterator[Iterator[memoryview]]:
    """What arrives, whenever something does: the lines that are complete by then."""
    buffer = bytearray(MOST_LINE_BYTES)
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
            view[:] = bytes(MOST_LINE_BYTES)
            return
        too_long = (too_long and not end) or (not end and filled == MOST_LINE_BYTES)
        rest = 0 if too_long else filled - end
        view[:rest] = bytes(view[end : end + rest])
        view[rest:] = bytes(MOST_LINE_BYTES - rest)
        filled = rest


def _split(buffer: bytearray, begin: int, end: int) -> Iterator[memoryview]:
    """The lines in buffer[begin:end], as views."""
    view = memoryview(buffer)
    while begin < end:
        stop = buffer.find(b"\n", begin, end)
        stop = end if stop < 0 else stop
        yield view[begin:stop]
        begin = stop + 1


def _read(handle: int, into: memoryview) -> int | None:
    """Bytes read; 0 at the end, None when nothing has come for a while."""
    try:
        ready, _, _ = select.select([handle], [], [], POLL_SECONDS)
        return os.readv(handle, [into]) if ready else None
    except BlockingIOError:
        return None
    except (OSError, ValueError):
        return 0
