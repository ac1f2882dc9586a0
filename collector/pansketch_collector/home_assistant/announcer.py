"""Announces devices to Home Assistant, or removes them.

Each device is announced once on a connection, a few at a time, and again after its version changes.
A broker sends the retained status of every device at each subscription. So announcements follow
from the statuses alone: for new devices, after a restart, and for a broker that lost its state.
"""

import logging
from collections.abc import Mapping
from itertools import islice
from typing import Protocol

from pansketch_collector.home_assistant import payloads
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage.reader import reading
from pansketch_collector.validation.verdicts import DeviceStatus, HealthReport, Outcome
from pansketch_fleet.config.programs import Config
from pansketch_fleet.settings.settings import HomeAssistant

# A fleet of a thousand takes about two minutes, which a subscriber can follow.
MAX_AT_ONCE = 10
PAUSE_SECONDS = 1.0
# The limit for a device whose reported version changes all the time.
AGAIN_SECONDS = 600.0

log = logging.getLogger("collector")


class RetainedPublisher(Protocol):
    """Publishes retained messages.

    The collector's is `pansketch_collector.mqtt.connection.CollectorClient`.
    """

    @property
    def connected(self) -> bool: ...
    def announce(self, topic: str, payload: bytes) -> None: ...


class Discovery:
    """The announcements of one serving process, for one thread.

    `versions`: agents' versions of all devices known before, None if unknown. These devices may be
    announced, so `remove` applies to them.
    """

    def __init__(
        self,
        settings: HomeAssistant,
        fleet: str,
        versions: Mapping[str, str | None],
        publisher: RetainedPublisher,
    ) -> None:
        self._settings, self._fleet, self._publisher = settings, fleet, publisher
        self._versions = dict(versions)
        self._noted_on: dict[str, int] = {}  # the connection on which each was scheduled
        self._announced_at: dict[str, float] = {}
        self._due = dict.fromkeys(versions, 0.0) if settings.remove else {}
        self._next = 0.0
        self._finished = False

    def on_committed(self, message: Incoming, outcome: Outcome) -> None:
        """Schedules a device. The store limits the number of devices, which bounds the memory."""
        match outcome:
            case DeviceStatus(device):
                if self._noted_on.get(device) != message.connection:
                    self._noted_on[device] = message.connection
                    self._due[device] = 0.0
            case HealthReport(device, health):
                self._note_version(device, health.version)
            case _:
                pass

    def step(self, uptime: float) -> None:
        """Announces the next few devices, at most once in PAUSE_SECONDS. Call it at every turn."""
        if not self._due or uptime < self._next or not self._publisher.connected:
            return
        self._next = uptime + PAUSE_SECONDS
        ready = (device for device, at in self._due.items() if at <= uptime)
        for device in list(islice(ready, MAX_AT_ONCE)):
            del self._due[device]
            self._announced_at[device] = uptime
            self._publisher.announce(*self._message_of(device))
        if self._settings.remove and not self._due and not self._finished:
            self._finished = True
            removed = f"{len(self._announced_at)} devices are removed from Home Assistant"
            log.info("%s; now leave collector.home_assistant out of the configuration", removed)

    def _note_version(self, device: str, version: str) -> None:
        if self._versions.get(device) == version:
            return
        self._versions[device] = version
        if device in self._noted_on and not self._settings.remove:
            announced_at = self._announced_at.get(device)
            self._due.setdefault(
                device, 0.0 if announced_at is None else announced_at + AGAIN_SECONDS
            )

    def _message_of(self, device: str) -> tuple[str, bytes]:
        """Topic and payload of a device's announcement."""
        topic = payloads.topic(self._settings.prefix, self._fleet, device)
        if self._settings.remove:
            return topic, b""
        return topic, payloads.message(self._fleet, device, self._versions.get(device))


def discovery_of(config: Config, publisher: RetainedPublisher) -> Discovery | None:
    """The announcements that a configuration requires; None without any. Raises CommandError.

    The database must exist.
    """
    wanted = config.collector.home_assistant
    if wanted is None:
        return None
    with reading(config.collector.database) as reader:
        healths = reader.healths()
        names = [device.device for device in reader.devices()]
    versions = {name: healths[name].health.version if name in healths else None for name in names}
    action = "removing devices from" if wanted.remove else "announcing devices to"
    log.info("%s Home Assistant, below %s/device", action, wanted.prefix)
    return Discovery(wanted, config.fleet, versions, publisher)
