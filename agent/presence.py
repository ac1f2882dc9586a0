"""What the device says of itself in its retained status: its streams, and which have stopped."""

from collections.abc import Mapping

from fleet.errors import one_line
from fleet.messages import Status, StreamBirth
from fleet.settings import Config
from fleet.strict_json import MOST_LINE


def statuses(config: Config, session: str, problems: Mapping[str, str]) -> tuple[Status, Status]:
    """The online status, and the offline one that is the will; `problems`: why a stream has
    stopped, by its name."""
    streams = _births(config, problems)
    return Status("online", session, streams), Status("offline", session, streams)


def farewell(config: Config, session: str, problems: Mapping[str, str]) -> Status:
    """What a device says last when it stops by itself, or is told to."""
    return Status("stopped", session, _births(config, problems))


def _births(config: Config, problems: Mapping[str, str]) -> dict[str, StreamBirth]:
    return {
        stream.name: StreamBirth(
            stream.spec.fingerprint.hex(),
            str(stream.spec.guarantee),
            stream.window_seconds,
            one_line(problems.get(stream.name, ""))[:MOST_LINE],
        )
        for stream in config.streams
    }
