"""Bugs that whole agents show: a limiter, a schedule, and wherever a process may remember.

The first five are a sceptic's (pansketch_audit/planted_bugs/sceptic_draws.py), the others more of
the kind.
"""

import logging
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from pansketch_audit.planted_bugs.bug import Bug, Targets, agent_bugs
from pansketch_audit.planted_bugs.sceptic_draws import LINEAR, SAMPLER, SKETCH
from pansketch_fleet.sections.time_slots import MICROSECONDS, TimeSlots

WINDOWS = "pansketch_agent.windows.window:Windows"
WORKER = "pansketch_agent.runtime.stream_worker:StreamWorker"
LIMITER = "pansketch_agent.windows.rate_limiter:SpanLimiter"
GLOBAL = f"{LINEAR}:DIGEST_BYTES", lambda _: deque[Any](maxlen=64)
LOG = logging.getLogger("pansketch_agent.sources.planted")


def _noise_kept(add: Any) -> Any:
    def _add_block(self: Any, digits: Any, scratch: Any, counters: Any) -> None:
        add(self, digits, scratch, counters)
        _in_product().append(scratch.noise.copy())

    return _add_block


def _in_product() -> deque[Any]:
    """A global of a module of the product, in place of one that no code reads here."""
    kept: deque[Any] = import_module(LINEAR).DIGEST_BYTES
    return kept


def _count_in_module(update: Any) -> Any:
    def update_many(self: Any, readings: Any) -> None:
        _in_product().append(len(readings))
        update(self, readings)

    return update_many


