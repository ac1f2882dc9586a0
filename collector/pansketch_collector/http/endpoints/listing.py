"""Streams, devices, releases and the last audit as JSON objects; lists come in pages."""

from pathlib import Path
from typing import Any

from pansketch import Attribute, Guarantee, Span, __version__
from pansketch.privacy import MICRO
from pansketch_collector.errors import wrong
from pansketch_collector.queries.generator_registry import DISTINCT, GENERATORS
from pansketch_collector.queries.selection import check_devices
from pansketch_collector.reports import devices
from pansketch_collector.reports import fleet as fleets
from pansketch_collector.reports.fleet import Fleet
from pansketch_collector.storage import device_reports
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.holdings import StreamCounts
from pansketch_collector.storage.tables.records import Cursor, ReleaseSummary, Selection
from pansketch_fleet.config.privacy_cost import all_costs, day_micro, shared, times_a_day
from pansketch_fleet.config.programs import Config
from pansketch_fleet.protocol.audit_record import LIMIT_BYTES, AuditRecord
from pansketch_fleet.settings.settings import KeyStream, Stream
from pansketch_fleet.units import utc_text


def stream_object(stream: Stream, counts: StreamCounts | None) -> dict[str, Any]:
    """The configuration of a stream, and counts of its stored releases."""
    return {
        "stream": stream.name,
        "holds": "keys" if isinstance(stream, KeyStream) else "readings",
        "sketch": stream.spec.family,
        "window_seconds": stream.window_seconds,
        "attributes": []
        if isinstance(stream, KeyStream)
        else list(map(_attribute, stream.domain.attributes)),
        "generators": _generators(stream),
        "questions": known_questions(stream),
        "guarantee": str(stream.spec.guarantee),
        "stored": _stored(counts),
    }


def known_questions(stream: Stream) -> list[str]:
    """The questions that some generator of the stream's sketch answers, by name."""
    if isinstance(stream, KeyStream):
        return [DISTINCT]
    questions = {q for name in _generators(stream) for q in GENERATORS[name].questions}
    if "count" in questions:
        questions |= {"histogram", "density"}
    return sorted(questions)


def _generators(stream: Stream) -> list[str]:
    return [n for n, each in GENERATORS.items() if each.family == stream.spec.family]


def _stored(counts: StreamCounts | None) -> dict[str, Any]:
    return {
        "releases": 0 if counts is None else counts.windows,
        **{
            name: getattr(counts, name, 0)
            for name in ("devices", "gaps", "late", "disputed", "rolled_back")
        },
        "first_window": None if counts is None else utc_text(counts.first_start),
        "last_window": None if counts is None else utc_text(counts.newest),
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
    """The privacy guarantee of every release of the stream: epsilon as numbers, the rest in
    sentences.

    Also the epsilon spent at several devices and in other streams. `devices`: the number of devices
    with stored releases.
    """
    guarantee: Guarantee = stream.spec.guarantee
    others = shared(stream, config.streams)
    costs = all_costs(stream, config.streams)
    return {
        "stream": stream.name,
        "unit": _unit(guarantee),
        "neighbours": "add or remove one unit",
        "intrusion": guarantee.intrusion,
        "epsilon": guarantee.epsilon,
        "epsilon_state": guarantee.state_micro / MICRO,
        "epsilon_release": guarantee.release_micro / MICRO,
        "day": _day(stream),
        "devices_per_key": stream.devices_per_key,
        "fleet": _fleet(guarantee, devices),
        "shared": None if others is None else others.as_object(),
        "costs": [{"of": of, "says": sentence} for of, sentence in costs],
        "delta": guarantee.delta,
        "window_seconds": stream.window_seconds,
        "sentence": str(guarantee),
    }


def _day(stream: Stream) -> dict[str, Any] | None:
    guarantee, devices = stream.spec.guarantee, stream.devices_per_key or 1
    micro = day_micro(guarantee, stream.window_seconds, devices)
    if micro is None:
        return None
    times = times_a_day(guarantee, stream.window_seconds)
    return {"times": times, "devices": devices, "epsilon": micro / MICRO}


def _fleet(guarantee: Guarantee, devices: int) -> dict[str, Any] | None:
    """The epsilon that a key spends in a window that all devices with a stored release observe."""
    if guarantee.unit != "key" or not devices:
        return None
    return {"devices": devices, "epsilon": devices * guarantee.epsilon_micro / MICRO}


def _unit(guarantee: Guarantee) -> object:
    unit = guarantee.unit
    if isinstance(unit, Span):
        return {"span": {"seconds": unit.seconds, "max_readings": unit.max_readings}}
    return unit


def device_part(
    reader: Reader, config: Config, fleet: Fleet, after: str | None, limit: int
) -> dict[str, Any]:
    """A page of the devices after the name `after`, and the figures of all devices."""
    names = device_reports.names(reader.connection, after or "", limit + 1)
    found = devices.overview(reader, config, fleet, names[:limit])
    return {
        "total": fleet.devices,
        "devices": [devices.as_object(found, name) for name in found.devices],
        "next": names[limit - 1] if len(names) > limit else None,
        **fleets.as_object(fleet),
    }


def release_part(
    reader: Reader, selection: Selection, after: str | None, limit: int
) -> dict[str, Any]:
    """A page of stored releases without their payloads. Raises CommandError for an invalid
    `after`."""
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


RECORD_AGAIN = "make it again with pansketch audit --record"


def audit_object(path: Path | None, sources: str) -> dict[str, Any]:
    """`audit`: the record, None if absent or unusable; `problem` then has the reason.

    `sources`: the digest of this collector's sources.
    """
    found: AuditRecord | None = None
    problem: str | None = None
    if path is not None:
        try:
            found = _read(path)
        except OSError as error:
            problem = (
                f"the file of collector.audit cannot be read ({error.strerror}): {RECORD_AGAIN}"
            )
        except ValueError as error:
            problem = f"the file of collector.audit is damaged ({error}): {RECORD_AGAIN}"
    return {
        "audit": None if found is None else found.as_object(),
        "problem": problem,
        "version": __version__,
        "sources": sources,
    }


def _read(path: Path) -> AuditRecord | None:
    if path.exists() and not path.is_file():
        raise ValueError("it is no file")  # Opening a pipe would wait for its writer.
    try:
        with path.open("rb") as file:
            return AuditRecord.decode(file.read(LIMIT_BYTES + 1))
    except FileNotFoundError:
        return None
