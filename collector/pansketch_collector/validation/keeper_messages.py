"""Checks of what belongs to masked counters: blinded releases, and the messages of keepers.

Masked counters are uniform, whatever they counted: there is nothing to bound. What can be checked
is the form, and that the keepers are known whose answers undo the masks.
"""

from collections.abc import Mapping

from pansketch import Spec
from pansketch.blinding import keeper_id
from pansketch.sketches import LinearSpec
from pansketch.wire import BlindedHeader, decode_blinded
from pansketch_collector.validation.verdicts import KeeperPresence, KeeperReply, Refused
from pansketch_collector.validation.window_labels import MismatchError
from pansketch_fleet.config.programs import Config
from pansketch_fleet.protocol.keeper_messages import Reply
from pansketch_fleet.protocol.messages import Status
from pansketch_fleet.protocol.topics import Topic


def keeper_names(config: Config) -> dict[bytes, str]:
    """The keepers by the id of each key that they have, or had before a rotation."""
    return {
        keeper_id(key): name
        for name, keys in config.keepers.items()
        for key in (keys.key, *keys.previous)
    }


def check_masks(
    payload: bytes, spec: Spec, header: BlindedHeader, names: Mapping[bytes, str]
) -> None:
    """Raises WireError, or MismatchError where no answers of known keepers undo the masks."""
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


def judge_keeper(
    place: Topic, payload: bytes, names: Mapping[bytes, str]
) -> KeeperPresence | KeeperReply | Refused:
    """A message on the topic of a keeper."""
    keeper = place.device
    if keeper not in names.values():
        return Refused("topic", f"of a keeper {keeper} that the configuration does not name")
    try:
        if place.kind == "keeper-status":
            return KeeperPresence(keeper, Status.decode(payload))
        return KeeperReply(keeper, Reply.decode(payload))
    except Exception:  # a message that raised would be delivered again for ever
        return Refused("keeper", f"not a message of this version of keeper {keeper}")
