"""`config.yaml`, parsed once at the boundary into frozen values.

    config = load_agent("config.yaml", os.environ)

The loaders check every setting of the file; later code receives valid values only.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pansketch_fleet.config.effective_settings import Setting, describe
from pansketch_fleet.config.stream import StreamContext, check_memory, read_stream
from pansketch_fleet.errors import ConfigError
from pansketch_fleet.protocol.messages import MAX_STREAMS
from pansketch_fleet.protocol.topics import ID_RULE, is_id
from pansketch_fleet.sections.blinded import read_keepers
from pansketch_fleet.sections.collector import read_home_assistant, read_http
from pansketch_fleet.sections.mqtt import read_mqtt
from pansketch_fleet.settings.profiles import (
    DEFAULT_PROFILE,
    OutboxRules,
    Profile,
    known,
    load_profile,
    read_persist,
    read_policy,
)
from pansketch_fleet.settings.schema import (
    AgentSection,
    CollectorSection,
    FileSection,
    OutboxSection,
)
from pansketch_fleet.settings.section import section, text_paths
from pansketch_fleet.settings.settings import (
    AgentConfig,
    AgentSettings,
    CollectorConfig,
    CollectorSettings,
    Config,
    ExecSource,
    Http,
    Mqtt,
    MqttSource,
    ReplaySource,
    SensorSource,
    Source,
    StdinSource,
    Stream,
    SystemSource,
)
from pansketch_fleet.units import seconds
from pansketch_fleet.yaml.document import Document, KeyPath, parse, read_text
from pansketch_fleet.yaml.interpolation import InterpolatedValue, fill, has_reference

__all__ = [
    "AgentConfig",
    "AgentSettings",
    "CollectorConfig",
    "CollectorSettings",
    "Config",
    "ConfigError",
    "ExecSource",
    "Http",
    "Mqtt",
    "MqttSource",
    "Profile",
    "ReplaySource",
    "SensorSource",
    "Setting",
    "Source",
    "StdinSource",
    "Stream",
    "SystemSource",
    "describe",
    "load_agent",
    "load_collector",
]

Program = Literal["agent", "collector"]


MAX_KEEP_SECONDS = 366 * 86400


def load_agent(path: str | Path, environ: Mapping[str, str]) -> AgentConfig:
    """Load a configuration as the agent of its `agent:` section.

    Args:
        path: the file; relative paths in it start at its folder.
        environ: the variables that `${NAME}` refers to.

    Returns:
        Frozen values, all of them checked.

    Raises:
        ConfigError: one line that names file, line, key, problem and fix.
    """
    document, top, folder, mqtt = _read(path, "agent", environ)
    if top.agent is None:
        raise document.error("agent", "is missing; add agent: {device: name-of-this-device}")
    given = section(document, "agent", top.agent, AgentSection)
    _check_id(document, "agent.device", given.device)
    profile = _profile(document, given.profile or DEFAULT_PROFILE)
    state = folder / (given.state or f"var/agent/{given.device}")
    outbox = _outbox(document, given.outbox or {}, profile)
    keepers = read_keepers(document, top.keepers)
    around = StreamContext(top.fleet, profile, folder, local=True, keepers=keepers)
    streams = _streams(document, top.streams, around)
    if len(streams) > MAX_STREAMS:
        problem = f"has {len(streams)} streams, and a device at most {MAX_STREAMS}"
        raise document.error("streams", f"{problem}; give some of them to another device")
    check_memory(document, streams, profile)
    return AgentConfig(
        fleet=top.fleet,
        mqtt=mqtt,
        streams=streams,
        collector=_collector(document, top, folder, local=False),
        profile=profile,
        keepers=keepers,
        document=document,
        agent=AgentSettings(given.device, state, profile, outbox, given.require_locked_memory),
    )


def load_collector(path: str | Path, environ: Mapping[str, str]) -> CollectorConfig:
    """Load a configuration as the collector, or as a command that needs no device.

    It leaves the references of the `agent:` section alone and needs no replayed file.

    Args:
        path: the file; relative paths in it start at its folder.
        environ: the variables that `${NAME}` refers to.

    Returns:
        Frozen values, all of them checked.

    Raises:
        ConfigError: one line that names file, line, key, problem and fix.
    """
    document, top, folder, mqtt = _read(path, "collector", environ)
    name = DEFAULT_PROFILE
    if top.agent is not None:
        given = section(document, "agent", top.agent, AgentSection).profile
        name = DEFAULT_PROFILE if given is None or has_reference(given) else given
    profile = _profile(document, name)
    keepers = read_keepers(document, top.keepers)
    around = StreamContext(top.fleet, profile, folder, local=False, keepers=keepers)
    streams = _streams(document, top.streams, around)
    return CollectorConfig(
        fleet=top.fleet,
        mqtt=mqtt,
        streams=streams,
        collector=_collector(document, top, folder, local=True),
        profile=profile,
        keepers=keepers,
        document=document,
    )


def _read(
    path: str | Path, program: Program, environ: Mapping[str, str]
) -> tuple[Document, FileSection, Path, Mqtt]:
    """The checked sections of a file, its folder, and the broker, which both programs need."""
    path = Path(path)
    folder = path.parent

    def filled(key: KeyPath, text: str) -> InterpolatedValue:
        # A file with the password of a sensors' broker is on the devices only.
        theirs = key[:1] == ("agent",) or key[2:] == ("source", "password")
        if program == "collector" and theirs:
            return InterpolatedValue(text)
        # And one with the token of the collector's readers is nowhere else.
        if program == "agent" and key == ("collector", "token"):
            return InterpolatedValue(text, secret=True)
        return fill(text, environ, folder)

    document = parse(read_text(path), str(path), filled, text_paths(FileSection))
    if document.value is None:
        raise document.error("", "is empty; start from the example configuration")
    top = section(document, "", document.value, FileSection)
    _check_id(document, "fleet", top.fleet)
    return document, top, folder, read_mqtt(document, top.mqtt, folder)


def _collector(
    document: Document, top: FileSection, folder: Path, local: bool
) -> CollectorSettings:
    given = section(document, "collector", top.collector or {}, CollectorSection)
    return CollectorSettings(
        folder / (given.database or "var/collector.sqlite"),
        read_http(document, given, local=local),
        read_home_assistant(document, given),
        folder / given.audit if given.audit else None,
    )


def _outbox(document: Document, raw: dict[str, Any], profile: Profile) -> OutboxRules:
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


def _profile(document: Document, name: str) -> Profile:
    if name not in known():
        problem = f"{name[:40]!r} is no firmware profile; there are {', '.join(known())}"
        raise document.error("agent.profile", problem)
    return load_profile(name)


def _streams(document: Document, raw: dict[str, Any], around: StreamContext) -> tuple[Stream, ...]:
    if not raw:
        raise document.error("streams", "is empty; add at least one stream")
    streams = tuple(each for name in raw for each in read_stream(document, name, raw[name], around))
    for stream in streams:
        if stream.part_of and stream.name in raw:
            problem = f"is also what {stream.sketch_at} is called; rename it"
            raise document.error(f"streams.{stream.name}", problem)
    stdin = list(
        dict.fromkeys(each.section for each in streams if isinstance(each.source, StdinSource))
    )
    if len(stdin) > 1:
        problem = f"is stdin like {stdin[0]}'s, and only one stream can read it; change one of them"
        raise document.error(f"streams.{stdin[1]}.source.type", problem)
    return streams


def _check_id(document: Document, where: str, text: str) -> None:
    if not is_id(text):
        raise document.error(where, f"{text[:40]!r} is no id; write {ID_RULE}")
