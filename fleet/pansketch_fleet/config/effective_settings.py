"""The resolved configuration, setting by setting, with the origin of each value."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pansketch import Attribute, Span, ViewsSpec
from pansketch.privacy import MICRO
from pansketch_fleet.config.blinded_summary import release_nbytes
from pansketch_fleet.config.programs import AgentConfig, CollectorConfig, CollectorSettings, Config
from pansketch_fleet.protocol.signed_release import key_id
from pansketch_fleet.sections.sketches.views import ViewsSettings
from pansketch_fleet.sections.sources.json_paths import path_text
from pansketch_fleet.settings.settings import (
    BlindedSettings,
    DatabaseServer,
    HomeAssistant,
    KeyStream,
    ReadingStream,
    Stream,
)
from pansketch_fleet.settings.sources import (
    ExecSource,
    HttpSource,
    MetricsSource,
    ModbusSource,
    Mqtt,
    MqttSource,
    PolledSource,
    ReplaySource,
    SensorSource,
    kind_of,
)
from pansketch_fleet.units import duration_text, number_text, size_text

HIDDEN = "***"
DERIVED = "derived"


@dataclass(frozen=True)
class Setting:
    """One resolved setting.

    `origin`: `config.yaml:12`, `environment NAME`, `file /path`, `profile NAME`, `default`, or
    `derived` from others. The text of a secret is `***`.
    """

    path: str
    value_text: str
    origin: str


def describe(config: Config) -> list[Setting]:
    """Return every effective setting, in the order of the file's sections."""
    return [_setting(config, *line) for line in _lines(config)]


def _setting(config: Config, path: str, text: str, fallback: str = "default") -> Setting:
    document = config.document
    entry = document.entries.get(path)
    if entry is None:
        return Setting(path, text, fallback)
    origin = ", ".join(entry.origins) or f"{entry.file or document.file}:{entry.line}"
    return Setting(path, HIDDEN if entry.secret else text, origin)


Line = tuple[str, str] | tuple[str, str, str]


def _lines(config: Config) -> Iterator[Line]:
    yield "fleet", config.fleet
    if isinstance(config, AgentConfig | CollectorConfig):
        yield from _mqtt("mqtt", config.mqtt)
        yield "mqtt.protocol", config.mqtt.protocol
    if isinstance(config, AgentConfig):
        yield "agent.device", config.agent.device
        yield "agent.state", str(config.agent.state)
        yield "agent.profile", config.profile.name
        origin = f"profile {config.profile.name}"
        yield "agent.outbox.policy", config.agent.outbox.policy, origin
        yield "agent.outbox.persist", config.agent.outbox.persist
        yield "agent.outbox.keep", duration_text(config.agent.outbox.keep_seconds)
        locked = config.agent.require_locked_memory
        yield "agent.require_locked_memory", "true" if locked else "false"
        signing = config.agent.credentials
        signed = "none" if signing is None else f"key {key_id(signing.public).hex()}"
        yield "agent.credentials", signed
        yield from _profile(config)
    for name, keeper in config.keepers.items():
        yield f"keepers.{name}.key", keeper.key.hex()
        for number, key in enumerate(keeper.previous):
            yield f"keepers.{name}.previous[{number}]", key.hex()
    for stream in config.streams:
        yield from _stream(config, stream)
    if isinstance(config, AgentConfig):
        theirs = (path for path in config.document.entries if path.startswith("collector."))
        yield from ((path, "used by the collector") for path in theirs)
        return
    database = config.collector.database
    yield "collector.database", str(database)
    if isinstance(database, DatabaseServer):
        yield "collector.database_password", HIDDEN if database.password else "none"
    yield from _http(config.collector)
    yield "collector.require_signature", "true" if config.collector.require_signature else "false"
    yield from _home_assistant(config.collector.home_assistant)


def _http(collector: CollectorSettings) -> Iterator[Line]:
    http = collector.http
    if http is None:
        yield "collector.http", "none"
        return
    host = f"[{http.host}]" if ":" in http.host else http.host
    yield "collector.http", f"{host}:{http.port}"
    yield "collector.token", HIDDEN if http.token else "none"
    yield "collector.public", "true" if http.public else "false"
    yield "collector.hosts", f"[{', '.join(http.hosts)}]" if http.hosts else "none"
    yield "collector.audit", "none" if collector.audit is None else str(collector.audit)


def _home_assistant(announced: HomeAssistant | None) -> Iterator[Line]:
    yield "collector.home_assistant", "false" if announced is None else "true"
    if announced is not None:
        yield "collector.home_assistant.prefix", announced.prefix
        yield "collector.home_assistant.remove", "true" if announced.remove else "false"


