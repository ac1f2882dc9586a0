"""`config.yaml`, parsed once at the boundary into frozen values.

    config = load_agent("config.yaml", os.environ)

The loaders check every setting of the file; later code receives valid values only.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pansketch_fleet.config.devices import (
    check_device,
    merged,
    read_credentials,
    read_devices,
    read_outbox,
)
from pansketch_fleet.config.effective_settings import Setting, describe
from pansketch_fleet.config.programs import (
    AgentConfig,
    AgentSettings,
    CollectorConfig,
    CollectorSettings,
    Config,
)
from pansketch_fleet.config.stream import StreamContext, check_memory, read_stream
from pansketch_fleet.errors import ConfigError
from pansketch_fleet.protocol.messages import MAX_STREAMS
from pansketch_fleet.protocol.topics import ID_RULE, is_id
from pansketch_fleet.sections.blinded import read_keepers
from pansketch_fleet.sections.collector import (
    DATABASE,
    read_database,
    read_home_assistant,
    read_http,
)
from pansketch_fleet.sections.mqtt import read_mqtt, with_credentials
from pansketch_fleet.settings.profiles import DEFAULT_PROFILE, Profile, known, load_profile
from pansketch_fleet.settings.schema import AgentSection, CollectorSection, FileSection
from pansketch_fleet.settings.section import section, text_paths
from pansketch_fleet.settings.settings import Http, Stream, is_sent_by
from pansketch_fleet.settings.sources import (
    HttpSource,
    Mqtt,
    ReplaySource,
    Source,
    StdinSource,
    SystemSource,
)
from pansketch_fleet.yaml.document import Document, KeyPath, read
from pansketch_fleet.yaml.interpolation import InterpolatedValue, fill, has_reference

__all__ = [
    "AgentConfig",
    "AgentSettings",
    "CollectorConfig",
    "CollectorSettings",
    "Config",
    "ConfigError",
    "Http",
    "Mqtt",
    "Profile",
    "ReplaySource",
    "Setting",
    "Source",
    "StdinSource",
    "Stream",
    "SystemSource",
    "describe",
    "load_agent",
    "load_collector",
    "load_reader",
]

Program = Literal["agent", "collector", "http", "reader"]


def load_agent(path: str | Path, environ: Mapping[str, str]) -> AgentConfig:
    """Load a configuration as the agent of its `agent:` section.

    Args:
        path: the file, or a folder of `*.yaml` files; relative paths start at the folder.
        environ: the variables that `${NAME}` refers to.

    Returns:
        Frozen values, all of them checked.

    Raises:
        ConfigError: one line that names file, line, key, problem and fix.
    """
    document, top, folder = _read(path, "agent", environ)
    if top.agent is None:
        raise document.error("agent", "is missing; add agent: {device: name-of-this-device}")
    device = section(document, "agent", top.agent, AgentSection).device
    devices = read_devices(document, top)
    document.demand(devices.uses(device))
    check_device(document, "agent.device", device, top.groups or {})
    agent = top.agent
    if own := devices.own.get(device):
        document, agent = merged(document, device, agent, own)
    given = section(document, "agent", agent, AgentSection)
    profile = _profile(document, given.profile or DEFAULT_PROFILE)
    state = folder / (given.state or f"var/agent/{given.device}")
    outbox = read_outbox(document, given.outbox or {}, profile)
    keepers = read_keepers(document, top.keepers)
    context = StreamContext(top.fleet, profile, folder, device, devices, keepers)
    own_streams = {k: v for k, v in top.streams.items() if is_sent_by(devices.senders[k], device)}
    if top.streams and not own_streams:
        problem = f"none of them is for {device}; name it in devices of a stream"
        raise document.error("streams", problem)
    streams = _streams(document, own_streams, context)
    for name in own_streams:
        if device in devices.sources.get(name, {}):
            origin = f"devices.{device}.streams.{name}.source"
            document = document.moved(origin, f"streams.{name}.source")
    if len(streams) > MAX_STREAMS:
        problem = f"has {len(streams)} streams, and a device at most {MAX_STREAMS}"
        raise document.error("streams", f"{problem}; give some of them to another device")
    check_memory(document, streams, profile)
    credentials = read_credentials(document, given.credentials, folder, top.fleet, device)
    return AgentConfig(
        fleet=top.fleet,
        mqtt=with_credentials(read_mqtt(document, top.mqtt, folder), credentials),
        streams=streams,
        collector=_collector_of_agent(document, top, folder),
        profile=profile,
        keepers=keepers,
        groups=devices.groups,
        document=document,
        agent=AgentSettings(
            *(given.device, state, profile, outbox, given.require_locked_memory), credentials
        ),
        not_sent=tuple(name for name in top.streams if name not in own_streams),
    )


def load_collector(path: str | Path, environ: Mapping[str, str]) -> CollectorConfig:
    """Load a configuration as the collector that serves a fleet.

    It needs no reference of the `agent:` section and of the sources, and no replayed file.

    Args:
        path: the file, or a folder of `*.yaml` files; relative paths start at the folder.
        environ: the variables that `${NAME}` refers to.

    Returns:
        Frozen values, all of them checked.

    Raises:
        ConfigError: one line that names file, line, key, problem and fix.
    """
    config, top, folder = _load_reader(path, "collector", environ)
    mqtt = read_mqtt(config.document, top.mqtt, folder)
    return CollectorConfig(**vars(config), mqtt=mqtt)


def load_reader(
    path: str | Path, environ: Mapping[str, str], *, serves_http: bool = False
) -> Config:
    """Load a configuration as a program that reads the database and never connects to the broker.

    It needs no reference of `mqtt:` either, and no file of a certificate.

    Args:
        path: the file, or a folder of `*.yaml` files; relative paths start at the folder.
        environ: the variables that `${NAME}` refers to.
        serves_http: whether the program uses `collector.token`.

    Returns:
        Frozen values, all of them checked.

    Raises:
        ConfigError: one line that names file, line, key, problem and fix.
    """
    return _load_reader(path, "http" if serves_http else "reader", environ)[0]


def _load_reader(
    path: str | Path, program: Program, environ: Mapping[str, str]
) -> tuple[Config, FileSection, Path]:
    document, top, folder = _read(path, program, environ)
    document.demand()
    devices = read_devices(document, top)
    name = DEFAULT_PROFILE
    if top.agent is not None:
        given = section(document, "agent", top.agent, AgentSection).profile
        name = DEFAULT_PROFILE if given is None or has_reference(given) else given
    profile = _profile(document, name)
    keepers = read_keepers(document, top.keepers)
    context = StreamContext(top.fleet, profile, folder, None, devices, keepers)
    config = Config(
        fleet=top.fleet,
        streams=_streams(document, top.streams, context),
        collector=_collector(document, top, folder, has_token=program != "reader"),
        profile=profile,
        keepers=keepers,
        groups=devices.groups,
        document=document,
    )
    return config, top, folder


def _read(
    path: str | Path, program: Program, environ: Mapping[str, str]
) -> tuple[Document, FileSection, Path]:
    """Return the checked sections of a file or a folder of files, and the folder."""
    path = Path(path)
    folder = path if path.is_dir() else path.parent

    def filled(key: KeyPath, text: str) -> InterpolatedValue | None:
        if not has_reference(text):
            return InterpolatedValue(text)
        return fill(text, environ, folder) if _uses(program, key) else None

    document = read(path, filled, text_paths(FileSection))
    if document.value is None:
        raise document.error("", "is empty; start from the example configuration")
    top = section(document, "", document.value, FileSection)
    if not is_id(top.fleet):
        raise document.error("fleet", f"{top.fleet[:40]!r} is no id; write {ID_RULE}")
    return document, top, folder


def _uses(program: Program, key: KeyPath) -> bool:
    """Return whether the program uses the value: a secret is read only by its users."""
    match key:
        case ("agent", *_):
            return program == "agent"
        case ("devices", _, own, *_) if own != "streams":
            return program == "agent"
        case ("mqtt", *_):
            return program in ("agent", "collector")
        case ("collector", "token"):
            return program in ("collector", "http")
        case ("collector", *_):
            return program != "agent"
        case ("streams", _, "source", *inner) | ("devices", _, "streams", _, "source", *inner):
            return program == "agent" or inner in (["type"], ["interval"])
    return True


def _collector_of_agent(document: Document, top: FileSection, folder: Path) -> CollectorSettings:
    """Check the section for the agent, which uses none of it, to find mistakes early."""
    section(document, "collector", top.collector or {}, CollectorSection)
    if any(where.startswith("collector.") for where in {*document.unfilled} - {"collector.token"}):
        return CollectorSettings(folder / DATABASE)
    return _collector(document, top, folder, has_token=False)


def _collector(
    document: Document, top: FileSection, folder: Path, has_token: bool
) -> CollectorSettings:
    given = section(document, "collector", top.collector or {}, CollectorSection)
    return CollectorSettings(
        read_database(document, given, folder),
        read_http(document, given, has_token=has_token),
        read_home_assistant(document, given),
        folder / given.audit if given.audit else None,
        given.require_signature,
    )


def _profile(document: Document, name: str) -> Profile:
    if name not in known():
        problem = f"{name[:40]!r} is no firmware profile; there are {', '.join(known())}"
        raise document.error("agent.profile", problem)
    return load_profile(name)


def _streams(document: Document, raw: dict[str, Any], context: StreamContext) -> tuple[Stream, ...]:
    if not raw:
        raise document.error("streams", "is empty; add at least one stream")
    streams = tuple(
        each for name in raw for each in read_stream(document, name, raw[name], context)
    )
    for stream in streams:
        if stream.part_of and stream.name in raw:
            problem = f"is also what {stream.sketch_at} is called; rename it"
            raise document.error(f"streams.{stream.name}", problem)
    _check_exclusive(document, streams)
    return streams


def _check_exclusive(document: Document, streams: tuple[Stream, ...]) -> None:
    """Raise ConfigError for a second stream of standard input, or of one port."""
    first: dict[str, str] = {}
    for stream in streams:
        match stream.source:
            case StdinSource():
                key, what = "type", "stdin"
            case HttpSource(port=port):
                key, what = "port", f"port {port}"
            case _:
                continue
        other = first.setdefault(what, stream.section)
        if other != stream.section:
            problem = f"is {what} like {other}'s, and only one stream can read it; change one"
            raise document.error(f"streams.{stream.section}.source.{key}", problem)
