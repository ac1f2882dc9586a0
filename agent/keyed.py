"""What `validate` and `check` say of a stream of keys: its sizes, and what a key pays."""

from collections.abc import Iterator

from agent.finding import Finding
from fleet.costs import costs, day_micro, epsilon_text
from fleet.settings import Stream
from pansketch import DistinctSpec, NoEstimate


def sizes(stream: Stream) -> Iterator[tuple[str, str]]:
    """What is tracked, and how good the answers of one device will be."""
    spec = stream.spec
    assert isinstance(spec, DistinctSpec)
    known = "any text" if spec.universe is None else f"the numbers 0 to {spec.universe - 1}"
    yield "key", f"{stream.key} ({known})"
    yield "tracked", f"{spec.tracked} of {spec.slots} slots, a bit each (level {spec.level})"
    yield "planned error", _planned(spec)


def _planned(spec: DistinctSpec) -> str:
    """At the expected number of keys; of a universe, at half of it, where it is largest."""
    keys = spec.expected_keys or (spec.universe or 0) // 2
    try:
        return f"± {spec.planned_error(keys):.2g} keys (standard error) for {keys} on one device"
    except NoEstimate as error:
        return f"none can be given for {keys} keys: {error}"


def promises(stream: Stream) -> Iterator[tuple[str, str]]:
    """What a key pays, as `Guarantee` has it: state and output add up, and so do windows."""
    guarantee = stream.spec.guarantee
    each = epsilon_text(guarantee.epsilon_micro)
    yield "unit", "one key: all that bears it in a window, added or removed"
    yield "epsilon", f"{each} per key per window: {_shares(stream)}"
    if guarantee.intrusion == "silent":
        yield "a silent snapshot", f"is paid for: snapshot and release jointly cost {each}"
    else:
        yield "a silent snapshot", "is not covered when the device publishes again afterwards"
    yield from costs(guarantee, stream.window_seconds)
    yield "an announced intrusion", "freezes the sketch: no more keys until its window ends"


def finding(stream: Stream) -> Finding:
    """What a key pays, in one line of `check`."""
    guarantee = stream.spec.guarantee
    each = epsilon_text(guarantee.epsilon_micro)
    whole = epsilon_text(day_micro(guarantee, stream.window_seconds) or 0)
    text = f"epsilon {each} per key per window ({_shares(stream)}), {whole} for a key all day long"
    return Finding(f"keys {stream.name}", "note", text)


def _shares(stream: Stream) -> str:
    guarantee = stream.spec.guarantee
    state, output = epsilon_text(guarantee.state_micro), epsilon_text(guarantee.release_micro)
    return f"state {state} + output {output}"
