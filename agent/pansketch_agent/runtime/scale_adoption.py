"""Scales that the collector publishes: which of them a device takes, and from which window on.

What is taken and when follows from the message, the configuration and the public clock. No reading
has a part in it. A file in the state folder holds the scales in force and those that follow; it is
replaced as a whole, so a power cut leaves either the old one or the new one.
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

    `streams`: those that adopt scales. `problems`: why the last message of a stream was refused,
    one line by its name.
    """

    def __init__(self, config: AgentConfig, ledger: Ledger, clock: Clock) -> None:
        self._config, self._ledger, self._clock = config, ledger, clock
        self.streams = {
            stream.name: stream
            for stream in config.streams
            if isinstance(stream, ReadingStream) and stream.scales is not None
        }
        self.problems: dict[str, str] = {}
        self._held = {name: self._read(name) for name in self.streams}

    def specs(self, name: str) -> list[tuple[int, Spec]]:
        """Of a stream: from which start of a window on it has which spec instead of the configured
        one, the earliest first."""
        return [
            (held.at, self._rescaled(name, held.scales).spec) for held in self._held.get(name, ())
        ]

    def at(self, start: float) -> dict[str, Spec]:
        """The specs of windows that start then, by stream."""
        found: dict[str, Spec] = {stream.name: stream.spec for stream in self._config.streams}
        for name in self.streams:
            for begins, spec in self.specs(name):
                if begins <= start:
                    found[name] = spec
        return found

    def arrived(self, event: ScalesArrived, workers: Mapping[str, StreamWorker]) -> None:
        """Takes or refuses a message. An empty one says nothing: scales stay in force."""
        name = event.stream
        if name not in self.streams or not event.payload:
            return
        try:
            scales = Scales.decode(event.payload)
            taken = self._with(name, scales)
            if taken == self._held[name]:
                self.problems.pop(name, None)
                return
            replace_file(self._path(name), TakenScales(taken).encode())
        except ValueError as error:
            self._refuse(name, f"published scales are refused: {error}")
            return
        except OSError as error:
            self._refuse(name, f"published scales cannot be stored: {error.strerror}")
            return
        self._held[name] = taken
        self.problems.pop(name, None)
        if name in workers:
            workers[name].rescale(self.specs(name))
        what = "learned scales" if scales.knots else "the configured scales"
        LOG.info("%s: windows from %s on have %s", name, utc_text(taken[-1].at), what)

    def _with(self, name: str, scales: Scales) -> tuple[HeldScales, ...]:
        """What is held once these scales are taken. They follow the ones in force, a day later at
        the earliest, and replace what would have followed. Raises ValueError."""
        held = self._held[name]
        if held and held[-1].scales == scales:
            return held
        self._rescaled(name, scales)
        # The clock may be behind; what was released already is over.
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
        """What the file holds; nothing where it is damaged, or for other attributes: the broker has
        retained the newest scales."""
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
