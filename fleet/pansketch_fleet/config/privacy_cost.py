"""What a unit pays, and what that makes in a day, at several devices and in several streams: the
one place where it is counted and said, for `pansketch-agent validate` and for the collector's page.

In one stream of one device a unit pays epsilon as a whole, once: a reading in its one window, a
span over all windows it touches, a key in each window that it is in. How many spans or windows a
day has is public. Each device and each stream has noise of its own, and whoever holds their
releases, as the collector and the broker do, has all of them. So what a unit pays adds up.

A record that several streams take pays in each of them, and so does a record of a stream with
several sketches, each of which is a stream. What a configuration cannot show, such as two programs
that print one sensor's values, is not found here.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pansketch import Guarantee, Span
from pansketch.privacy import MICRO
from pansketch_fleet.sections.sources.mqtt_topic import overlap
from pansketch_fleet.sections.time_slots import slots_text
from pansketch_fleet.settings.settings import KeyStream, Stream
from pansketch_fleet.settings.sources import (
    ExecSource,
    MetricSeries,
    MetricsSource,
    ModbusSource,
    MqttSource,
    ReplaySource,
    SensorSource,
    SystemSource,
)
from pansketch_fleet.units import duration_text

WEAK_MICRO = 10 * MICRO


def weakness(stream: Stream, streams: Iterable[Stream]) -> str | None:
    """A warning where epsilon hides next to nothing of a reading; None elsewhere.

    Args:
        stream: any part of a section; its sketches are taken together.
        streams: all streams of the configuration.

    Returns:
        One line, for `validate` and the log at a start.
    """
    parts = [each for each in streams if each.section == stream.section]
    micro = sum(each.plan.privacy.epsilon_micro for each in parts)
    if micro <= WEAK_MICRO:
        return None
    at_most = epsilon_text(WEAK_MICRO)
    return f"epsilon {epsilon_text(micro)} hides next to nothing; write {at_most} or less"


def sharing(stream: Stream, streams: Iterable[Stream]) -> tuple[Stream, ...]:
    """The other streams that may take a record of this one, in the order of `streams`."""
    return tuple(each for each in streams if each.name != stream.name and _share(stream, each))


def _share(one: Stream, other: Stream) -> bool:
    if one.section == other.section:
        return True
    match one.source, other.source:
        case ReplaySource(path=first), ReplaySource(path=second):
            return first.resolve() == second.resolve()
        case ExecSource(command=first), ExecSource(command=second):
            return first == second
        case MqttSource() as first, MqttSource() as second:
            same = _address(first) == _address(second)
            return same and overlap(first.topic, second.topic)
        case MetricsSource() as first, MetricsSource() as second:
            same = _page(first) == _page(second)
            return same and any(
                may_be_one(one, other)
                for one in first.metrics.values()
                for other in second.metrics.values()
            )
        case ModbusSource() as first, ModbusSource() as second:
            same = first.url == second.url
            return same and not _addresses(first).isdisjoint(_addresses(second))
        case SystemSource(), SystemSource():
            return not set(one.names).isdisjoint(other.names)
        case SensorSource() as first, SensorSource() as second:
            return first.kind == second.kind and not _places(first).isdisjoint(_places(second))
    return False


def _address(source: MqttSource) -> tuple[str, int]:
    host = source.broker.host.lower()
    return ("localhost" if host in ("127.0.0.1", "::1") else host), source.broker.port


def _page(source: MetricsSource) -> tuple[str, int]:
    """Its server: two of its pages may show one series."""
    host = source.address.host.lower()
    return ("localhost" if host in ("127.0.0.1", "::1") else host), source.address.port


def may_be_one(one: MetricSeries, other: MetricSeries) -> bool:
    """Whether a series may fit both."""
    common = one.labels.keys() & other.labels.keys()
    return one.metric == other.metric and all(one.labels[k] == other.labels[k] for k in common)


def _addresses(source: ModbusSource) -> set[str]:
    return {str(register) for register in source.registers.values()}


def _places(source: SensorSource) -> set[str]:
    # `-` and `_` are alike in the kernel's names.
    return {place.replace("_", "-") for place in source.sensors.values()}


DAY_SECONDS = 86400


def times_a_day(guarantee: Guarantee, window_seconds: int) -> int | None:
    """How often one source or key pays in 24 hours, at most: in each span, of which so many cover
    any 24 hours, or in each window that ends within them. None where readings pay one by one."""
    if guarantee.unit == "reading":
        return None
    each = guarantee.unit.seconds if isinstance(guarantee.unit, Span) else window_seconds
    return -(-DAY_SECONDS // each)


def day_micro(guarantee: Guarantee, window_seconds: int, devices: int = 1) -> int | None:
    """Micro-epsilon that one source, or one key at so many devices, pays in 24 hours, at most; None
    as above."""
    times = times_a_day(guarantee, window_seconds)
    return None if times is None else times * devices * guarantee.epsilon_micro


def costs(
    guarantee: Guarantee, window_seconds: int, devices: int | None = None
) -> Iterator[tuple[str, str]]:
    """What somebody may ask the price of, and a sentence with it, for one stream. `devices`: how
    many of them one key may be seen by, None where nobody has said."""
    whole, reading = epsilon_text(guarantee.epsilon_micro), epsilon_text(guarantee.reading_micro)
    if guarantee.unit == "key":
        yield "an appearance", f"spends no more: all in one window, on one device, spend {whole}"
        yield (
            "a key",
            f"spends {whole} in each window on each device that it appears on: w windows on d "
            f"devices cost w x d x {whole}",
        )
        if devices is not None and devices > 1:
            total = epsilon_text(devices * guarantee.epsilon_micro)
            yield (
                _at(devices),
                f"a key spends {total} in a window ({devices} x {whole}); the "
                "collector and the broker hold all of these releases",
            )
        yield "a day", _day(guarantee, window_seconds, "a key", "window", devices)
        return
    yield "a reading", f"spends {reading}: it is in one window of this stream only"
    if isinstance(guarantee.unit, Span):
        yield "a span", f"spends {whole} as a whole, over all windows it touches"
        yield "a day", _day(guarantee, window_seconds, "a source", "span", None)
        return
    yield (
        "a day",
        f"{whole} for each reading in it: n readings of one source spend n x {whole}",
    )


def _at(devices: int | None) -> str:
    return "on one device" if devices in (None, 1) else f"at {devices} devices"


def _day(
    guarantee: Guarantee, window_seconds: int, who: str, where: str, devices: int | None
) -> str:
    times = times_a_day(guarantee, window_seconds)
    micro = day_micro(guarantee, window_seconds, devices or 1)
    assert times is not None
    assert micro is not None
    seconds = guarantee.unit.seconds if isinstance(guarantee.unit, Span) else window_seconds
    so_many = f"{times} {where}{'' if times == 1 else 's'} of {duration_text(seconds)}"
    if guarantee.unit == "key":
        where += f" {_at(devices)}"
    return f"{epsilon_text(micro)} at most, for {who} in every {where} ({so_many})"


@dataclass(frozen=True)
class SharedCost:
    """A stream beside the others that take records of its source. All in micro-epsilon, at most.

    `record_micro`: what one record pays that all of them take. `unit_micro`: what a unit of the
    stream pays in all of them, on one device. `day_micro`: what a source, or a key on one device,
    pays in 24 hours. None where it is what each record pays, added up.
    """

    stream: Stream
    others: tuple[Stream, ...]
    record_micro: int
    unit_micro: int | None
    day_micro: int | None

    def __str__(self) -> str:
        streams = [self.stream.name, *(each.name for each in self.others)]
        listed = f"{', '.join(streams[:-1])} and {streams[-1]}"
        return f"{epsilon_text(self.record_micro)} for one record in {listed} together"

    def as_object(self) -> dict[str, object]:
        """For programs, in epsilon."""
        return {
            "streams": [each.name for each in self.others],
            "record_epsilon": self.record_micro / MICRO,
            "unit_epsilon": None if self.unit_micro is None else self.unit_micro / MICRO,
            "day_epsilon": None if self.day_micro is None else self.day_micro / MICRO,
        }


def shared(stream: Stream, streams: Sequence[Stream]) -> SharedCost | None:
    """What is paid in all streams that take records of one source; None where no other does."""
    others = sharing(stream, streams)
    if not others:
        return None
    paid = (stream, *others)
    return SharedCost(
        stream,
        others,
        sum(map(_record_micro, paid)),
        _sum([stream.spec.guarantee.epsilon_micro, *(_beside(stream, each) for each in others)]),
        _sum([_day_beside(stream, each) for each in paid]),
    )


def all_costs(stream: Stream, streams: Sequence[Stream]) -> Iterator[tuple[str, str]]:
    """`costs` of a stream, how long its slots keep a fact about a reading, and what its records pay
    beside that in other streams of one source."""
    yield from costs(stream.spec.guarantee, stream.window_seconds, stream.devices_per_key)
    slot = slots_text(stream)
    if slot is not None:
        yield "a slot", slot
    found = shared(stream, streams)
    if found is None:
        return
    names = " and ".join(each.name for each in found.others)
    parts = " + ".join(epsilon_text(_record_micro(each)) for each in (stream, *found.others))
    record = f"one record that all absorb spends {epsilon_text(found.record_micro)} ({parts})"
    unit = _UNITS.get(str(stream.spec.guarantee.unit), "a span")
    if unit != "a reading":
        record += (
            f", and each record of {unit}spends epsilon there as well"
            if found.unit_micro is None
            else f", and {unit} {epsilon_text(found.unit_micro)}"
            + (" in a window, on one device" if unit == "a key" else "")
        )
    yield f"with {names}", f"of the same source: {record}"
    if found.day_micro is not None:
        day = epsilon_text(found.day_micro * (stream.devices_per_key or 1))
        yield f"a day with {names}", f"{day} at most in all of them together"


_UNITS = {"reading": "a reading", "key": "a key"}


def _record_micro(stream: Stream) -> int:
    """One reading, or one appearance of a key: which may be the first of its window."""
    guarantee = stream.spec.guarantee
    return guarantee.epsilon_micro if guarantee.unit == "key" else guarantee.reading_micro


def _beside(stream: Stream, other: Stream) -> int | None:
    """What a unit of `stream` pays in `other`, at most."""
    unit, there = stream.spec.guarantee.unit, other.spec.guarantee
    if unit == "reading":
        return _record_micro(other)
    seconds = unit.seconds if isinstance(unit, Span) else stream.window_seconds
    if isinstance(there.unit, Span):
        return -(-seconds // there.unit.seconds) * there.epsilon_micro
    if isinstance(stream, KeyStream) and isinstance(other, KeyStream) and stream.key == other.key:
        same = stream.window_seconds == other.window_seconds
        windows = 1 if same else -(-seconds // other.window_seconds) + 1
        return windows * there.epsilon_micro
    return None


def _day_beside(stream: Stream, each: Stream) -> int | None:
    """What 24 hours of a source, or of a key, cost in a stream that takes its records."""
    if isinstance(each, KeyStream) and not (
        isinstance(stream, KeyStream) and each.key == stream.key
    ):
        return None
    return day_micro(each.spec.guarantee, each.window_seconds)


def _sum(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def epsilon_text(micro: int) -> str:
    """Micro-epsilon as epsilon, without rounding what a budget may be."""
    return f"{micro / MICRO:.9g}"
