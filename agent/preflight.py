"""What only the device can check of its configuration: that its sources have what it asks for."""

from agent.delivery import MOST_PAYLOAD_BYTES
from agent.sources import replay, system
from agent.sources.readings import NotOfferedError, SourceError
from fleet.settings import Config, ReplaySource, Stream, SystemSource


def check(config: Config) -> None:
    """Raises ConfigError for a source without its stream's attributes, or a release too big."""
    for stream in config.streams:
        check_stream(config, stream)


def check_stream(config: Config, stream: Stream) -> None:
    """Raises ConfigError, as `check` does, for this stream."""
    where = f"streams.{stream.name}"
    try:
        _check_source(stream)
    except NotOfferedError as error:
        raise config.error(f"{where}.attributes.{error.attribute}", str(error)) from None
    except SourceError as error:
        raise config.error(f"{where}.source.path", str(error)) from None
    _check_sizes(config, stream, where)


def _check_source(stream: Stream) -> None:
    match stream.source:
        case ReplaySource(path=path):
            replay.check(path, stream.spec.domain)
        case SystemSource():
            system.check(stream.spec.domain)


def _check_sizes(config: Config, stream: Stream, where: str) -> None:
    most_bytes = stream.spec.max_release_nbytes
    limits = {"a message": MOST_PAYLOAD_BYTES, "the outbox": config.profile.outbox_bytes}
    for what, limit_bytes in limits.items():
        if most_bytes > limit_bytes:
            problem = f"a release may take {most_bytes} bytes, {what} at most {limit_bytes}"
            raise config.error(where, f"{problem}; make sketch.k or sketch.width smaller")
