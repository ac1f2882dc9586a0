"""What only the device can check of its configuration: that its sources have what it asks for."""

from pansketch_agent.delivery.delivery import MAX_PAYLOAD_BYTES
from pansketch_agent.outbox.backlog import largest_release
from pansketch_agent.sources import exec as child
from pansketch_agent.sources import mqtt_topic, replay
from pansketch_agent.sources.readings import NotOfferedError, SourceError
from pansketch_agent.sources.sensors import host_metrics
from pansketch_fleet.mqtt import tls
from pansketch_fleet.settings.settings import (
    Config,
    ExecSource,
    KeyStream,
    MqttSource,
    ReplaySource,
    Stream,
    SystemSource,
)


def check(config: Config) -> None:
    """Raises ConfigError for a source that lacks something, a release too big, or files for TLS."""
    check_tls(config)
    for stream in config.streams:
        check_stream(config, stream)


def check_tls(config: Config) -> None:
    """Raises ConfigError for a certificate or key that cannot be used."""
    if not config.mqtt.tls:
        return
    try:
        tls.context(config.mqtt)
    except tls.TlsFilesError as error:
        raise config.error(f"mqtt.{error.key}", error.problem) from None


def check_stream(config: Config, stream: Stream) -> None:
    """Raises ConfigError, as `check` does, for this stream."""
    where = f"streams.{stream.section}"
    try:
        _check_source(stream)
    except NotOfferedError as error:
        key = "key" if isinstance(stream, KeyStream) else f"attributes.{error.name}"
        raise config.error(f"{where}.{key}", str(error)) from None
    except tls.TlsFilesError as error:
        raise config.error(f"{where}.source.{error.key}", error.problem) from None
    except SourceError as error:
        key = "command" if isinstance(stream.source, ExecSource) else "path"
        raise config.error(f"{where}.source.{key}", str(error)) from None
    _check_sizes(config, stream, where)


def _check_source(stream: Stream) -> None:
    match stream.source:
        case ReplaySource(path=path):
            replay.check(path, stream.names)
        case ExecSource(command=command):
            child.check(command)
        case MqttSource():
            mqtt_topic.check(stream.source)
        case SystemSource():
            host_metrics.check(stream.names)


def _check_sizes(config: Config, stream: Stream, where: str) -> None:
    max_bytes = stream.spec.max_release_nbytes
    # A replay waits for room for all releases of a window.
    together = sum(each.spec.max_release_nbytes for each in config.parts(stream))
    limits = {
        "a message": (max_bytes, MAX_PAYLOAD_BYTES),
        "the outbox": (together, largest_release(config.profile.outbox_bytes)),
    }
    for what, (size_bytes, limit_bytes) in limits.items():
        if size_bytes > limit_bytes:
            problem = f"a release may take {size_bytes} bytes, {what} at most {limit_bytes}"
            raise config.error(stream.sketch_at, f"{problem}; lower {stream.plan.smaller}")
