"""Streams, devices, releases and the last audit as JSON objects; lists come in pages."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pansketch import Attribute, Guarantee, Span, __version__
from pansketch.privacy import MICRO
from pansketch_collector.errors import wrong
from pansketch_collector.http.endpoints.caches import Count
from pansketch_collector.queries.generator_registry import DISTINCT, GENERATORS
from pansketch_collector.queries.selection import check_devices
from pansketch_collector.reports import devices
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.holdings import Holding
from pansketch_collector.storage.tables.records import Cursor, ReleaseSummary, Selection
from pansketch_fleet.config.privacy_cost import all_costs, day_micro, shared, times_a_day
from pansketch_fleet.config.programs import Config
from pansketch_fleet.protocol.audit_record import LIMIT_BYTES, AuditRecord
from pansketch_fleet.settings.settings import KeyStream, Stream
from pansketch_fleet.units import utc_text


def stream_object(stream: Stream, count: Count) -> dict[str, Any]:
    """What the configuration says of a stream, and what is stored of it."""
    held = [h for found in count.found.held.values() for h in found if h.stream == stream.name]
    generators = [n for n, each in GENERATORS.items() if each.family == stream.spec.family]
    questions = {q for name in generators for q in GENERATORS[name].questions}
    if "count" in questions:
        questions |= {"histogram", "density"}
    return {
        "stream": stream.name,
        "holds": "keys" if isinstance(stream, KeyStream) else "readings",
        "sketch": stream.spec.family,
        "window_seconds": stream.window_seconds,
        "attributes": []
        if isinstance(stream, KeyStream)
        else list(map(_attribute, stream.domain.attributes)),
        "generators": generators,
        "questions": [DISTINCT] if isinstance(stream, KeyStream) else sorted(questions),
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
        "rolled_back": sum(h.rolled_back for h in held),
        "first_window": utc_text(min(h.first_start for h in held)) if held else None,
        "last_window": utc_text(max(h.last_end for h in held)) if held else None,
    }


def _attribute(attribute: Attribute) -> dict[str, Any]:
    found: dict[str, Any] = {"name": attribute.name, "unit": attribute.unit}
    atoms = {"atoms": list(attribute.atoms)} if attribute.atoms else {}
    if attribute.categories is not None:
        return found | {"categories": list(attribute.categories)} | atoms
    if attribute.constant is not None:
        return found | {"constant": attribute.constant}
    return (
        found
        | {
            "low": attribute.low,
            "high": attribute.high,
            "scale": attribute.scale,
            "step": attribute.step,
            "cyclic": attribute.cyclic,
        }
        | atoms
    )


def guarantee_object(config: Config, stream: Stream, devices: int) -> dict[str, Any]:
    """What every release of the stream promises: epsilon as numbers, the rest in sentences; and
    what is paid beside it, at several devices and in other streams. `devices`: so many released."""
    promise: Guarantee = stream.spec.guarantee
    others = shared(stream, config.streams)
    prices = all_costs(stream, config.streams)
    return {
        "stream": stream.name,
        "unit": _unit(promise),
        "neighbours": "add or remove one unit",
        "intrusion": promise.intrusion,
        "epsilon": promise.epsilon,
        "epsilon_state": promise.state_micro / MICRO,
        "epsilon_release": promise.release_micro / MICRO,
        "day": _day(stream),
        "devices_per_key": stream.devices_per_key,
        "fleet": _fleet(promise, devices),
        "shared": None if others is None else others.as_object(),
        "costs": [{"of": of, "says": says} for of, says in prices],
        "delta": promise.delta,
        "window_seconds": stream.window_seconds,
        "sentence": str(promise),
    }


def _day(stream: Stream) -> dict[str, Any] | None:
    promise, devices = stream.spec.guarantee, stream.devices_per_key or 1
    micro = day_micro(promise, stream.window_seconds, devices)
    if micro is None:
        return None
    times = times_a_day(promise, stream.window_seconds)
    return {"times": times, "devices": devices, "epsilon": micro / MICRO}


def _fleet(promise: Guarantee, devices: int) -> dict[str, Any] | None:
    """What a key pays in a window that every device with a stored release has seen."""
    if promise.unit != "key" or not devices:
        return None
    return {"devices": devices, "epsilon": devices * promise.epsilon_micro / MICRO}


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
        **devices.fleet_object(count.found),
    }


def release_part(
    reader: Reader, selection: Selection, after: str | None, limit: int
) -> dict[str, Any]:
    """Stored releases without their payloads. Raises CommandError for an `after` that is none."""
    check_devices(reader, selection)
    found = reader.listed(selection, None if after is None else _cursor(after), limit + 1)
    part = found[:limit]
    last = ",".join(map(str, part[-1].cursor)) if len(found) > limit else None
    return {"releases": list(map(_release, part)), "next": last}


def _cursor(text: str) -> Cursor:
    start, _, rest = text.partition(",")
    device, _, sequence = rest.rpartition(",")
    for number in (start, sequence):
        if not (number.isascii() and number.isdigit() and len(number) <= 18):
            raise wrong("after must be the `next` of a part: leave it out, or copy that")
    return int(start), device, int(sequence)


def _release(listed: ReleaseSummary) -> dict[str, Any]:
    return {
        "device": listed.device,
        "stream": listed.stream,
        "sequence": listed.sequence,
        "window": {"from": utc_text(listed.start), "to": utc_text(listed.end)},
        "received_at": utc_text(listed.received_at),
        "clock_synchronised": listed.clock_synchronised,
        "incarnation": listed.incarnation.hex(),
        "fingerprint": listed.fingerprint.hex(),
        "digest": listed.digest,
        "payload_bytes": listed.payload_bytes,
    }


AGAIN = "make it again with pansketch audit --record"


def audit_object(path: Path | None, sources: str) -> dict[str, Any]:
    """`audit`: the record, None where there is none, or none that can be used; `problem` then says
    why. `sources`: the digest of this collector's own."""
    found: AuditRecord | None = None
    problem: str | None = None
    if path is not None:
        try:
            found = _read(path)
        except OSError as error:
            problem = f"the file of collector.audit cannot be read ({error.strerror}): {AGAIN}"
        except ValueError as error:
            problem = f"the file of collector.audit is damaged ({error}): {AGAIN}"
    return {
        "audit": None if found is None else found.as_object(),
        "problem": problem,
        "version": __version__,
        "sources": sources,
    }


def _read(path: Path) -> AuditRecord | None:
    if path.exists() and not path.is_file():
        raise ValueError("it is no file")  # To open a pipe would be to wait for its writer.
    try:
        with path.open("rb") as file:
            return AuditRecord.decode(file.read(LIMIT_BYTES + 1))
    except FileNotFoundError:
        return None
