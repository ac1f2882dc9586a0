"""The frozen configurations of the agent, the collector, and a reader of its database."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pansketch_fleet.errors import ConfigError
from pansketch_fleet.protocol.signed_release import Credentials
from pansketch_fleet.settings.device_spec import DeviceSpec, variants
from pansketch_fleet.settings.profiles import DEFAULT_OUTBOX, OutboxRules, Profile, every
from pansketch_fleet.settings.settings import (
    DatabaseServer,
    HomeAssistant,
    Http,
    KeeperKeys,
    Stream,
)
from pansketch_fleet.settings.sources import (
    Mqtt,
)
from pansketch_fleet.yaml.document import Document


@dataclass(frozen=True)
class AgentSettings:
    """One device: its name in topics, the folder of its ledger and outbox, its firmware profile.

    `require_locked_memory`: it runs only if no swap can contain its memory. `credentials`: they
    sign its releases; None: releases are not signed.
    """

    device: str
    state: Path
    profile: Profile
    outbox: OutboxRules = DEFAULT_OUTBOX
    require_locked_memory: bool = False
    credentials: Credentials | None = None


@dataclass(frozen=True)
class CollectorSettings:
    """The collector's settings.

    `database`: a file, or a server. `http`: None without an HTTP server. `home_assistant`: None
    without announcements. `audit`: the record of the last audit. `require_signature`: refuse
    unsigned releases.
    """

    database: Path | DatabaseServer
    http: Http | None = None
    home_assistant: HomeAssistant | None = None
    audit: Path | None = None
    require_signature: bool = False


@dataclass(frozen=True, kw_only=True)
class Config:
    """The part of a configuration for every program; a reader of the database sees no more.

    `profile`: of the device; for the collector the default one. `groups`: by name, the patterns of
    their devices. `collector`: the agent uses none of it; if a reference is in the section, it has
    defaults there.
    """

    fleet: str
    streams: tuple[Stream, ...]
    collector: CollectorSettings
    profile: Profile
    keepers: Mapping[str, KeeperKeys] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    document: Document = field(repr=False, compare=False)

    def specs(self, stream: Stream) -> Mapping[bytes, DeviceSpec]:
        """Return the specs of a stream on devices of any profile, by fingerprint; its own first."""
        return variants(stream.spec, stream.plan, every())

    def parts(self, stream: Stream) -> tuple[Stream, ...]:
        """Return the streams of one section: of all its sketches, in the order of the section."""
        return tuple(each for each in self.streams if each.section == stream.section)

    def at(self, where: str) -> tuple[str, int]:
        """Return file and line of a dotted path such as `streams.air.attributes.temp`."""
        return self.document.at(where)

    def error(self, where: str, problem: str) -> ConfigError:
        """Return the ConfigError of a fault that only a program finds; `problem` reads `problem;
        fix`.
        """
        return self.document.error(where, problem)


@dataclass(frozen=True, kw_only=True)
class AgentConfig(Config):
    """A configuration for the agent, on the device of its `agent:` section.

    `not_sent`: the streams of the file that other devices send.
    """

    mqtt: Mqtt
    agent: AgentSettings
    not_sent: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CollectorConfig(Config):
    """A configuration for the collector's `serve`, with the broker."""

    mqtt: Mqtt
