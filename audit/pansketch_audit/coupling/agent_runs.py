"""Coupled runs of the whole agent under a fake clock.

Streams, windows, limiters, release writers, ledger, outbox, delivery, health and status are the
program's own. The clock, the broker and the noise are scripted. One run has a unit and the other
has not. With the noise shifted everything must be equal. This covers all reachable memory of
objects and modules, log records, output, and operations outside of the state folder. It also covers
files with their contents and the moments at which they are written, and messages with their
moments.
"""

import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from pansketch import decode
from pansketch.sketches import LinearSpec
from pansketch.wire import decode_blinded, peek_any
from pansketch_agent.delivery.delivery import Delivery
from pansketch_agent.host.clock import Clock
from pansketch_agent.host.hardening import MemoryProtection
from pansketch_agent.ledger.accounts import HEADER, line
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.outbox import Outbox
from pansketch_agent.runtime.status_report import StatusReport
from pansketch_agent.runtime.stream_builder import StreamBuilder
from pansketch_agent.runtime.stream_worker import StreamWorker
from pansketch_agent.sources import stdin
from pansketch_agent.sources.decoders import decoder_for
from pansketch_agent.sources.readings import Readings
from pansketch_agent.status.health import Facts, HealthCollector, HealthSchedule
from pansketch_audit.coupling.coupled_runs import (
    Exposure,
    Name,
    Noises,
)
from pansketch_audit.coupling.hostile import printed, printed_keys
from pansketch_audit.coupling.process_events import ProcessEvents, RecordingBroker
from pansketch_audit.coupling.reachable import forget_results, memory_of_objects, memory_of_program
from pansketch_audit.coupling.scripted_noise import Integers, scripted
from pansketch_audit.coupling.sketch_runs import counts_of
from pansketch_fleet.config.programs import AgentConfig
from pansketch_fleet.settings.device_spec import window_index
from pansketch_fleet.settings.settings import KeyStream, Stream

BEGIN, UP = 1_767_225_600.0, 1000.0  # Wall clock and monotonic clock at the first step.
MEMORY = "memory of "
SESSION = "0000000000000001"
OLD = (1, 1)  # Modification time of a file that the agent has not touched since the last step.

What = Literal["tick", "rows", "lines", "snapshot", "announce"]


@dataclass(frozen=True)
class Step:
    """An event at a moment, in seconds since the start. `rows`: of `stream`, as a sketch takes
    them, or as lines that the agent's own source reads; `units`: which belong to the unit."""

    at: float
    what: What
    stream: str = ""
    rows: npt.NDArray[Any] | None = None
    units: tuple[int, ...] = ()


