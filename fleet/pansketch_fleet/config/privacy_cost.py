"""The privacy loss of a unit, and its sums over a day, several devices and several streams.

This is the only place that computes and explains them, for `pansketch-agent validate` and for the
collector's page.

In one stream of one device a unit spends epsilon once. The unit is a reading in its window, a span
over all windows it touches, or a key in each of its windows. The number of spans or windows of a
day is public. Devices and streams have independent noise, and the collector and the broker hold all
releases. So the losses of a unit add up.

A record of several streams, or of several sketches of one stream, spends epsilon in each of them.
This module cannot find overlaps outside of a configuration, such as two programs that print one
sensor's values.
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


def weak_epsilon_warning(stream: Stream, streams: Iterable[Stream]) -> str | None:
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


def streams_sharing_source(stream: Stream, streams: Iterable[Stream]) -> tuple[Stream, ...]:
    """Return the other streams that may have a record of this one, in the order of `streams`."""
    return tuple(each for each in streams if each.name != stream.name and _may_share(stream, each))


def _may_share(one: Stream, other: Stream) -> bool:
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
                may_overlap(one, other)
                for one in first.metrics.values()
                for other in second.metrics.values()
            )
        case ModbusSource() as first, ModbusSource() as second:
            same = first.url == second.url
            return same and not _addresses(first).isdisjoint(_addresses(second))
        case SystemSource(), SystemSource():
            return not set(one.names).isdisjoint(other.names)
        case SensorSource() as first, SensorSource() as second:
            return first.kind == second.kind and not _sensors(first).isdisjoint(_sensors(second))
    return False


def _address(source: MqttSource) -> tuple[str, int]:
    host = source.broker.host.lower()
    return ("localhost" if host in ("127.0.0.1", "::1") else host), source.broker.port


def _page(source: MetricsSource) -> tuple[str, int]:
    """Return the server of a page: two of its pages may show one series."""
    host = source.address.host.lower()
    return ("localhost" if host in ("127.0.0.1", "::1") else host), source.address.port


def may_overlap(one: MetricSeries, other: MetricSeries) -> bool:
    """Return whether a series may match both."""
    common = one.labels.keys() & other.labels.keys()
    return one.metric == other.metric and all(one.labels[k] == other.labels[k] for k in common)


def _addresses(source: ModbusSource) -> set[str]:
    return {str(register) for register in source.registers.values()}


def _sensors(source: SensorSource) -> set[str]:
    # `-` and `_` are alike in the kernel's names.
    return {place.replace("_", "-") for place in source.sensors.values()}


DAY_SECONDS = 86400


def times_a_day(guarantee: Guarantee, window_seconds: int) -> int | None:
    """Return how often one source or key spends epsilon in 24 hours, at most; None for readings."""
    if guarantee.unit == "reading":
        return None
    each = guarantee.unit.seconds if isinstance(guarantee.unit, Span) else window_seconds
    return -(-DAY_SECONDS // each)


def day_micro(guarantee: Guarantee, window_seconds: int, devices: int = 1) -> int | None:
    """Return the maximum micro-epsilon of a source, or of a key at `devices`, in 24 hours."""
    times = times_a_day(guarantee, window_seconds)
    return None if times is None else times * devices * guarantee.epsilon_micro


def costs(
    guarantee: Guarantee, window_seconds: int, devices: int | None = None
) -> Iterator[tuple[str, str]]:
    """Yield privacy costs of one stream: their names, and a sentence for each.

    `devices`: how many may see one key, None if that is not stated.
    """
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
    """The costs of a stream with the others of its source, at most, in micro-epsilon.

    `record_micro`: of one record in all of them. `unit_micro`: of a unit of the stream in all of
    them, on one device. `day_micro`: of a source, or of a key on one device, in 24 hours. None if
    each record spends separately.
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
        """Return the costs for programs, in epsilon."""
        return {
            "streams": [each.name for each in self.others],
            "record_epsilon": self.record_micro / MICRO,
            "unit_epsilon": None if self.unit_micro is None else self.unit_micro / MICRO,
            "day_epsilon": None if self.day_micro is None else self.day_micro / MICRO,
        }


def shared(stream: Stream, streams: Sequence[Stream]) -> SharedCost | None:
    """Return the costs over all streams of one source; None if there is no other stream."""
    others = streams_sharing_source(stream, streams)
    if not others:
        return None
    sharers = (stream, *others)
    return SharedCost(
        stream,
        others,
        sum(map(_record_micro, sharers)),
        _sum(
            [stream.spec.guarantee.epsilon_micro, *(_unit_cost_in(stream, each) for each in others)]
        ),
        _sum([_day_cost_in(stream, each) for each in sharers]),
    )


def all_costs(stream: Stream, streams: Sequence[Stream]) -> Iterator[tuple[str, str]]:
    """Yield the costs of a stream, its slots, and its costs with other streams of one source."""
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
            f", and each record of {unit} spends epsilon there as well"
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
    """Return the cost of one reading, or of a key's first event in its window."""
    guarantee = stream.spec.guarantee
    return guarantee.epsilon_micro if guarantee.unit == "key" else guarantee.reading_micro


def _unit_cost_in(stream: Stream, other: Stream) -> int | None:
    """Return the maximum cost of a unit of `stream` in `other`."""
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


def _day_cost_in(stream: Stream, each: Stream) -> int | None:
    """Return the cost of 24 hours of a source, or of a key, in a stream of its records."""
    if isinstance(each, KeyStream) and not (
        isinstance(stream, KeyStream) and each.key == stream.key
    ):
        return None
    return day_micro(each.spec.guarantee, each.window_seconds)


def _sum(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def epsilon_text(micro: int) -> str:
    """Return micro-epsilon as epsilon, without rounding a budget."""
    return f"{micro / MICRO:.9g}"
