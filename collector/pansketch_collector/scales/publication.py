"""The publication of scales, and the handling of scales that another client publishes.

The broker retains one message a stream. A separate thread learns scales from stored releases. The
collector stores them with their epoch, and then publishes them. So no device can have scales that
this collector does not know. On each connection the collector receives the retained scales. It also
stores newer scales that devices would accept, after a restored backup or beside another collector.
It replaces any others.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Protocol

from pansketch_collector.errors import CommandError
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.scales.learning import Knots, proposal
from pansketch_collector.storage.config_epochs import RescaledStream
from pansketch_collector.storage.tables.connection import ERRORS
from pansketch_collector.validation.accepted_specs import Epoch
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import Outcome, ScalesReceived
from pansketch_fleet.config.loader import Config
from pansketch_fleet.config.published_scales import DAY_SECONDS, domain_name, rescaled
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.scale_message import Scales
from pansketch_fleet.settings.settings import PublishedScales, ReadingStream, Stream
from pansketch_fleet.units import utc_text

NOTICE_SECONDS = 600  # Devices that are online receive new scales so long before, or a window.
FIRST_SECONDS, LAST_SECONDS = (
    10.0,
    86_400.0,
)  # the first and the maximum pause after a failed attempt
RESTORE_SECONDS = 60.0

log = logging.getLogger("collector")


class ScalePublisher(Protocol):
    """The publisher of scales: `pansketch_collector.mqtt.connection.CollectorClient`."""

    @property
    def connected(self) -> bool: ...
    def announce(self, topic: str, payload: bytes) -> None: ...


class ScaleStore(Protocol):
    """The store of scales: `pansketch_collector.storage.config_epochs.EpochStore`."""

    def publish(self, config: Config, found: RescaledStream, at: int) -> list[Epoch]: ...
    def published(self, config: Config, stream: Stream) -> RescaledStream | None: ...


@dataclass
class _Learner:
    """Learns in a thread of its own. `found`: the knots, or why there are none."""

    work: Callable[[], Knots]
    found: Knots | str | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, name="scales", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.found = self.work()
        except CommandError as error:
            self.found = str(error)
        except Exception as error:
            self.found = f"{type(error).__name__} while learning; please report this"


@dataclass
class _Stream:
    """One stream that has published scales. Times are of the monotonic clock.

    `pause`: after a failed attempt to learn. `restore`: when the retained message is replaced.
    """

    own: ReadingStream
    rules: PublishedScales
    newest: RescaledStream | None
    due: float = 0.0
    pause: float = FIRST_SECONDS
    restore: float = inf
    restored: float = -inf
    learner: _Learner | None = None
    last_logged: str = ""

    @property
    def knots(self) -> Knots:
        """Those that were published last."""
        return {} if self.newest is None else self.newest.scales.knots

    @property
    def next(self) -> int:
        """When the next scales may begin, in unix seconds: `every` after learned ones, and as soon
        as devices take them after others."""
        if self.newest is None:
            return 0
        kept = self.rules.every_seconds if self.knots and self.rules.learned else DAY_SECONDS
        return self.newest.scales.begins + kept

    def log_change(self, level: int, text: str) -> None:
        """Log a text that differs from the last one."""
        if text != self.last_logged:
            log.log(level, "%s: %s", self.own.name, text)
        self.last_logged = text


class ScalePublication:
    """The scales of one serving process, for one thread."""

    def __init__(
        self, config: Config, store: ScaleStore, rules: Rules, outlet: ScalePublisher
    ) -> None:
        self._config, self._store, self._rules, self._outlet = config, store, rules, outlet
        self._streams = {
            stream.name: _Stream(stream, stream.scales, store.published(config, stream))
            for stream in config.streams
            if isinstance(stream, ReadingStream) and stream.scales is not None
        }
        self._connected = self._cleared = False
        self._uptime, self._now = 0.0, 0

    def step(self, uptime: float, now: int) -> None:
        """Publishes what is due; it waits for the disk alone. A database that cannot be written now
        is left for a later turn."""
        self._uptime, self._now = uptime, now
        fresh = self._outlet.connected and not self._connected
        self._connected = self._outlet.connected
        for each in self._streams.values():
            try:
                if fresh or uptime >= each.restore:
                    self._announce(each)
                if self._connected:
                    self._attend(each)
            except ERRORS as error:
                each.log_change(logging.WARNING, f"scales cannot be stored now ({error}); retrying")
                each.due = uptime + LAST_SECONDS / 24

    def receive(self, _message: Incoming, verdict: Outcome) -> None:
        """Judges scales that the broker sends; this collector's own come back too."""
        if not isinstance(verdict, ScalesReceived) or not verdict.payload:
            return
        each = self._streams.get(verdict.stream)
        if each is None:
            if not self._cleared:
                log.warning("clearing scales of streams that adopt none, as %s", verdict.stream)
            self._cleared = True
            self._outlet.announce(topics.scale(self._config.fleet, verdict.stream), b"")
        elif each.newest is None or verdict.payload != each.newest.scales.encode():
            try:
                self._judge(each, verdict.payload)
            except ERRORS as error:
                each.log_change(
                    logging.WARNING, f"scales cannot be stored ({error}); check the disk"
                )

    def _judge(self, each: _Stream, payload: bytes) -> None:
        """Takes scales that devices take; others are replaced, once a minute."""
        try:
            scales = Scales.decode(payload)
            ahead = each.rules.every_seconds + each.own.window_seconds
            earliest = 0 if each.newest is None else each.newest.scales.begins + DAY_SECONDS
            if not earliest <= scales.begins <= self._now + ahead:
                raise ValueError(f"they begin at {utc_text(scales.begins)}")
            found = RescaledStream(scales, rescaled(each.own, scales, self._config.profile))
        except ValueError as error:
            each.log_change(logging.ERROR, f"replacing scales of another program: {error}")
            each.restore = max(each.restored + RESTORE_SECONDS, self._uptime)
            return
        begin = utc_text(scales.begins)
        each.log_change(
            logging.WARNING, f"another program published scales for windows from {begin} on"
        )
        self._note(each, found)
        each.learner = None  # It learns beside other scales than these.

    def _attend(self, each: _Stream) -> None:
        """Learns in the background, and publishes what was learned."""
        if not each.rules.learned:
            if each.knots:
                self._publish(each, {})
        elif each.learner is None:
            if self._uptime >= each.due and self._now >= each.next - each.own.window_seconds:
                work = partial(proposal, self._config, each.own, each.newest, self._now)
                each.learner = _Learner(work)
        elif each.learner.found is not None:
            found, each.learner = each.learner.found, None
            each.due = self._uptime + each.pause
            each.pause = min(2 * each.pause, LAST_SECONDS)
            if isinstance(found, str):
                each.log_change(logging.INFO, f"no scales to publish yet: {found}")
            elif found == each.knots:
                each.log_change(
                    logging.INFO, "no new scale is better by a quarter: those in use stay"
                )
            else:
                each.pause = FIRST_SECONDS
                self._publish(each, found)

    def _publish(self, each: _Stream, knots: Knots) -> None:
        """Stores scales for windows that begin a little later, then announces them."""
        window = each.own.window_seconds
        earliest = max(self._now + min(window, NOTICE_SECONDS), each.next)
        scales = Scales(
            1, each.own.name, domain_name(each.own), -(-earliest // window) * window, knots
        )
        self._note(each, RescaledStream(scales, rescaled(each.own, scales, self._config.profile)))
        what = f"learned scales of {', '.join(knots)}" if knots else "the configured scales"
        begin = utc_text(scales.begins)
        each.log_change(logging.INFO, f"published {what}, for windows from {begin} on")
        self._announce(each)

    def _note(self, each: _Stream, found: RescaledStream) -> None:
        epochs = self._store.publish(self._config, found, self._now)
        each.newest = found
        self._rules.renew(self._config, each.own, epochs)

    def _announce(self, each: _Stream) -> None:
        """Have the broker retain the newest scales, or nothing if there are none.

        Devices may wait for the former message; the empty one keeps them on the configured scales.
        """
        restoring, each.restore = each.restore < inf, inf
        if restoring:
            each.restored = self._uptime
        if each.newest is not None:
            payload = each.newest.scales.encode()
            self._outlet.announce(topics.scale(self._config.fleet, each.own.name), payload)
        elif restoring:
            self._publish(each, {})
