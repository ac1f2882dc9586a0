"""The settings that devices report in their birth messages, against the configuration."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any

from pansketch.wire import differences, form_of
from pansketch_collector import clock
from pansketch_collector.storage import device_reports
from pansketch_collector.storage.config_epochs import published_fingerprints
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.records import Device
from pansketch_collector.validation.accepted_specs import Epoch
from pansketch_fleet.config.loader import Config
from pansketch_fleet.settings.settings import Stream, is_sent_by
from pansketch_fleet.units import duration_text, utc_text

MAX_DIFFERENCES = 4
MAX_NAMED = 5  # devices of an entry
MAX_TEXTS = 1_024  # birth messages that are kept as read
# Kinds of problems that a birth message reports.
STOPPED, SCALES, OTHER = "stopped", "scales rejected", "other settings"


@dataclass(frozen=True)
class ServedEpoch:
    """The epoch that a device reports.

    `since`: when it was first served, in unix seconds, None if never. `now`: it is the
    configuration's, with the scales in force.
    """

    since: int | None
    now: bool


@dataclass
class _Use:
    """The devices that run one epoch of a stream, and the first of their names."""

    devices: int = 0
    names: list[str] = field(default_factory=list)

    @property
    def lacks_names(self) -> bool:
        return len(self.names) < min(self.devices, MAX_NAMED)


@dataclass(frozen=True)
class _Reported:
    """The streams of a birth message: epochs and differences from the configuration.

    `given`: patterns of the names of devices, of streams that the configuration gives to some.
    `kinds`: of the problems that its devices have.
    """

    epochs: Mapping[str, ServedEpoch]
    differences: Mapping[str, str]
    given: Mapping[str, tuple[str, ...]]
    kinds: Sequence[str]

    def kinds_of(self, device: str) -> Sequence[str]:
        """The kinds of the problems of a device."""
        if OTHER in self.kinds or all(is_sent_by(each, device) for each in self.given.values()):
            return self.kinds
        return (*self.kinds, OTHER)


class ReportedSettings:
    """The settings that devices report, and their differences from the configuration.

    Devices with the same settings report the same text, which is read once.
    """

    def __init__(self, reader: Reader, config: Config) -> None:
        db = self._db = reader.connection
        self._config = config
        self._streams = {stream.name: stream for stream in config.streams}
        self._in_force: dict[str, Collection[bytes]] = {}
        self._own: dict[str, Collection[bytes]] = {}
        for name, stream in self._streams.items():
            specs = config.specs(stream).keys()
            self._in_force[name] = published_fingerprints(db, stream, clock.now()) or specs
            # A device that was disconnected has earlier scales than the newest, or the configured
            # ones.
            self._own[name] = {*specs, *published_fingerprints(db, stream)}
        self._epochs = cache(reader.epochs)
        self._of = lru_cache(MAX_TEXTS)(self._read)

    def in_use(self, counts: Mapping[str, int]) -> list[dict[str, object]]:
        """By stream and epoch, the newest first: the number of devices that run it, and some of
        their names. `counts`: the number of devices that report each text."""
        uses: dict[tuple[str, bool, int], _Use] = {}
        of_text: dict[str, list[_Use]] = {}
        for text, devices in counts.items():
            of_text[text] = [
                uses.setdefault((name, not epoch.now, -(epoch.since or 0)), _Use())
                for name, epoch in self._of(text).epochs.items()
            ]
            for use in of_text[text]:
                use.devices += devices
        after, texts = "", [*counts]
        while texts and (rows := device_reports.reporting(self._db, texts, after)):
            for after, text in rows:
                for use in of_text[text]:
                    if use.lacks_names:
                        use.names.append(after)
            texts = [text for text in texts if any(use.lacks_names for use in of_text[text])]
        return [
            {
                "stream": stream,
                "now": not earlier,
                "since": utc_text(-since) if since else None,
                "devices": use.devices,
                "names": use.names,
            }
            for (stream, earlier, since), use in sorted(uses.items(), key=itemgetter(0))
        ]

    def problems(self, texts: Iterable[str]) -> dict[str, list[str]]:
        """The devices whose birth message has a problem, by its kind. `texts`: all reported
        ones."""
        found: dict[str, list[str]] = {STOPPED: [], SCALES: [], OTHER: []}
        wanted = [text for text in texts if self._of(text).kinds or self._of(text).given]
        after = ""
        while wanted and (rows := device_reports.reporting(self._db, wanted, after)):
            for after, text in rows:
                for kind in self._of(text).kinds_of(after):
                    found[kind].append(after)
        return found

    def epochs(self, device: Device) -> Mapping[str, ServedEpoch]:
        """The epochs that a device reports, by stream."""
        return self._of(device.streams).epochs

    def differences(self, device: Device) -> dict[str, str]:
        """The differences of a device's settings from the configuration, by stream."""
        found = self._of(device.streams)
        texts = {
            name: found.differences.get(name, "")
            if is_sent_by(found.given.get(name), device.device)
            else "the configuration gives it to other devices: its releases are deferred"
            for name in found.epochs
        }
        return {name: text for name, text in texts.items() if text}

    def _read(self, text: str) -> _Reported:
        births: Mapping[str, Mapping[str, Any]] = json.loads(text)
        epochs = {name: self._epoch(name, birth) for name, birth in births.items()}
        differences = {name: self._difference(name, birth) for name, birth in births.items()}
        given = {
            name: patterns
            for name in births
            if name in self._streams and (patterns := self._streams[name].devices) is not None
        }
        kinds = {
            STOPPED: any(birth.get("problem") for birth in births.values()),
            SCALES: any(birth.get("scale_problem") for birth in births.values()),
            OTHER: any(differences.values()),
        }
        return _Reported(epochs, differences, given, [kind for kind in kinds if kinds[kind]])

    def _epoch(self, name: str, birth: Mapping[str, Any]) -> ServedEpoch:
        fingerprint, seconds = bytes.fromhex(birth["fingerprint"]), birth["window_seconds"]
        fits = (
            epoch.first_served
            for epoch in self._epochs(name)
            if fingerprint in epoch.forms and epoch.window_seconds == seconds
        )
        now = (
            name in self._streams
            and fingerprint in self._in_force[name]
            and seconds == self._streams[name].window_seconds
        )
        return ServedEpoch(min(fits, default=None), now)

    def _difference(self, name: str, birth: Mapping[str, Any]) -> str:
        """Empty if there is none."""
        stream = self._streams.get(name)
        if stream is None:
            return "the configuration has no such stream"
        if bytes.fromhex(birth["fingerprint"]) not in self._own[name]:
            return _otherwise(birth, stream, self._epochs(name), self._config)
        return "" if birth["window_seconds"] == stream.window_seconds else _window(birth, stream)


def _otherwise(
    birth: Mapping[str, Any], stream: Stream, epochs: Sequence[Epoch], config: Config
) -> str:
    fingerprint = bytes.fromhex(birth["fingerprint"])
    epoch = next((each for each in epochs if fingerprint in each.forms), None)
    if epoch is not None:
        form = epoch.forms[fingerprint]
        forms = [form_of(spec) for spec in config.specs(stream).values()]
        changes = min((differences(form, new) for new in forms), key=len)
        listed = "; ".join(changes[:MAX_DIFFERENCES])
        return f"settings of the start at {utc_text(epoch.last_served)}: {listed} here"
    if birth["window_seconds"] != stream.window_seconds:
        return _window(birth, stream)
    here = str(stream.spec.guarantee)
    if birth["guarantee"].partition(" (")[0] != here.partition(" (")[0]:
        reported = birth["guarantee"].partition(" (")[0]
        return f"{reported} there, {here.partition(' (')[0]} here: its releases are deferred"
    return "other attributes, bounds or sizes than here: its releases are deferred"


def _window(birth: Mapping[str, Any], stream: Stream) -> str:
    reported = duration_text(birth["window_seconds"])
    return f"windows of {reported} there, of {duration_text(stream.window_seconds)} here"
