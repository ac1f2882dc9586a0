"""The resolved configuration, setting by setting, with where each value came from."""

from collections.abc import Iterator
from dataclasses import dataclass

from fleet.privacy import MICRO
from fleet.quantities import duration_text, number_text, size_text
from fleet.settings import Config, ReplaySource, Stream, SystemSource
from pansketch import Attribute, Span

HIDDEN = "***"
SIZES = ("depth", "fanout", "k", "width", "rows")


@dataclass(frozen=True)
class Setting:
    """One resolved setting. `origin`: `config.yaml:12`, `environment NAME`, `file /path`,
    `profile NAME` or `default`; a secret's text is `***`.
    """

    path: str
    value_text: str
    origin: str


def describe(config: Config) -> list[Setting]:
    """Every setting that is in force, in the order of the file's sections."""
    return [_setting(config, *line) for line in _lines(config)]


def _setting(config: Config, path: str, text: str, fallback: str = "default") -> Setting:
    document = config.document
    entry = document.entries.get(path)
    if entry is None:
        return Setting(path, text, fallback)
    origin = ", ".join(entry.origins) or f"{document.file}:{entry.line}"
    return Setting(path, HIDDEN if entry.secret else text, origin)


Line = tuple[str, str] | tuple[str, str, str]


def _lines(config: Config) -> Iterator[Line]:
    yield "fleet", config.fleet
    yield from _mqtt(config)
    if config.agent is not None:
        yield "agent.device", config.agent.device
        yield "agent.state", str(config.agent.state)
        yield "agent.profile", config.profile.name
        yield from _profile(config)
    for stream in config.streams:
        yield from _stream(config, stream)
    yield "collector.database", str(config.collector.database)


def _mqtt(config: Config) -> Iterator[Line]:
    mqtt = config.mqtt
    host = f"[{mqtt.host}]" if ":" in mqtt.host else mqtt.host
    yield "mqtt.url", f"mqtt{'s' if mqtt.tls else ''}://{host}:{mqtt.port}"
    if mqtt.tls:
        yield "mqtt.ca_file", str(mqtt.ca_file or "the system's")
    yield "mqtt.username", mqtt.username or "none"
    yield "mqtt.password", HIDDEN if mqtt.password else "none"


def _profile(config: Config) -> Iterator[Line]:
    profile = config.profile
    origin = f"profile {profile.name}"
    yield "profile.process_memory", size_text(profile.process_memory_bytes), origin
    yield "profile.sketch_memory", size_text(profile.sketch_memory_bytes), origin
    yield "profile.readings_per_second", number_text(profile.readings_per_second), origin
    yield "profile.outbox", size_text(profile.outbox_bytes), origin


def _stream(config: Config, stream: Stream) -> Iterator[Line]:
    root = f"streams.{stream.name}"
    yield from _source(root, stream)
    yield f"{root}.window", duration_text(stream.window_seconds)
    yield from _privacy(f"{root}.privacy", stream)
    for attribute in stream.spec.domain.attributes:
        yield from _attribute(f"{root}.attributes.{attribute.name}", attribute)
    yield f"{root}.views", f"[[{', '.join(stream.spec.domain.names)}]]"
    for size in SIZES:
        value = getattr(stream.spec, size)
        yield f"{root}.sketch.{size}", str(value), f"profile {config.profile.name}"


def _privacy(root: str, stream: Stream) -> Iterator[Line]:
    privacy = stream.spec.privacy
    yield f"{root}.epsilon", number_text(privacy.epsilon)
    if isinstance(privacy.unit, Span):
        yield f"{root}.unit.span", duration_text(privacy.unit.seconds)
        yield f"{root}.unit.max_readings", str(privacy.unit.max_readings)
    else:
        yield f"{root}.unit", privacy.unit
    yield f"{root}.intrusion", privacy.intrusion
    cap = stream.daily_cap_micro
    yield f"{root}.daily_cap", "none" if cap is None else number_text(cap / MICRO)


def _source(root: str, stream: Stream) -> Iterator[Line]:
    source = stream.source
    kind = type(source).__name__.removesuffix("Source").lower()
    yield f"{root}.source.type", kind
    if isinstance(source, ReplaySource):
        yield f"{root}.source.path", str(source.path)
        speed = "as fast as possible" if source.speed is None else number_text(source.speed)
        yield f"{root}.source.speed", speed
    if isinstance(source, SystemSource):
        yield f"{root}.source.interval", duration_text(source.interval_seconds)


def _attribute(root: str, attribute: Attribute) -> Iterator[Line]:
    if attribute.categories is not None:
        yield f"{root}.categories", f"[{', '.join(attribute.categories)}]"
        return
    yield f"{root}.low", number_text(attribute.origin)
    yield f"{root}.high", number_text(attribute.highest)
    yield f"{root}.unit", attribute.unit or "none"
    yield f"{root}.scale", attribute.scale
    if attribute.scale == "log":
        yield f"{root}.resolution", number_text(attribute.resolution)
