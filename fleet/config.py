"""`config.yaml`, parsed once at the door into frozen values.

    config = load("config.yaml", "agent", os.environ)

Everything the configuration says is checked here; later code meets only values that make sense.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from fleet.connection import read_mqtt
from fleet.describe import Setting, describe
from fleet.document import Document, KeyPath, parse
from fleet.errors import ConfigError
from fleet.files import read_text
from fleet.home_assistant import read_home_assistant
from fleet.ids import ID_RULE, is_id
from fleet.interpolation import Filled, fill, has_reference
from fleet.profiles import (
    DEFAULT_PROFILE,
    OutboxRules,
    Profile,
    known,
    load_profile,
    read_persist,
    read_policy,
)
from fleet.schema import (
    CONFIG_TEXTS,
    AgentSection,
    CollectorSection,
    FileSection,
    OutboxSection,
    section,
)
from fleet.serving import read_http
from fleet.settings import (
    AgentSettings,
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
from fleet.streams import Surroundings, check_memory, read_stream

__all__ = [
    "AgentSettings",
    "CollectorSettings",
    "Config",
    "ConfigError",
    "ExecSource",
    "Http",
    "Mqtt",
    "MqttSource",
    "Profile",
    "Program",
    "ReplaySource",
    "SensorSource",
    "Setting",
    "Source",
    "StdinSource",
    "Stream",
    "SystemSource",
    "describe",
    "load",
]

Program = Literal["agent", "collector"]


def load(path: str | Path, program: Program, environ: Mapping[str, str]) -> Config:
    """The configuration as one program sees it; relative paths in it start at its folder.

    The collector leaves the references of the `agent:` section alone and needs no replayed file.
    Raises ConfigError, one line that names file, line, key, problem and fix.
    """
    path = Path(path)
    folder = path.parent

    def filled(key: KeyPath, text: str) -> Filled:
        # A file with the password of a sensors' broker is on the devices only.
        theirs = key[:1] == ("agent",) or key[2:] == ("source", "password")
        if program == "collector" and theirs:
            return Filled(text)
        # And one with the token of the collector's readers is nowhere else.
        if program == "agent" and key == ("collector", "token"):
            return Filled(text, secret=True)
        return fill(text, environ, folder)

    document = parse(read_text(path), str(path), filled, CONFIG_TEXTS)
    if document.value is None:
        raise document.error("", "is empty; start from the example configuration")
    top = section(document, "", document.value, FileSection)
    return _build(document, top, program, folder)


def _build(document: Document, top: FileSection, program: Program, folder: Path) -> Config:
    _check_id(document, "fleet", top.fleet)
    mqtt = read_mqtt(document, top.mqtt, folder)
    profile, agent = _agent(document, top.agent, program, folder)
    around = Surroundings(top.fleet, profile, folder, local=program == "agent")
    streams = _streams(document, top.streams, around)
    if program == "agent":
        check_memory(document, streams, profile)
    collector = section(document, "collector", top.collector or {}, CollectorSection)
    database = folder / (collector.database or "var/collector.sqlite")
    http = read_http(document, collector, local=program == "collector")
    announced = read_home_assistant(document, collector)
    audit = folder / collector.audit if collector.audit else None
    settings = CollectorSettings(database, http, announced, audit)
    return Config(top.fleet, mqtt, agent, streams, settings, profile, document)


def _agent(
    document: Document, raw: dict[str, Any] | None, program: Program, folder: Path
) -> tuple[Profile, AgentSettings | None]:
    if raw is None:
        if program == "agent":
            raise document.error("agent", "is missing; add agent: {device: name-of-this-device}")
        return load_profile(DEFAULT_PROFILE), None
    given = section(document, "agent", raw, AgentSection)
    name = given.profile or DEFAULT_PROFILE
    if program == "collector":
        return _profile(document, DEFAULT_PROFILE if has_reference(name) else name), None
    _check_id(document, "agent.device", given.device)
    profile = _profile(document, name)
    state = folder / (given.state or f"var/agent/{given.device}")
    outbox = _outbox(document, given.outbox or {}, profile)
    return profile, AgentSettings(given.device, state, profile, outbox)


def _outbox(document: Document, raw: dict[str, Any], profile: Profile) -> OutboxRules:
    given, where = section(document, "agent.outbox", raw, OutboxSection), "agent.outbox"
    policy = profile.outbox_policy
    if given.policy is not None:
        policy = read_policy(document, f"{where}.policy", given.policy)
    return OutboxRules(policy, read_persist(document, f"{where}.persist", given.persist))


def _profile(document: Document, name: str) -> Profile:
    if name not in known():
        problem = f"{name[:40]!r} is no firmware profile; there are {', '.join(known())}"
        raise document.error("agent.profile", problem)
    return load_profile(name)


def _streams(document: Document, raw: dict[str, Any], around: Surroundings) -> tuple[Stream, ...]:
    if not raw:
        raise document.error("streams", "is empty; add at least one stream")
    streams = tuple(read_stream(document, name, raw[name], around) for name in raw)
    stdin = [stream.name for stream in streams if isinstance(stream.source, StdinSource)]
    if len(stdin) > 1:
        problem = f"is stdin like {stdin[0]}'s, and only one stream can read it; change one of them"
        raise document.error(f"streams.{stdin[1]}.source.type", problem)
    return streams


def _check_id(document: Document, where: str, text: str) -> None:
    if not is_id(text):
        raise document.error(where, f"{text[:40]!r} is no id; write {ID_RULE}")