def _mqtt(root: str, mqtt: Mqtt) -> Iterator[Line]:
    host = f"[{mqtt.host}]" if ":" in mqtt.host else mqtt.host
    yield f"{root}.url", f"mqtt{'s' if mqtt.tls else ''}://{host}:{mqtt.port}"
    if mqtt.tls:
        yield f"{root}.ca_file", str(mqtt.ca_file or "the system's")
        yield f"{root}.cert_file", str(mqtt.cert_file or "none")
        yield f"{root}.key_file", str(mqtt.key_file or "none")
    yield f"{root}.username", mqtt.username or "none"
    yield f"{root}.password", HIDDEN if mqtt.password else "none"


def _profile(config: Config) -> Iterator[Line]:
    profile = config.profile
    origin = f"profile {profile.name}"
    yield "profile.process_memory", size_text(profile.process_memory_bytes), origin
    yield "profile.sketch_memory", size_text(profile.sketch_memory_bytes), origin
    yield "profile.readings_per_second", number_text(profile.readings_per_second), origin
    yield "profile.outbox", size_text(profile.outbox_bytes), origin
    yield "profile.outbox_policy", profile.outbox_policy, origin


def _stream(config: Config, stream: Stream) -> Iterator[Line]:
    root = f"streams.{stream.section}"
    whole, *others = config.parts(stream)
    if stream == whole:
        yield from _source(root, stream)
        yield f"{root}.devices", "all" if stream.devices is None else _listed(stream.devices)
        yield f"{root}.window", duration_text(stream.window_seconds)
        kept = stream.retention_seconds
        yield f"{root}.retention", "for ever" if kept is None else duration_text(kept)
        yield from _privacy(f"{root}.privacy", (stream, *others))
        yield from _subject(root, stream)
    if stream.sketch_at.endswith("]"):
        yield f"{stream.sketch_at}.type", stream.spec.family
    if others:
        epsilon = stream.plan.privacy.epsilon
        yield f"{stream.sketch_at}.share", f"epsilon {number_text(epsilon)}", DERIVED
        yield f"{stream.sketch_at}.stream", stream.name, DERIVED
    if isinstance(stream.spec, ViewsSpec):
        planned = f"planned for {config.profile.name}"
        for number, view in enumerate(stream.spec.views):
            yield f"{stream.sketch_at}.views[{number}]", str(view), planned
    for size, text, origin in stream.plan.shown(config.profile):
        yield f"{stream.sketch_at}.{size}", text, origin
    yield f"{stream.sketch_at}.state_bytes", str(stream.spec.nbytes), DERIVED
    yield f"{stream.sketch_at}.release_bytes", f"about {release_nbytes(stream)}", DERIVED


def _subject(root: str, stream: Stream) -> Iterator[Line]:
    if isinstance(stream, KeyStream):
        yield f"{root}.key", stream.key
        devices = stream.devices_per_key
        yield f"{root}.expect.devices_per_key", "not stated" if devices is None else str(devices)
        return
    for attribute in stream.domain.attributes:
        yield from _attribute(f"{root}.attributes.{attribute.name}", attribute)
    plan = stream.plan
    automatic = isinstance(plan, ViewsSettings) and plan.wanted is None
    yield f"{root}.views", "auto" if automatic else _views_text(stream)
    scales = stream.scales
    yield f"{root}.scales", "none published" if scales is None else "adopted from the collector"
    if scales is not None:
        yield f"{root}.scales.every", duration_text(scales.every_seconds)
        yield f"{root}.scales.publish", "learned" if scales.learned else "configured"
    yield f"{root}.expect.readings", str(stream.expected.readings), DERIVED
    yield f"{root}.expect.max_readings", str(stream.most_readings), DERIVED
    yield f"{root}.expect.devices", str(stream.expected.devices)
    yield f"{root}.expect.windows", str(stream.expected.windows), DERIVED
    yield f"{root}.expect.ask", _listed(stream.expected.means)


def _views_text(stream: ReadingStream) -> str:
    sets = stream.spec.views if isinstance(stream.spec, ViewsSpec) else [stream.domain]
    return _listed([_listed(each.names) for each in sets])


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]"


