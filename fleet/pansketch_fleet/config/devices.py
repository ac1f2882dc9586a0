"""The devices that send a stream, and the settings of a single device.

A device may have settings that the collector need not know, and a source of its own for a stream.
Everything else is the same on every device that sends the stream. The plan and the fingerprint of a
stream follow from its own section alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pansketch import Domain
from pansketch_fleet.protocol.signed_release import Credentials, SigningUnavailable
from pansketch_fleet.protocol.signed_release import read_credentials as credentials_in
from pansketch_fleet.protocol.topics import ID_RULE, PATTERN_RULE, is_id, is_pattern
from pansketch_fleet.sections.sources.source import check_names, read_source
from pansketch_fleet.sections.subject import check_key
from pansketch_fleet.settings.profiles import OutboxRules, Profile, read_persist, read_policy
from pansketch_fleet.settings.schema import (
    DeviceSection,
    DeviceStreamSection,
    FileSection,
    OutboxSection,
)
from pansketch_fleet.settings.section import nearest, section
from pansketch_fleet.settings.settings import has_wildcard, is_sent_by
from pansketch_fleet.settings.sources import (
    Source,
)
from pansketch_fleet.settings.stream_schema import StreamSection
from pansketch_fleet.units import seconds
from pansketch_fleet.yaml.document import Document

MAX_KEEP_SECONDS = 366 * 86400
RawSection = dict[str, Any]


@dataclass(frozen=True)
class Devices:
    """The keys `groups:`, `devices:` and `devices` of each stream.

    `groups`: by name, the patterns of their devices. `senders`: by stream, the patterns of the
    devices that send it; None: all. `sources`: by stream, the source sections of single devices.
    """

    own: Mapping[str, RawSection] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    senders: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    sources: Mapping[str, Mapping[str, RawSection]] = field(default_factory=dict)

    def uses(self, device: str) -> Callable[[str], bool]:
        """Return whether a device uses the value at a path, so none of other devices and their
        streams.
        """

        def used(where: str) -> bool:
            section, name, *rest = [*where.split("."), ""]
            if section == "devices":
                return name == device
            if section == "streams" and rest[:1] == ["source"]:
                overridden = device in self.sources.get(name, {})
                return is_sent_by(self.senders.get(name), device) and not overridden
            return True

        return used


def read_devices(document: Document, top: FileSection) -> Devices:
    """Read the devices. Raises ConfigError at the key at fault."""
    for name in top.groups or {}:
        if not is_id(name):
            raise document.error(f"groups.{name}", f"{name[:40]!r} is no id; write {ID_RULE}")
    groups: dict[str, tuple[str, ...]] = {}
    for name, listed in (top.groups or {}).items():
        inner = next((n for n, text in enumerate(listed) if text in (top.groups or {})), None)
        if inner is not None:
            problem = f"{listed[inner]} is a group"
            fix = "write its devices here, or both groups in devices of a stream"
            raise document.error(f"groups.{name}[{inner}]", f"{problem}; {fix}")
        groups[name] = _patterns(document, f"groups.{name}", listed, {})
    senders: dict[str, tuple[str, ...] | None] = {}
    for name, raw in top.streams.items():
        given = section(document, f"streams.{name}", raw, StreamSection).devices
        at = f"streams.{name}.devices"
        senders[name] = None if given is None else _patterns(document, at, given, groups)
    own: dict[str, RawSection] = {}
    sources: dict[str, dict[str, RawSection]] = {}
    for name, raw in (top.devices or {}).items():
        where = f"devices.{name}"
        check_device(document, where, name, groups)
        given_streams = section(document, where, raw, DeviceSection).streams or {}
        own[name] = {key: value for key, value in raw.items() if key != "streams"}
        for stream, override in given_streams.items():
            at = f"{where}.streams.{stream}"
            source = _override(document, at, stream, override, senders, name)
            sources.setdefault(stream, {})[name] = source
    return Devices(own, groups, senders, sources)


def check_device(document: Document, where: str, name: str, groups: Mapping[str, object]) -> None:
    """Raise ConfigError for a name that is invalid for a device, or is a group's, too."""
    if not is_id(name):
        raise document.error(where, f"{name[:40]!r} is no id; write {ID_RULE}")
    if name in groups:
        raise document.error(where, f"{name} is also the name of a group; rename one of them")


def read_credentials(
    document: Document, given: str | None, folder: Path, fleet: str, device: str
) -> Credentials | None:
    """Return the credentials in the file of a device.

    Raises ConfigError for an unusable file, one of another device, and without PyNaCl.
    """
    if given is None:
        return None
    try:
        found = credentials_in(folder / given)
        if (found.fleet, found.device) != (fleet, device):
            problem = f"is of {found.device} in fleet {found.fleet}; name the file of {device}"
            raise ValueError(problem)
    except (ValueError, SigningUnavailable) as error:
        raise document.error("agent.credentials", str(error)) from None
    return found


