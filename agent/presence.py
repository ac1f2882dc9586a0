"""What the device says of itself in its retained status: its streams, and which have stopped."""

from collections.abc import Mapping

from fleet.errors import one_line
from fleet.messages import MOST_LINE, Status, StreamBirth
from fleet.settings import Config


def statuses(config: Config, session: str, problems: Mapping[str, str]) -> tuple[Status, Status]:
    """The online and the offline status; `problems`: why a stream has stopped, by its name."""
    streams = {
        stream.name: StreamBirth(
            stream.spec.fingerprint.hex(),
            str(stream.spec.guarantee),
            stream.window_seconds,
            one_line(problems.get(stream.name, ""))[:MOST_LINE],
        )
        for stream in config.streams
    }
    return Status("online", session, streams), Status("offline", session, streams)