class _Agent:
    """One run of the agent's parts."""

    def __init__(
        self, config: AgentConfig, noises: Noises, now: list[float], events: ProcessEvents
    ) -> None:
        self.config, self.noises, self._now = config, noises, now
        self.state = config.agent.state
        shutil.rmtree(self.state, ignore_errors=True)
        self.state.mkdir(parents=True, mode=0o700)
        (self.state / "ledger").write_text(_new_ledger())
        (self.state / "ledger").chmod(0o600)
        self.events, self.broker = events, RecordingBroker(events)
        self.decoders = {
            each.name: decoder_for(each) for each in config.streams if not each.part_of
        }
        clock = Clock(lambda: BEGIN + now[0], lambda: UP + now[0], lambda *_: True, lambda: True)
        self.clock = clock
        self.ledger = Ledger(self.state)
        self.outbox = Outbox(
            self.state / "outbox", config.profile.outbox_bytes, config.agent.outbox
        )
        self.delivery = Delivery(
            self.outbox, self.broker.send, lambda: 0.5, lambda _: 1 << 22, clock.now
        )
        memory = MemoryProtection("", Path("/"))
        collector = HealthCollector(
            config, SESSION, clock, self.ledger, self.outbox, memory, self.delivery.deferred
        )
        broker: Any = self.broker
        self.health = HealthSchedule(config.agent.device, collector, broker.report)
        builder = StreamBuilder(
            config.fleet,
            config.agent.device,
            self.ledger,
            self.outbox,
            clock,
            threading.Event(),
            False,
            None,
        )
        self.workers: dict[str, StreamWorker] = {
            stream.name: builder.build(config.parts(stream), noises[stream.name])
            for stream in config.streams
            if not stream.part_of
        }
        adoption: Any = SimpleNamespace(problems={})
        protected: Any = SimpleNamespace(protected=True)
        facts = Facts(True, {}, {name: each.spec for name, each in self.workers.items()}, {})
        self.status = StatusReport(
            config, SESSION, broker, list(self.workers.values()), adoption, protected, facts
        )
        self.delivery.connected(clock.monotonic())
        # Of windows that are released as a count without noise of its own: their last bits, which
        # have a draw each.
        self._counted = {each.name for each in config.streams if _is_bare_count(each)}
        self._bits: dict[Name, Integers] = {}

    def do(self, number: int, step: Step, with_unit: bool) -> None:
        self.events.step = number
        if step.rows is not None:
            rows = step.rows.copy() if with_unit else np.delete(step.rows, step.units, axis=0)
            if len(rows):
                self._absorb(step, rows)
        else:
            with self.events.record():
                if step.what == "announce":
                    for worker in self.workers.values():
                        worker.rerandomise()
                else:
                    self._tick()
        self._scan_files()

    def _absorb(self, step: Step, rows: npt.NDArray[Any]) -> None:
        worker = self.workers[step.stream]
        if step.what == "rows":
            with self.events.record():
                worker.absorb(Readings(np.full(len(rows), self.clock.now()), rows), self.clock)
            return
        stream = next(each for each in self.config.streams if each.name == step.stream)
        with tempfile.TemporaryFile() as file:
            if isinstance(stream, KeyStream):
                file.write(printed_keys(stream.key, rows))
            else:
                file.write(printed(stream.domain, rows))
            file.seek(0)
            with self.events.record():
                decoder, stop = self.decoders[step.stream], threading.Event()
                for readings in stdin.lines(file.fileno(), decoder, self.clock, stop):
                    worker.absorb(readings, self.clock)

    def _tick(self) -> None:
        self._bits |= {
            name: bits for name, bits in self.open_counters().items() if name[0] in self._counted
        }
        up = self.clock.monotonic()
        for publication in self.broker.unanswered:
            self.delivery.publish_acknowledged(publication, "")
        self.broker.unanswered.clear()
        for worker in self.workers.values():
            worker.tick(self.clock)
        self.status.step()
        self.outbox.persist_overdue(up)
        self.health.step(up)
        self.delivery.step(up)

    def _scan_files(self) -> None:
        """The files written since the last step; each file's time is then reset."""
        for folder, _, names in os.walk(self.state):
            for name in names:
                path = os.path.join(folder, name)
                if os.stat(path).st_mtime_ns != OLD[0]:
                    content = Path(path).read_bytes()
                    self.events.note(f"file {name} is written", content)
                    os.utime(path, ns=OLD)

    def seen(self, when: str) -> dict[str, object]:
        """Everything but the counters of releases."""
        parts = (
            *(self.ledger, self.outbox, self.delivery, self.health, self.status),
            self.decoders,
        )
        besides = (*self.noises.values(), self.broker, self.events, self._bits, self._now)
        program = memory_of_program(besides)
        files = {
            str(path.relative_to(self.state)): path.read_bytes()
            for path in sorted(self.state.rglob("*"))
            if path.is_file()
        }
        return {
            **{f"{when}: {MEMORY}module {name}": held for name, held in program.items()},
            f"{when}: memory of the workers": memory_of_objects([self.workers], besides),
            f"{when}: memory of the agent": memory_of_objects(parts, besides),
            f"{when}: files": files,
            **{
                f"{when}: {what}, at step {number} of the clock": held
                for number, what, held in self.events.recorded
            },
            f"{when}: order of events": [
                (number, what) for number, what, _ in self.events.recorded
            ],
        }

    def open_counters(self) -> dict[Name, Integers]:
        """The counters in the sketches of all open windows."""
        found = {}
        for name, worker in self.workers.items():
            for place, sketch in enumerate(worker._windows._sketches):
                bases = self.noises[name].bases
                linear: Any = getattr(sketch, "_counters", None)
                which = [n for n, base in enumerate(bases) if base is linear]
                ordinal = which[0] if linear is not None and which else len(bases) - 1 + place
                found[name, ordinal] = counts_of(sketch)
        return found

    def released(self) -> dict[Name, Integers]:
        found = {}
        for source in self.workers:
            parts = self.config.parts(next(s for s in self.config.streams if s.name == source))
            for key in self.outbox.queued():
                for place, stream in enumerate(parts):
                    if key.stream == stream.name:
                        payload = self.outbox.read(key)
                        assert payload is not None
                        ordinal = (key.sequence - 1) * len(parts) + place
                        name = source, ordinal
                        found[name] = self._bits.get(name, _counters(payload, stream))
        return found

    def close(self) -> None:
        self.outbox.close()
        self.ledger.__exit__(None, None, None)


def _is_bare_count(stream: Stream) -> bool:
    if not isinstance(stream, KeyStream):
        return False
    return stream.spec.release == "count" and not stream.spec.guarantee.release_micro


def _counters(payload: bytes, stream: Stream) -> Integers:
    start = peek_any(payload).windows[0].start
    spec = stream.spec.for_window(window_index(start, stream.window_seconds))
    if stream.blinded is None:
        return np.asarray(decode(payload, spec).counters)
    assert isinstance(spec, LinearSpec)
    return np.asarray(decode_blinded(payload, spec).counters).astype(np.int64)


def _new_ledger() -> str:
    """A ledger's first line with a public incarnation; a real one is random."""
    return line(f"{HEADER} {'0' * 16}").decode()


def play(
    config: AgentConfig,
    steps: Sequence[Step],
    with_unit: bool,
    noises: Noises,
    everything: bool,
) -> list[Exposure]:
    """One run of the agent."""
    now = [0.0]
    exposures = []
    forget_results([config])
    events = ProcessEvents(config.agent.state)
    window_masks = resolve_name("pansketch.blinding.masks:WindowMasks")
    masks = patch.object(window_masks, "begin_epoch", scripted(window_masks.begin_epoch))
    with events.logging(), masks:
        agent = _Agent(config, noises, now, events)
        try:
            for number, step in enumerate(steps):
                now[0] = step.at
                if step.what == "snapshot":
                    calls = {name: noise.calls for name, noise in noises.items()}
                    seen = agent.seen("seizure") if everything else {}
                    exposures.append(Exposure(agent.open_counters(), seen, calls))
                else:
                    agent.do(number, step, with_unit)
            calls = {name: noise.calls for name, noise in noises.items()}
            seen = agent.seen("end") if everything else {}
            exposures.append(Exposure(agent.released(), seen, calls))
        finally:
            agent.close()
    return exposures