def _short_slots(slots: Any) -> Any:
    def slots_for(span: Any, open_seconds: int | None = None) -> TimeSlots:
        found = slots(span, open_seconds)
        length = -(-span.seconds * MICROSECONDS // (span.max_readings - 1))
        return TimeSlots(length, min(found.opened, length))

    return slots_for


def _remembers(absorb: Any) -> Any:
    def remembering(self: Any, index: Any, rows: Any) -> None:
        self._had = getattr(self, "_had", 0) + len(rows)
        absorb(self, index, rows)

    return remembering


def _empty_skipped(reach: Any) -> Any:
    def reaching(self: Any, index: int) -> Iterator[Any]:
        for closed in reach(self, index):
            had, self._had = getattr(self, "_had", 0), 0
            if had:
                yield closed

    return reaching


TAKEN = [0]


def _counted(absorb: Any) -> Any:
    def absorbing(self: Any, index: Any, rows: Any) -> None:
        TAKEN[0] += len(rows)
        absorb(self, index, rows)

    return absorbing


def _health_counts(snapshot: Any) -> Any:
    def counting(self: Any) -> Any:
        health = snapshot(self)
        figures = {name: getattr(health, name) for name in health.__struct_fields__}
        return type(health)(**figures | {"dropped": TAKEN[0]})

    return counting


def _taken_twice(limit: Any) -> Any:
    """The first reading of a block is let through for any history of its slot."""

    def limiting(self: Any, at: Any, rows: Any) -> None:
        first = rows[:1].copy()
        limit(self, at, rows)
        rows[:1] = first

    return limiting


def _no_tick(_: Any) -> Any:
    return lambda self, now: None


def _closed_by_readings(absorb: Any) -> Any:
    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        self.tick(clock)
        absorb(self, readings, clock)

    return absorbing


def _logged(absorb: Any) -> Any:
    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        LOG.info("%s: readings have come", self.name)
        absorb(self, readings, clock)

    return absorbing


def _touched(absorb: Any) -> Any:
    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        os.utime(self._publish.__self__._ledger.path)
        absorb(self, readings, clock)

    return absorbing


def _kept_in_a_file(absorb: Any) -> Any:
    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        path: Path = self._publish.__self__._ledger.path.with_name("debug")
        with path.open("a") as file:
            file.write(f"{len(readings.rows)}\n")
        absorb(self, readings, clock)

    return absorbing


def _late(tick: Any) -> Any:
    """A tick after a reading waits for the next one."""

    def ticking(self: Any, clock: Any) -> None:
        if not vars(self).pop("_had", False):
            tick(self, clock)

    return ticking


def _noted(absorb: Any) -> Any:
    def absorbing(self: Any, readings: Any, clock: Any) -> None:
        self._had = True
        absorb(self, readings, clock)

    return absorbing


def _status_leak(now: Any) -> Any:
    def telling(self: Any) -> Any:
        facts = now(self)
        scales = {each.name: "in use" for each in self._workers if hasattr(each, "_had")}
        return replace(facts, scales=scales)

    return telling


def _label_leak(_: Any) -> Any:
    def _synchronised(self: Any, clock: Any) -> bool:
        return bool(vars(self).pop("_had", False))

    return _synchronised


def _advancing(absorb: Any) -> Any:
    generator = np.random.default_rng(1)

    def absorbing(self: Any, index: Any, rows: Any) -> None:
        generator.random(len(rows))
        absorb(self, index, rows)

    return absorbing


def _cached(absorb: Any) -> Any:
    @cache
    def number(value: float) -> float:
        return value

    def absorbing(self: Any, index: Any, rows: Any) -> None:
        for row in rows:
            number(float(np.ravel(row)[0]))
        absorb(self, index, rows)

    return absorbing


def _counted_by_class(absorb: Any) -> Any:
    def absorbing(self: Any, index: Any, rows: Any) -> None:
        type(self).planted = getattr(type(self), "planted", 0) + len(rows)
        absorb(self, index, rows)

    return absorbing


def _counted_in_closure(absorb: Any) -> Any:
    last = deque[int](maxlen=8)

    def absorbing(self: Any, index: Any, rows: Any) -> None:
        last.append(len(rows))
        absorb(self, index, rows)

    return absorbing


def agent_leaks() -> list[Bug]:
    """All of them."""
    absorb, noted = f"{WINDOWS}.absorb", (f"{WORKER}.absorb", _noted)
    found: dict[str, tuple[str, int, Targets]] = {
        "noise-in-module": (
            "last 64 arrays of noise in a global",
            0,
            [GLOBAL, (f"{SAMPLER}._add_block", _noise_kept)],
        ),
        "count-in-module": (
            "exact count in a global",
            0,
            [GLOBAL, (f"{SKETCH}.update_many", _count_in_module)],
        ),
        "limiter-slots-short": (
            "slots of the limiter of span/(c-1)",
            1,
            [("pansketch_fleet.sections.time_slots:slots_for", _short_slots)],
        ),
        "empty-windows-skipped": (
            "no release of a window without readings",
            0,
            [(f"{WINDOWS}.absorb", _remembers), (f"{WINDOWS}.advance_to", _empty_skipped)],
        ),
        "health-counts": (
            "health counts readings",
            0,
            [
                (f"{WINDOWS}.absorb", _counted),
                ("pansketch_agent.status.health:HealthCollector.snapshot", _health_counts),
            ],
        ),
        "limiter-lets-through": (
            "a limiter that lets the first of a block through",
            1,
            [(f"{LIMITER}.limit", _taken_twice)],
        ),
        "slot-remembered": (
            "whether a slot had its reading, kept while it is closed",
            1,
            [(f"{LIMITER}.tick", _no_tick)],
        ),
        "window-by-reading": (
            "windows closed by a reading",
            0,
            [(f"{WORKER}.absorb", _closed_by_readings)],
        ),
        "log-line": ("a line in the log", 0, [(f"{WORKER}.absorb", _logged)]),
        "file-time": ("the ledger's modification time", 0, [(f"{WORKER}.absorb", _touched)]),
        "file-of-counts": ("counts in a file", 0, [(f"{WORKER}.absorb", _kept_in_a_file)]),
        "late-tick": (
            "a window released a tick later after a reading",
            0,
            [noted, (f"{WORKER}.tick", _late)],
        ),
        "status-tells": (
            "the status shows that readings came",
            0,
            [noted, ("pansketch_agent.runtime.status_report:StatusReport._now", _status_leak)],
        ),
        "label-tells": (
            "a release's label shows that readings came",
            0,
            [noted, (f"{WORKER}._synchronised", _label_leak)],
        ),
        "cached-reading": ("a reading in a cache of results", 0, [(absorb, _cached)]),
        "class-count": ("exact count in a class", 0, [(absorb, _counted_by_class)]),
        "closure-count": ("exact counts in a closure", 0, [(absorb, _counted_in_closure)]),
        "generator-advanced": (
            "a generator of the process that readings advance",
            0,
            [(absorb, _advancing)],
        ),
    }
    return agent_bugs(found)
