"""Releases: the wire format, its Rice code, and the collector's judgement of a message."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pansketch import (
    Attribute,
    CellsSpec,
    DistinctSpec,
    Domain,
    HierarchySpec,
    MomentsSpec,
    Privacy,
    Release,
    Spec,
    WindowId,
    WireError,
    decode,
    decode_all,
    encode,
    peek,
)
from pansketch.randomness import digest
from pansketch.wire import CHECKSUM_BYTES, HEADER_BYTES, MAGIC
from pansketch.wire.counter_blocks import rice_decode, rice_encode
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.validation.validation import Rules, validate
from pansketch_collector.validation.verdicts import (
    Accepted,
    DeviceStatus,
    HealthReport,
    Rejected,
    Validated,
)
from pansketch_fleet.config.loader import load_collector
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Ack, Health, Status
from pansketch_fleet.protocol.messages import digest as payload_digest
from pansketch_fleet.settings.device_spec import schedule_offset, window_index
from testbed.fuzz.harness.target import EXAMPLE, Bound, Run, Target, golden, require

MAX_COUNTERS = 1 << 12
PLAIN = Domain([Attribute("temp", -40, 60), Attribute("pm25", 0, 1000, scale="log")])


@cache
def specs() -> tuple[Spec, ...]:
    """One small spec of each family and form."""
    domain = Domain([Attribute("temp", -40, 60), Attribute("wind", categories=("N", "E", "S"))])
    privacy, plain = Privacy(epsilon=1.0), PLAIN
    return (
        HierarchySpec(plain, privacy, depth=6, k=4, width=8, rows=2, fanout=2),
        CellsSpec(plain, privacy, depth=5, width=8, rows=2, hash_key=7),
        MomentsSpec(plain, privacy, features="rff", m=4, sigma=1.0, hash_key=7),
        MomentsSpec(domain, privacy, features="hist", bins=4, hash_key=7),
        DistinctSpec(privacy=Privacy(epsilon=2.0, unit="key"), expected_keys=60, memory=16),
        DistinctSpec(privacy=Privacy(epsilon=2.0, unit="key"), memory=16),
        DistinctSpec(
            privacy=Privacy(epsilon=2.0, unit="key"), universe=90, memory=16, release="bitmap"
        ),
    )


def made(spec: Spec, spread: int, windows: int = 1) -> Release:
    """A release with generated counters, the same at every call."""
    counters = np.random.default_rng(spread).integers(-spread, spread + 1, sum(spec.blocks))
    named = tuple(WindowId(f"dev-{n}", "air", n, 60 * n, 60 * n + 60) for n in range(windows))
    return Release(spec, named, 2 * windows, counters)


def own_seeds() -> list[bytes]:
    """Releases of all these specs, of few and of many digits, single and merged."""
    cases = [(spec, spread) for spec in specs() for spread in (0, 40, 1 << 33)]
    single = [encode(made(spec, spread)) for spec, spread in cases]
    return single + [encode(made(spec, 9, windows=3)) for spec in specs() if spec.additive]


def sealed(version: int, body: bytes) -> bytes:
    """A body behind a checksum that holds."""
    return MAGIC + bytes([version]) + digest(body, CHECKSUM_BYTES) + body


def _open_wire(_folder: Path) -> Run:
    return _decoded


def _open_body(_folder: Path) -> Run:
    """The first byte is the version, the rest the body: no input fails for its checksum."""
    return lambda data: _decoded(sealed(data[0], data[1:])) if data else None


def _decoded(data: bytes) -> None:
    header = peek(data)
    known = [spec for spec in specs() if spec.fingerprint == header.fingerprint]
    for spec in known or specs()[:1]:
        release = decode(data, spec)
        again = encode(release)
        require(again == data, "a release is encoded differently from what was decoded")
        require(peek(again).windows == header.windows, "windows come back changed")
        require(release.windows == header.windows, "a header that is not the release's")
        twice = decode_all([data, data], spec)
        same = all((one.counters == release.counters).all() for one in twice)
        require(same, "a release is decoded differently among others")


def body_of(data: bytes) -> bytes:
    """A release as the version and the body alone."""
    return data[len(MAGIC) : len(MAGIC) + 1] + data[HEADER_BYTES:]


def _bodies() -> list[bytes]:
    return [body_of(data) for data in own_seeds() + golden()]


def _open_rice(_folder: Path) -> Run:
    return _rice


def _rice(data: bytes) -> None:
    """Blocks of: low_bits, count, lengths of the two parts, and the parts."""
    codes, counts = [], []
    for low_bits, count, remainders, quotients in _blocks(data):
        codes.append((low_bits, remainders, quotients))
        counts.append(count)
    values = rice_decode(codes, counts)
    places = np.split(values, np.cumsum(counts)[:-1])
    again = [rice_encode(block) for block in places]
    require(again == codes, "integers are encoded differently from what was decoded")


def _blocks(data: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    at = 0
    while at + 7 <= len(data):
        low_bits = int.from_bytes(data[at : at + 1], "big", signed=True)
        count, first, second = (int.from_bytes(data[at + n : at + n + 2], "big") for n in (1, 3, 5))
        at += 7
        count %= MAX_COUNTERS
        yield low_bits, count, data[at : at + first], data[at + first : at + first + second]
        at += first + second


def coded(*blocks: Sequence[int]) -> bytes:
    """Blocks of integers as `_rice` takes them apart."""
    parts = []
    for block in blocks:
        low_bits, remainders, quotients = rice_encode(np.array(block, np.int64))
        numbers = (len(block), len(remainders), len(quotients))
        sizes = b"".join(number.to_bytes(2, "big") for number in numbers)
        parts.append(bytes([low_bits]) + sizes + remainders + quotients)
    return b"".join(parts)


def _rice_seeds() -> list[bytes]:
    cases = [[0, 0, 0], [7, -3, 900, -1], [1 << 40, -(1 << 41), 3 << 39]]
    return [coded(*cases), *(coded(block) for block in cases)]


def _open_integers(_folder: Path) -> Run:
    return _integers


def _integers(data: bytes) -> None:
    """Any integers of 61 bits go through the code unchanged."""
    values = np.frombuffer(data[: len(data) // 8 * 8], "<i8") >> 2
    # A unary part grows with the integers: those of one block are alike in size.
    values = values[:64] >> min(data[:1] + b"\x28")
    if len(values) and (np.abs(values) < 1 << 48).all():
        found = rice_decode([rice_encode(values)], [len(values)])
        require((found == values).all(), "integers come back changed")


def _open_inbox(_folder: Path) -> Run:
    rules = Rules.of(load_collector(EXAMPLE, {}))
    return lambda data: _judged(data, rules)


def _judged(data: bytes, rules: Rules) -> None:
    """A byte (whether to seal), a topic, a line end, a payload."""
    topic, _, payload = data[1:].partition(b"\n")
    if data[:1] == b"s":
        payload = sealed(payload[0], payload[1:]) if payload else b""
    name = topic.decode("utf-8", "replace")
    message = Incoming(name, payload, len(payload), payload_digest(payload), 0, 0, 0)
    alone, *others = validate([message], rules) + validate([message, message], rules)
    require(others == [alone, alone], "a message is judged differently among others")
    _check_outcome(alone, message)


def _check_outcome(outcome: Validated, message: Incoming) -> None:
    match outcome:
        case Accepted(window, _, _, payload):
            topic = topics.release("beijing-air", window.device, window.stream)
            require((topic, payload) == message[:2], "a release is accepted as another one")
        case DeviceStatus(_, status):
            require(Status.decode(status.encode()) == status, "a status comes back changed")
        case HealthReport(_, health):
            require(Health.decode(health.encode()) == health, "a health comes back changed")
        case Rejected(reason, text, device, stream, sequence):
            require(text.isprintable(), "a refusal that is not one printable line")
            if device is not None and stream is not None:
                Ack(stream, sequence, "0" * 32, "refused", f"{reason}: {text}"[:300]).encode()


def _inbox_seeds() -> list[bytes]:
    found: list[Any] = [b"snonsense/topic\n\x01\x95"]
    config = load_collector(EXAMPLE, {})
    for stream in config.streams:
        for spec in list(config.specs(stream).values())[:1]:
            seconds = stream.window_seconds
            start = 3 * seconds + schedule_offset("dongsi", seconds)
            window = WindowId("dongsi", stream.name, 3, start, start + seconds)
            own = spec.for_window(window_index(start, seconds))
            counters = np.arange(sum(own.blocks)) % 2  # as many ones as a bitmap may have
            data = encode(Release(own, (window,), own.guarantee.draws, counters))
            topic = topics.release(config.fleet, "dongsi", stream.name).encode()
            found += [b"r" + topic + b"\n" + data, b"s" + topic + b"\n" + body_of(data)]
    birth = Status("online", "a-session", {}).encode()
    health = Health("a-session", "0.1.0", 60, True, 0, None, 0, 0, 4096).encode()
    for named, data in ((topics.status, birth), (topics.health, health)):
        found.append(b"r" + named(config.fleet, "dongsi").encode() + b"\n" + data)
    return found


CLAIMS = (
    b"\xdd\x00\x10\x00\x00",
    b"\xdc\xff\xff",
    b"\xc6\x00\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
)

TARGETS = {
    "wire": Target(
        "a release as bytes", _open_wire, (WireError,), lambda: own_seeds() + golden(),
        tokens=(MAGIC, *CLAIMS),
    ),
    "wire-body": Target(
        "a release behind a checksum that holds", _open_body, (WireError,), _bodies,
        tokens=(b"\x91" * 9, b"\x80", b"\xcb", b"\xd4", *CLAIMS),
    ),
    "rice": Target(
        "blocks of Rice-coded integers", _open_rice, (ValueError,), _rice_seeds,
        memory=Bound(4 << 20, 2000),
    ),
    "integers": Target(
        "integers through the Rice code and back", _open_integers, (), lambda: [bytes(64)],
        memory=Bound(8 << 20, 100),
    ),
    "inbox": Target(
        "a message to the collector", _open_inbox, (), _inbox_seeds,
        memory=Bound(2 << 20, 200), steps=Bound(60_000, 400), tokens=CLAIMS,
    ),
}  # fmt: skip