def _privacy(root: str, parts: Sequence[Stream]) -> Iterator[Line]:
    stream, privacy = parts[0], parts[0].plan.privacy
    micro = sum(each.plan.privacy.epsilon_micro for each in parts)
    yield f"{root}.epsilon", number_text(micro / MICRO)
    if isinstance(privacy.unit, Span):
        yield f"{root}.unit.span", duration_text(privacy.unit.seconds)
        yield f"{root}.unit.max_readings", str(privacy.unit.max_readings)
        if isinstance(stream, ReadingStream) and stream.open_seconds is not None:
            yield f"{root}.unit.open", duration_text(stream.open_seconds)
    else:
        yield f"{root}.unit", privacy.unit
    yield f"{root}.intrusion", privacy.intrusion
    yield f"{root}.aggregation", privacy.aggregation
    if stream.blinded is not None:
        yield from _blinded(root, stream.blinded, privacy.local_epsilon)
    cap = stream.daily_cap_micro
    yield f"{root}.daily_cap", "none" if cap is None else number_text(cap / MICRO)
    if isinstance(stream, KeyStream):
        guarantee = stream.spec.guarantee
        yield f"{root}.epsilon.state", number_text(guarantee.state_micro / MICRO), DERIVED
        yield f"{root}.epsilon.output", number_text(guarantee.release_micro / MICRO), DERIVED


def _blinded(root: str, blinded: BlindedSettings, local_epsilon: float | None) -> Iterator[Line]:
    yield f"{root}.keepers", _listed(blinded.keepers)
    yield f"{root}.epoch", duration_text(blinded.epoch_seconds), DERIVED
    yield f"{root}.local_epsilon", "none" if local_epsilon is None else number_text(local_epsilon)
    for number, level in enumerate(blinded.levels):
        yield f"{root}.answers[{number}].every", level.name, DERIVED
        yield f"{root}.answers[{number}].share", str(level.share), DERIVED
    yield f"{root}.lateness", duration_text(blinded.lateness_seconds), DERIVED


def _source(root: str, stream: Stream) -> Iterator[Line]:
    source = stream.source
    yield f"{root}.source.type", kind_of(source)
    if isinstance(source, ReplaySource):
        yield f"{root}.source.path", str(source.path)
        speed = "as fast as possible" if source.speed is None else number_text(source.speed)
        yield f"{root}.source.speed", speed
    if isinstance(source, SensorSource):
        for name, place in source.sensors.items():
            yield f"{root}.source.sensors.{name}", place
    if isinstance(source, ExecSource):
        for number, word in enumerate(source.command):
            yield f"{root}.source.command[{number}]", word
    if isinstance(source, MqttSource):
        yield f"{root}.source.topic", source.topic
        yield from _mqtt(f"{root}.source", source.broker)
    if isinstance(source, HttpSource):
        yield f"{root}.source.port", str(source.port)
    if isinstance(source, ExecSource | MqttSource | HttpSource):
        for name, steps in source.paths.items():
            yield f"{root}.source.paths.{name}", path_text(steps)
    if isinstance(source, MetricsSource):
        yield f"{root}.source.url", str(source.address)
        for name, series in source.metrics.items():
            yield f"{root}.source.metrics.{name}", str(series)
        if source.address.tls:
            yield f"{root}.source.ca_file", str(source.ca_file or "the system's")
    if isinstance(source, ModbusSource):
        yield f"{root}.source.url", source.url
        for name, register in source.registers.items():
            text = f"{register}: {register.kind}, scale {number_text(register.scale)}"
            yield f"{root}.source.registers.{name}", text
    if isinstance(source, PolledSource):
        yield f"{root}.source.interval", duration_text(source.interval_seconds)


def _attribute(root: str, attribute: Attribute) -> Iterator[Line]:
    if attribute.categories is not None:
        yield f"{root}.categories", f"[{', '.join(attribute.categories)}]"
        yield f"{root}.atoms", _atoms(attribute)
        return
    if attribute.constant is not None:
        yield f"{root}.constant", number_text(attribute.constant)
        yield f"{root}.unit", attribute.unit or "none"
        return
    yield f"{root}.low", number_text(attribute.origin)
    yield f"{root}.high", number_text(attribute.highest)
    yield f"{root}.unit", attribute.unit or "none"
    yield f"{root}.scale", attribute.scale
    if attribute.scale == "log":
        yield f"{root}.resolution", number_text(attribute.resolution)
    if attribute.knots:
        yield f"{root}.knots", f"{len(attribute.knots)} numbers"
    yield f"{root}.step", "none" if attribute.step is None else number_text(attribute.step)
    yield f"{root}.cyclic", "true" if attribute.cyclic else "false"
    yield f"{root}.atoms", _atoms(attribute)


def _atoms(attribute: Attribute) -> str:
    texts = (each if isinstance(each, str) else number_text(each) for each in attribute.atoms)
    return f"[{', '.join(texts)}]" if attribute.atoms else "none"
