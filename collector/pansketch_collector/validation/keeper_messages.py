"""Checks of blinded releases and of messages of keepers.

Masked counters are uniform for any input, so their values cannot be checked. These checks cover the
format, and that the configuration knows the keepers whose answers remove the masks.
"""

from collections.abc import Mapping

from pansketch import Spec
from pansketch.blinding import keeper_id
from pansketch.sketches import LinearSpec
from pansketch.wire import BlindedHeader, decode_blinded
from pansketch_collector.validation.verdicts import KeeperReply, KeeperStatus, Rejected
from pansketch_collector.validation.window_labels import MismatchError
from pansketch_fleet.config.programs import Config
from pansketch_fleet.protocol.keeper_messages import Reply
from pansketch_fleet.protocol.messages import Status
from pansketch_fleet.protocol.topics import Topic


def keeper_names(config: Config) -> dict[bytes, str]:
    """The keepers by the id of each of their keys, including keys before a rotation."""
    return {
        keeper_id(key): name
        for name, keys in config.keepers.items()
        for key in (keys.key, *keys.previous)
    }


def check_masks(
    payload: bytes, spec: Spec, header: BlindedHeader, names: Mapping[bytes, str]
) -> None:
    """Checks a blinded release. Raises WireError; MismatchError if no known keepers hold its
    masks."""
    sequence = header.window.sequence
    if not isinstance(spec, LinearSpec) or not spec.guarantee.answer_micro:
        raise MismatchError("malformed", "masked counters of a stream without masks", sequence)
    decode_blinded(payload, spec)
    found = [names.get(each) for each in header.keepers]
    if None in found:
        unknown = header.keepers[found.index(None)].hex()
        text = (
            f"its masks are those of a key {unknown}, which no keeper of the configuration has: "
            "add the key to keepers"
        )
        raise MismatchError("keepers", text, sequence)
    if len(set(found)) < len(found):
        raise MismatchError("keepers", "two of its masks are those of one keeper", sequence)


def validate_keeper(
    topic: Topic, payload: bytes, names: Mapping[bytes, str]
) -> KeeperStatus | KeeperReply | Rejected:
    """Validates a message on a keeper's topic."""
    keeper = topic.device
    if keeper not in names.values():
        return Rejected("topic", f"of a keeper {keeper} that the configuration does not name")
    try:
        if topic.kind == "keeper-status":
            return KeeperStatus(keeper, Status.decode(payload))
        return KeeperReply(keeper, Reply.decode(payload))
    except Exception:  # the broker would redeliver a message that raises for ever
        return Rejected("keeper", f"not a message of this version of keeper {keeper}")
