"""The broker's access rules for one fleet, in the syntax of mosquitto, which rejects all else.

Each configured stream has its own line, so that a device cannot retain messages under unknown
names.
"""

from collections.abc import Iterable, Iterator, Sequence

from pansketch_collector.errors import wrong
from pansketch_collector.home_assistant import payloads
from pansketch_collector.validation.validation import Rules
from pansketch_fleet.config.loader import Config
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.keeper_messages import MAX_ASK_BYTES
from pansketch_fleet.protocol.messages import STATUS_LIMIT_BYTES, Status, StreamBirth
from pansketch_fleet.protocol.scale_message import SCALES_LIMIT_BYTES
from pansketch_fleet.protocol.signed_release import ENVELOPE_BYTES
from pansketch_fleet.protocol.topics import ID_RULE, PREFIX, is_id
from pansketch_fleet.settings.settings import ReadingStream, Stream, has_wildcard, is_sent_by

COLLECTOR, HOME_ASSISTANT = "pansketch.collector", "home.assistant"
EACH = "%u"  # the user's own name, in rules for all users
MAX_NAME = "x" * 64
MAX_TEXT = "\N{GRINNING FACE}" * 300
# Bytes of a packet besides topic and payload: lengths, properties, client identifier.
AROUND_BYTES, UNIT_BYTES = 1024, 1024
HEAD = """\
# Permissions of the fleet {fleet}. `pansketch-collector acl` writes this file: run it again
# when the streams change. A user is a certificate's common name, or who gave the password; %u is
# their name. A client id (%c) is chosen by the client and proves nothing, so no line has it.
# The broker rejects everything else. The largest message, for mosquitto.conf:
# max_packet_size {packet}

# A device writes below its own name, the releases of these streams only, and reads its own
# acknowledgements and mark, and the scales of streams that adopt any. Its probe is an empty message
# to itself (`pansketch-agent check`).
"""
OF_COLLECTOR = """\

# The collector. No device can have its name: a device's name holds no dot. On a release's topic it
# writes only to clear what was retained there. No other client may write scales.
user {collector}
topic read {root}/+/status
topic read {root}/+/health
topic readwrite {root}/+/release/+
topic write {root}/+/ack
topic write {root}/+/mark
topic readwrite {root}/{all_devices}/scale/+
"""
# Of a blinded fleet.
ASKING = """\
topic write {root}/{keeper}/ask
topic read {root}/{keeper}/answer
"""
OF_KEEPER = """\

# Keeper {name}: reads its questions, writes its answers and its status, and sees no release.
user {keeper}
topic read {root}/{keeper}/ask
topic write {root}/{keeper}/answer
topic write {root}/{keeper}/status
"""
OF_HOME_ASSISTANT = """\
topic write {prefix}/device/+/config

# Home Assistant, or the bridge of its own broker: how devices are, not what they release.
user {home_assistant}
topic read {prefix}/device/+/config
topic read {root}/+/status
topic read {root}/+/health
"""


def as_text(config: Config, devices: Sequence[str]) -> str:
    """The rules. `devices`: the fleet's devices; none writes rules for any authenticated user.

    Raises CommandError for an invalid device name.
    """
    for device in devices:
        if not is_id(device):
            raise wrong(f"{device[:64]!r} is no device's name: use {ID_RULE}")
    root = f"{PREFIX}/{config.fleet}"
    parts = [HEAD.format(fleet=config.fleet, packet=largest_packet(config))]
    for device in devices or [EACH]:
        word = "pattern" if device == EACH else "topic"
        lines = [] if device == EACH else [f"user {device}"]
        streams = [s for s in config.streams if _writes(s, device)]
        lines += [f"{word} {access} {root}/{device}/{kind}" for access, kind in _own(streams)]
        lines += [f"{word} read {topics.scale(config.fleet, name)}" for name in _adopting(streams)]
        parts.append("".join(f"{line}\n" for line in lines))
    if not devices:
        parts += _of_named(config, root)
    parts.append(
        OF_COLLECTOR.format(root=root, collector=COLLECTOR, all_devices=topics.ALL_DEVICES)
    )
    users = {name: f"{topics.KEEPER}{name}" for name in config.keepers}
    parts += [ASKING.format(root=root, keeper=user) for user in users.values()]
    home = config.collector.home_assistant
    if home is not None:
        parts.append(
            OF_HOME_ASSISTANT.format(root=root, prefix=home.prefix, home_assistant=HOME_ASSISTANT)
        )
    parts += [OF_KEEPER.format(root=root, name=n, keeper=user) for n, user in users.items()]
    return "".join(parts)


def largest_packet(config: Config) -> int:
    """The size of the fleet's largest MQTT packet in bytes, rounded up.

    It is a release, a status with the longest texts of every stream, an announcement to Home
    Assistant, or a question to a keeper.
    """
    adopting = _adopting(config.streams)
    births = {
        s.name: StreamBirth("0" * 16, MAX_TEXT, 1, MAX_TEXT, MAX_TEXT if s.name in adopting else "")
        for s in config.streams
    }
    try:
        status = len(Status("online", MAX_NAME, births).encode())
    except ValueError:  # beyond the limit of a status
        status = STATUS_LIMIT_BYTES
    topic = len(f"{PREFIX}/{config.fleet}/{MAX_NAME}/release/{MAX_NAME}")
    scales = SCALES_LIMIT_BYTES if adopting else 0
    asks = MAX_ASK_BYTES if config.keepers else 0
    largest = (
        max(Rules.of(config).largest + ENVELOPE_BYTES, status, scales, asks) + topic + AROUND_BYTES
    )
    if (home := config.collector.home_assistant) is not None:
        announced = payloads.message(config.fleet, MAX_NAME, MAX_NAME)
        discovery_topic = payloads.topic(home.prefix, config.fleet, MAX_NAME)
        largest = max(largest, len(announced) + len(discovery_topic) + AROUND_BYTES)
    return -(-largest // UNIT_BYTES) * UNIT_BYTES


def _writes(stream: Stream, device: str) -> bool:
    """True if the line of a device, or of all devices, includes the stream.

    A line of all devices has no patterns. So it includes streams with patterns, and the collector
    rejects them from other devices.
    """
    if device == EACH:
        return stream.devices is None or has_wildcard(stream.devices)
    return is_sent_by(stream.devices, device)


def _of_named(config: Config, root: str) -> Iterator[str]:
    """The streams with a list of device names, for the users of these names."""
    named = [s for s in config.streams if s.devices and not has_wildcard(s.devices)]
    for device in sorted({name for stream in named for name in stream.devices or ()}):
        yield f"\nuser {device}\n"
        own = [stream for stream in named if _writes(stream, device)]
        for stream in own:
            yield f"topic write {root}/{device}/release/{stream.name}\n"
        for name in _adopting(own):
            yield f"topic read {topics.scale(config.fleet, name)}\n"


def _adopting(streams: Iterable[Stream]) -> list[str]:
    """The streams whose devices adopt published scales."""
    return [s.name for s in streams if isinstance(s, ReadingStream) and s.scales]


def _own(streams: Iterable[Stream]) -> list[tuple[str, str]]:
    """The access of a device below its own name."""
    releases = [("write", f"release/{stream.name}") for stream in streams]
    reads = [("read", "ack"), ("read", "mark"), ("readwrite", "probe")]
    return [("write", "status"), ("write", "health"), *releases, *reads]
