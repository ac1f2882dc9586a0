"""A summary of a blinded stream: adversary, keepers, noise of answers, limits, and bytes of
releases.

No reading changes these bytes.
"""

from collections.abc import Iterator
from math import sqrt

from pansketch import WindowId
from pansketch.blinding import keeper_id, most_windows
from pansketch.privacy import MICRO
from pansketch.sketches import LinearSpec
from pansketch.wire import blinded_nbytes
from pansketch_fleet.protocol.keeper_messages import ask_load
from pansketch_fleet.settings.settings import AnswerLevel, BlindedSettings, ReadingStream, Stream
from pansketch_fleet.units import duration_text, number_text

MAX_EPOCHS = 4096  # of one window: those of the schedule, and announced intrusions
LONGEST_NAME = "x" * 64
INCARNATION = bytes(8)
RECENT = 1 << 31  # Unix seconds, in as many bytes as those of the years to 2106
LARGE_SEQUENCE = (1 << 32) - 1
NOT_AVAILABLE = (
    "answers about one device, robust merges, bounds on the counters of one device, published "
    "scales"
)
ADVERSARY = (
    "the collector, all traffic, snapshots of any devices at any time, and all keepers but one; "
    "it breaks neither X25519, BLAKE2b nor ChaCha20"
)


def epochs_of(blinded: BlindedSettings, window_seconds: int) -> int:
    """Return the epochs of a window, including its release, without announced intrusions."""
    return -(-window_seconds // blinded.epoch_seconds) + 1


def _nbytes(stream: Stream, device: str, sequence: int, epochs: int) -> int:
    assert stream.blinded is not None
    assert isinstance(stream.spec, LinearSpec)
    end = RECENT + stream.window_seconds
    label = WindowId(device, stream.name, sequence, RECENT, end, None, INCARNATION)
    return blinded_nbytes(stream.spec, label, len(stream.blinded.keys), epochs)


def release_nbytes(stream: Stream, device: str = LONGEST_NAME) -> int:
    """Return the bytes of a release: expected ones with local noise, exact ones of a blinded
    stream.

    A sequence number above 127 takes up to four more.
    """
    if stream.blinded is None:
        return stream.spec.release_nbytes
    return _nbytes(stream, device, 1, epochs_of(stream.blinded, stream.window_seconds))


def max_release_nbytes(stream: Stream) -> int:
    """Return a bound in bytes for every honest release of one window, on any device."""
    if stream.blinded is None:
        return stream.spec.max_release_nbytes
    return _nbytes(stream, LONGEST_NAME, LARGE_SEQUENCE, MAX_EPOCHS)


def release_text(stream: Stream, device: str) -> str:
    """Return the size of a release on the wire, in words."""
    if stream.blinded is None:
        expected, most = stream.spec.release_nbytes, stream.spec.max_release_nbytes
        return f"about {expected} bytes, never more than {most}"
    exact = release_nbytes(stream, device)
    return (
        f"{exact} bytes with every epoch of a window, 32 for each; up to 4 more for a sequence "
        "number above 127, and 32 more for each announced intrusion or epoch that a clock repeats"
    )


def blinded_facts(stream: Stream, blinded: BlindedSettings) -> Iterator[tuple[str, str]]:
    """Yield questions about a blinded stream, and their answers in sentences."""
    guarantee, keepers = stream.spec.guarantee, len(blinded.keys)
    yield "adversary", ADVERSARY
    yield (
        "guarantee",
        f"epsilon {number_text(guarantee.epsilon)} for all answers, releases and snapshots "
        "together; two snapshots of one epoch show what arrived between them",
    )
    yield (
        "keepers",
        "; ".join(
            f"{name} (key id {keeper_id(key).hex()})"
            for name, key in zip(blinded.keepers, blinded.keys, strict=True)
        ),
    )
    yield "all keepers", _collusion(guarantee.local_micro)
    yield "a lost keeper", "its windows without an answer have none; name another keeper"
    number = epochs_of(blinded, stream.window_seconds)
    yield (
        "epoch",
        f"{duration_text(blinded.epoch_seconds)}: masks are added {number} times in a window, the "
        "last time at its release",
    )
    for level in blinded.levels:
        deviation = sqrt(2 * keepers) * max(_scales(stream)) / float(level.share)
        local = ", and that of the devices" if guarantee.local_micro else ""
        yield (
            f"answer {level.name}",
            f"share {level.share} of epsilon: one sum over all devices, with {keepers} draws in "
            f"each counter, a standard deviation of {deviation:.3g} at most{local}"
            f"{_parts(stream, blinded, level)}",
        )
    yield "lateness", f"{duration_text(blinded.lateness_seconds)}; a later release is in the next"
    yield "not available", NOT_AVAILABLE


def _parts(stream: Stream, blinded: BlindedSettings, level: AnswerLevel) -> str:
    """Return the number of sums of an answer, if one sum cannot list all its windows."""
    assert isinstance(stream, ReadingStream)
    assert isinstance(stream.spec, LinearSpec)
    devices, window = stream.expected.devices, stream.window_seconds
    wanted = devices * (level.every_seconds // window)
    fit = most_windows(
        stream.spec, level.share, len(blinded.keys), stream.most_readings, max(1, wanted)
    )
    names = len(LONGEST_NAME) + len(stream.name)
    load = ask_load(stream.spec, names, epochs_of(blinded, window))
    most = max(1, min(fit, int(1 / load)))
    if most >= wanted:
        return ""
    return (
        f"; {wanted} windows of {devices} devices come in {-(-wanted // most)} such sums, of "
        f"{most} windows at most"
    )


def _scales(stream: Stream) -> list[float]:
    assert isinstance(stream.spec, LinearSpec)
    return [float(scale) for scale in stream.spec.scales]


def _collusion(local_micro: int) -> str:
    if local_micro:
        return f"with the collector learn a reading with epsilon {number_text(local_micro / MICRO)}"
    return "with the collector read every counter; local_epsilon bounds that"