def _patterns(
    document: Document, where: str, given: list[str], groups: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    if not given:
        raise document.error(where, 'is empty; name devices, such as ["pump-*"], or remove it')
    found: list[str] = []
    for number, text in enumerate(given):
        if not is_pattern(text):
            fix = PATTERN_RULE if text[1:] not in groups else "the name of a group without @"
            problem = f"{text[:40]!r} is no pattern; write {fix}"
            raise document.error(f"{where}[{number}]", problem)
        found += groups.get(text, (text,))
    return tuple(dict.fromkeys(found))


def _override(
    document: Document,
    where: str,
    stream: str,
    raw: Any,
    senders: Mapping[str, tuple[str, ...] | None],
    device: str,
) -> RawSection:
    """Return the source section."""
    if stream not in senders:
        problem = f"there is no stream {stream[:64]}; {nearest(stream, tuple(senders))}"
        raise document.error(where, problem)
    if not is_sent_by(senders[stream], device):
        problem = f"{device} does not send this stream"
        fix = f"add it to streams.{stream}.devices, or remove this"
        raise document.error(where, f"{problem}; {fix}")
    shared = set(StreamSection.__struct_fields__) - set(DeviceStreamSection.__struct_fields__)
    for key in raw if isinstance(raw, dict) else ():
        if key in shared:
            problem = "is the same on all devices of a stream, because the collector must know it"
            fix = "give this device a stream of its own, with devices"
            raise document.error(f"{where}.{key}", f"{problem}; {fix}")
    return section(document, where, raw, DeviceStreamSection).source


def known_devices(patterns: tuple[str, ...] | None) -> int | None:
    """Return the number of devices of a stream if each is named; None otherwise.

    It is rounded up to a power of two, so that one more device seldom changes the plan.
    """
    if patterns is None or has_wildcard(patterns):
        return None
    return 1 << (len(patterns) - 1).bit_length()


def merged(
    document: Document, device: str, agent: RawSection, own: RawSection
) -> tuple[Document, RawSection]:
    """Return the section `agent` of one device, and the document with its keys in that section."""
    found = dict(agent)
    for key, value in own.items():
        if isinstance(value, dict) and isinstance(found.get(key), dict):
            found[key] = {**found[key], **value}
            for inner in value:
                document = document.moved(f"devices.{device}.{key}.{inner}", f"agent.{key}.{inner}")
        else:
            found[key] = value
            document = document.moved(f"devices.{device}.{key}", f"agent.{key}")
    return document, found


def read_sources(
    document: Document,
    name: str,
    shared: RawSection,
    overrides: Mapping[str, RawSection],
    folder: Path,
    device: str | None,
) -> dict[str | None, Source]:
    """Return the sources of a stream: its own by None, first, and those of single devices.

    `device`: the one that runs here; files of its source must exist. Raises ConfigError.
    """
    here = device if device in overrides else None
    sections: dict[str | None, tuple[str, RawSection]] = {None: (f"streams.{name}.source", shared)}
    for each, raw in overrides.items():
        sections[each] = (f"devices.{each}.streams.{name}.source", raw)
    return {
        each: read_source(document, where, raw, folder, device is not None and each == here)
        for each, (where, raw) in sections.items()
    }


def check_sources(
    document: Document,
    name: str,
    sources: Mapping[str | None, Source],
    names: tuple[str, ...],
    subject: Domain | str,
) -> None:
    """Raise ConfigError for a source without the attributes or the key of its stream."""
    for device, source in sources.items():
        own = f"devices.{device}.streams.{name}.source"
        where = f"streams.{name}.source" if device is None else own
        check_names(document, where, source, names)
        if isinstance(subject, str):
            check_key(document, where, source)


def read_outbox(document: Document, raw: RawSection, profile: Profile) -> OutboxRules:
    """Read the section. Raises ConfigError."""
    given, where = section(document, "agent.outbox", raw, OutboxSection), "agent.outbox"
    policy = profile.outbox_policy
    if given.policy is not None:
        policy = read_policy(document, f"{where}.policy", given.policy)
    persist = read_persist(document, f"{where}.persist", given.persist)
    return OutboxRules(policy, persist, _keep_seconds(document, f"{where}.keep", given.keep))


def _keep_seconds(document: Document, where: str, text: str) -> int:
    try:
        found = seconds(text)
    except ValueError as error:
        raise document.error(where, str(error)) from None
    if not found <= MAX_KEEP_SECONDS:
        raise document.error(where, f"{text[:40]!r} is longer than a year; write 7d, or less")
    return int(found)
