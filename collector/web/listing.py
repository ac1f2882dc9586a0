"""Streams, devices and releases as objects, part by part."""

from collections.abc import Sequence
from typing import Any

from collector import devices
from collector.failure import wrong
from collector.families import DISTINCT
from collector.generators import GENERATORS
from collector.reader import Holding, Listed, Place, Reader, Selection
from collector.selection import check_devices, iso
from collector.web.census import Count
from fleet.costs import costs, day_micro, times_a_day
from fleet.privacy import MICRO
from fleet.settings import Stream
from pansketch import Attribute, Guarantee, Span


def stream_object(stream: Stream, count: Count) -> dict[str, Any]:
    """What the configuration says of a stream, and what is stored of it."""
    held = [h for found in count.found.held.values() for h in found if h.stream == stream.name]
    generators = [n for n, each in GENERATORS.items() if each.family == stream.spec.family]
    questions = {q for name in generators for q in GENERATORS[name].questions}
    if "count" in questions:
        questions |= {"histogram", "density"}
    return {
        "stream": stream.name,
        "holds": "keys" if stream.key is not None else "readings",
        "sketch": stream.spec.family,
        "window_seconds": stream.window_seconds,
        "attributes": []
        if stream.domain is None
        else list(map(_attribute, stream.domain.attributes)),
        "generators": generators,
        "questions": sorted(questions) if stream.key is None else [DISTINCT],
        "guarantee": str(stream.spec.guarantee),
        "stored": _stored(held),
    }


def _stored(held: Sequence[Holding]) -> dict[str, Any]:
    return {
        "releases": sum(h.windows for h in held),
        "devices": len(held),
        "gaps": sum(h.gaps for h in held),
        "late": sum(h.late for h in held),
        "disputed": sum(h.disputed for h in held),
        "first_window": iso(min(h.first_start for h in held)) if held else None,
        "last_window": iso(max(h.last_end for h in held)) if held else None,
    }


def _attribute(attribute: Attribute) -> dict[str, Any]:
    found: dict[str, Any] = {"name": attribute.name, "unit": attribute.unit}
    if attribute.categories is not None:
        return found | {"categories": list(attribute.categories)}
    if attribute.constant is not None:
        return found | {"constant": attribute.constant}
    return found | {
        "low": attribute.low,
        "high": attribute.high,
        "scale": attribute.scale,
        "step": attribute.step,
        "cyclic": attribute.cyclic,
    }


def guarantee_object(stream: Stream) -> dict[str, Any]:
    """What every release of the stream promises: epsilon as numbers, the rest in sentences."""
    promise: Guarantee = stream.spec.guarantee
    prices = costs(promise, stream.window_seconds)
    return {
        "stream": stream.name,
        "unit": _unit(promise),
        "neighbours": "add or remove one unit",
        "intrusion": promise.intrusion,
        "epsilon": promise.epsilon,
        "epsilon_state": promise.state_micro / MICRO,
        "epsilon_release": promise.release_micro / MICRO,
        "day": _day(promise, stream.window_seconds),
        "costs": [{"of": of, "says": says} for of, says in prices],
        "delta": promise.delta,
        "window_seconds": stream.window_seconds,
        "sentence": str(promise),
    }


def _day(promise: Guarantee, window_seconds: int) -> dict[str, Any] | None:
    micro = day_micro(promise, window_seconds)
    if micro is None:
        return None
    return {"times": times_a_day(promise, window_seconds), "epsilon": micro / MICRO}


def _unit(promise: Guarantee) -> object:
    unit = promise.unit
    if isinstance(unit, Span):
        return {"span": {"seconds": unit.seconds, "max_readings": unit.max_readings}}
    return unit


def device_part(count: Count, after: str | None, limit: int) -> dict[str, Any]:
    """The devices whose names come after one, and what was refused of all."""
    names = [name for name in count.found.devices if after is None or name > after]
    part = names[:limit]
    return {
        "total": len(count.found.devices),
        "devices": [devices.as_object(count.found, name) for name in part],
        "next": part[-1] if len(names) > limit else None,
        "quarantine": count.found.refusals,
    }


def release_part(
    reader: Reader, selection: Selection, after: str | None, limit: int
) -> dict[str, Any]:
    """Stored releases without their payloads. Raises CommandError for an `after` that is none."""
    check_devices(reader, selection)
    found = reader.listed(selection, None if after is None else _place(after), limit + 1)
    part = found[:limit]
    last = ",".join(map(str, part[-1].place)) if len(found) > limit else None
    return {"releases": list(map(_release, part)), "next": last}


def _place(text: str) -> Place:
    start, _, rest = text.partition(",")
    device, _, sequence = rest.rpartition(",")
    for number in (start, sequence):
        if not (number.isascii() and number.isdigit() and len(number) <= 18):
            raise wrong("after is not the `next` of a part: leave it out, or write that")
    return int(start), device, int(sequence)


def _release(listed: Listed) -> dict[str, Any]:
    return {
        "device": listed.device,
        "stream": listed.stream,
        "sequence": listed.sequence,
        "window": {"from": iso(listed.start), "to": iso(listed.end)},
        "received_at": iso(listed.received_at),
        "clock_synchronised": listed.clock_synchronised,
        "fingerprint": listed.fingerprint.hex(),
        "digest": listed.digest,
        "payload_bytes": listed.payload_bytes,
    }
