"""A stream's source at work in a thread of its own."""

import threading
from contextlib import contextmanager
from pathlib import Path

from pansketch_agent.host.clock import system_clock
from pansketch_agent.runtime.stream_builder import open_source


@contextmanager
def listening(stream, clock=None):
    """The rows that the source has handed over so far; in the end its buffer is overwritten."""
    stop, rows, kept = threading.Event(), [], []

    def run() -> None:
        chance = iter([0.5] * 1000).__next__
        for readings in open_source(
            stream, clock or system_clock(), stop, Path("/"), chance, print
        ):
            rows.extend(readings.rows.tolist())
            kept.append(readings.rows)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield rows
    finally:
        stop.set()
        thread.join(10)
    assert not thread.is_alive()
    assert not any(block.any() for block in kept), "its buffer is overwritten"
