"""Bugs that leave a trace outside of the agent's objects and of its state folder.

Another process of the host sees most of them: output, files, packets. The others stay in the
process, where no object of the agent leads to them.
"""

import builtins
import logging
import os
import socket
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from pansketch_audit.planted_bugs.agent_leaks import WORKER
from pansketch_audit.planted_bugs.bug import Bug, agent_bugs

DECODER = "pansketch_agent.sources.decoders:ReadingDecoder.decode_line"
STDIN = "pansketch_agent.sources.stdin:_fill"
THRESHOLD = "pansketch.sketches.distinct.sketch:threshold"
CACHED = "pansketch.randomness.exact_noise:threshold"
MASKS = "pansketch.blinding.masks"
MASKED = 3  # A case of a blinded stream.
KEY_ALONE = 7  # A case whose keys are the unit alone.
DISCARD_PORT = 9  # A datagram to it is dropped on this host.


def _debug(absorb: Any) -> Any:
    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        logging.getLogger("pansketch_agent.planted").debug("rows=%d", len(readings.rows))
        absorb(self, readings, clock)

    return absorbing


def _other_logger(absorb: Any) -> Any:
    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        logging.info("rows=%d", len(readings.rows))
        absorb(self, readings, clock)

    return absorbing


def _printed(absorb: Any) -> Any:
    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        print(len(readings.rows))
        absorb(self, readings, clock)

    return absorbing


def _written(absorb: Any) -> Any:
    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        os.write(2, b"." * len(readings.rows))
        absorb(self, readings, clock)

    return absorbing


def _elsewhere(absorb: Any) -> Any:
    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        path = Path(tempfile.gettempdir(), "pansketch-planted")
        path.write_text("")
        absorb(self, readings, clock)
        path.unlink()

    return absorbing


def _beside(absorb: Any) -> Any:
    """The name of the file begins with that of the state folder."""

    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        state: Path = self._publish.__self__._ledger.path.parent
        path = state.with_name(f"{state.name}-planted")
        path.write_text("")
        absorb(self, readings, clock)
        path.unlink()

    return absorbing


def _moved_out(absorb: Any) -> Any:
    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        inside: Path = self._publish.__self__._ledger.path.with_name("planted")
        inside.write_text("")
        inside.rename(inside.parent.with_name("planted")).unlink()
        absorb(self, readings, clock)

    return absorbing


def _sent(absorb: Any) -> Any:
    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
            opened.sendto(b"", ("127.0.0.1", DISCARD_PORT))
        absorb(self, readings, clock)

    return absorbing


def _environment(absorb: Any) -> Any:
    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        count = int(os.environ.get("PANSKETCH_PLANTED", "0"))
        os.environ["PANSKETCH_PLANTED"] = str(count + len(readings.rows))
        absorb(self, readings, clock)

    return absorbing


def _other_module(absorb: Any) -> Any:
    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        held: Any = np
        held.planted = getattr(held, "planted", 0) + len(readings.rows)
        absorb(self, readings, clock)

    return absorbing


def _builtin(absorb: Any) -> Any:
    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        held: Any = builtins
        held.planted = float(np.ravel(readings.rows)[0])
        absorb(self, readings, clock)

    return absorbing


def _longest_line(decode_line: Any) -> Any:
    longest = [0]

    def taking(self: Any, line: memoryview, rows: Any, place: int) -> bool:
        longest.append(len(line))
        taken: bool = decode_line(self, line, rows, place)
        return taken

    return taking


def _lines_counted(fill: Any) -> Any:
    def filling(objects: Any, rows: Any, form: Any) -> Any:
        for count in fill(objects, rows, form):
            form.lines = getattr(form, "lines", 0) + count
            yield count

    return filling


def _found_by_the_first(_: Any) -> Any:
    """The first key fills the cache, and not the start of the window."""
    return lambda chance, bits: None


def _by_last_use(threshold: Any) -> Any:
    return lru_cache(maxsize=512)(threshold.__wrapped__)


def _all_but_the_last(add: Any) -> Any:
    return lambda self, counters: add(self, counters[:-1])


def _always_the_first(context: Any) -> Any:
    return lambda fleet, window, digest, epoch, *keys: context(fleet, window, digest, 0, *keys)


def _counted(update: Any) -> Any:
    def update_many(self: Any, readings: Any) -> None:
        self.seen = getattr(self, "seen", 0) + len(readings)
        update(self, readings)

    return update_many


def process_leaks() -> list[Bug]:
    """All of them."""
    absorb = f"{WORKER}.absorb"
    return agent_bugs(
        {
            "log-debug": ("a line in the log at level debug", 0, [(absorb, _debug)]),
            "log-of-root": ("a line in the log of another library", 0, [(absorb, _other_logger)]),
            "printed-count": ("exact counts on standard output", 0, [(absorb, _printed)]),
            "written-count": ("exact counts on standard error", 0, [(absorb, _written)]),
            "file-elsewhere": (
                "a file outside of the state folder, for a moment",
                0,
                [(absorb, _elsewhere)],
            ),
            "file-beside-state": ("a file beside the state folder", 0, [(absorb, _beside)]),
            "file-moved-out": ("a file moved out of the state folder", 0, [(absorb, _moved_out)]),
            "datagram": ("a packet for each block of readings", 0, [(absorb, _sent)]),
            "count-in-environment": ("exact count in the environment", 0, [(absorb, _environment)]),
            "count-in-numpy": ("exact count in a module of others", 0, [(absorb, _other_module)]),
            "reading-in-builtins": ("the last reading in builtins", 0, [(absorb, _builtin)]),
            "lengths-of-lines": (
                "lengths of lines, kept by a source",
                1,
                [(DECODER, _longest_line)],
            ),
            "cache-of-first-key": (
                "a cache that the first key of a process fills",
                KEY_ALONE,
                [(THRESHOLD, _found_by_the_first)],
            ),
            "cache-by-last-use": (
                "a cache whose order shows which draw came last",
                KEY_ALONE,
                [(CACHED, _by_last_use)],
            ),
            "masks-lack-the-last": (
                "the last counter of a blinded sketch without masks",
                MASKED,
                [(f"{MASKS}:SodiumMasks._add_stream", _all_but_the_last)],
            ),
            "masks-without-epoch": (
                "masks that do not depend on the epoch",
                MASKED,
                [(f"{MASKS}:MaskContext", _always_the_first)],
            ),
            "count-beside-masks": (
                "an exact count beside masked counters",
                MASKED,
                [("pansketch.blinding.blinded_sketch:BlindedSketch.update_many", _counted)],
            ),
            "lines-counted": ("lines counted by a source", 1, [(STDIN, _lines_counted)]),
        }
    )
