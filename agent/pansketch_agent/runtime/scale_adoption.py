"""Adopts scales that the collector publishes: which ones, and from which window on.

Adoption depends on the message, the configuration and the public clock, never on a reading. A file
in the state folder has the current scales and the next ones. It is replaced atomically, so a power
cut leaves either the old one or the new one.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

from pansketch import Spec
from pansketch_agent.host.clock import Clock, utc_text
from pansketch_agent.host.durable_files import replace_file
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.mqtt.events import ScalesArrived
from pansketch_agent.runtime.stream_worker import StreamWorker
from pansketch_fleet.config.programs import AgentConfig
from pansketch_fleet.config.published_scales import DAY_SECONDS, rescaled
from pansketch_fleet.errors import one_line
from pansketch_fleet.protocol.scale_message import HeldScales, Scales, TakenScales
from pansketch_fleet.protocol.strict_json import MAX_LINE
from pansketch_fleet.settings.settings import ReadingStream

LOG = logging.getLogger(__name__)


class ScaleAdoption:
    """The scales of one device's streams, for one thread.

    `streams`: those that adopt scales. `problems`: by stream, why its last message was refused, one
    line.
    """

    def __init__(self, config: AgentConfig, ledger: Ledger, clock: Clock) -> None:
        self._config, self._ledger, self._clock = config, ledger, clock
        self.streams = {
            stream.name: stream
            for stream in config.streams
            if isinstance(stream, ReadingStream) and stream.scales is not None
        }
        self.problems: dict[str, str] = {}
        self._adopted = {name: self._read(name) for name in self.streams}

    def specs(self, name: str) -> list[tuple[int, Spec]]:
        """Return (start, spec) pairs of a stream: windows from `start` on use this spec, earliest
        first.
        """
        return [
            (held.at, self._rescaled(name, held.scales).spec)
            for held in self._adopted.get(name, ())
        ]

    def at(self, start: float) -> dict[str, Spec]:
        """Return the specs of windows that start at `start`, by stream."""
        found: dict[str, Spec] = {stream.name: stream.spec for stream in self._config.streams}
        for name in self.streams:
            for begins, spec in self.specs(name):
                if begins <= start:
                    found[name] = spec
        return found

    def arrived(self, event: ScalesArrived, workers: Mapping[str, StreamWorker]) -> None:
        """Adopt or refuse a message. An empty one changes nothing."""
        name = event.stream
        if name not in self.streams or not event.payload:
            return
        try:
            scales = Scales.decode(event.payload)
            adopted = self._with(name, scales)
            if adopted == self._adopted[name]:
                self.problems.pop(name, None)
                return
            replace_file(self._path(name), TakenScales(adopted).encode())
        except ValueError as error:
            self._refuse(name, f"published scales are refused: {error}")
            return
        except OSError as error:
            self._refuse(name, f"published scales cannot be stored: {error.strerror}")
            return
        self._adopted[name] = adopted
        self.problems.pop(name, None)
        if name in workers:
            workers[name].rescale(self.specs(name))
        what = "learned scales" if scales.knots else "the configured scales"
        LOG.info("%s: windows from %s on have %s", name, utc_text(adopted[-1].at), what)

    def _with(self, name: str, scales: Scales) -> tuple[HeldScales, ...]:
        """Return the scales of a stream after adopting new ones. Raises ValueError.

        New scales start at least a day after the current ones, and replace scales that have not
        started.
        """
        held = self._adopted[name]
        if held and held[-1].scales == scales:
            return held
        self._rescaled(name, scales)
        # The clock may be behind; released windows are over.
        now = max(self._clock.now(), self._ledger.spent(name).until)
        in_force = [each for each in held if each.at <= now][-1:]
        for each in in_force:
            if scales == each.scales:
                return (each,)
            if scales.begins <= each.scales.begins:
                raise ValueError(f"they begin at {utc_text(scales.begins)}, before those in force")
        earliest = max((each.at + DAY_SECONDS for each in in_force), default=0)
        return *in_force, HeldScales(max(scales.begins, earliest), scales)

    def _rescaled(self, name: str, scales: Scales) -> ReadingStream:
        return rescaled(self.streams[name], scales, self._config.profile)

    def _refuse(self, name: str, problem: str) -> None:
        line = one_line(problem)[:MAX_LINE]
        if self.problems.get(name) != line:
            LOG.error("%s: %s", name, line)
        self.problems[name] = line

    def _path(self, name: str) -> Path:
        return self._config.agent.state / f"scales-{name}.json"

    def _read(self, name: str) -> tuple[HeldScales, ...]:
        """Return the scales in the file; none if it is damaged or for other attributes.

        The broker has retained the newest scales.
        """
        path = self._path(name)
        try:
            held = TakenScales.decode(path.read_bytes()).held
            for each in held:
                self._rescaled(name, each.scales)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            LOG.warning("%s is not used (%s); starting on the configured scales", path, why)
            return ()
        return held
