"""The small messages beside the releases, topics, and quantities as people write them."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Protocol, Self

from pansketch import Attribute, Domain, Privacy, View, ViewsSpec, WindowId
from pansketch.blinding import KeeperQuestion, MaskedWindow
from pansketch_fleet import units as quantities
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.audit_record import AuditRecord
from pansketch_fleet.protocol.keeper_messages import Ask, Reply
from pansketch_fleet.protocol.messages import Ack, Health, Status, StreamBirth
from pansketch_fleet.protocol.scale_message import Scales
from testbed.fuzz.harness.target import Bound, Broken, Run, Target, require

TOKENS = (
    b'"', b"{", b"}", b"[", b":", b",", b"\\u0000", b"\\ud800", b"\xff", b"NaN", b"1e999", b"-0",
    b"null", b"9" * 400, b"[" * 900, b'{"a":' * 500, b'"sequence":', b'"streams":', b'"state":',
)  # fmt: skip


PLANTED = {"init-only": True, "pcg64": True}


class Message(Protocol):
    """An Ack, a Status, or any other message type."""

    def encode(self) -> bytes: ...
    @classmethod
    def decode(cls, data: bytes) -> Self: ...


def _decoding(kind: type[Message]) -> Callable[[Path], Run]:
    def run(data: bytes) -> None:
        found = kind.decode(data)
        try:
            again = kind.decode(found.encode())
        except ValueError as error:
            raise Broken("a message that was taken is refused when it comes again") from error
        require(again == found, "a message comes back changed")

    return lambda _folder: run


def _acks() -> list[bytes]:
    statuses = ("stored", "duplicate", "refused")
    return [Ack("air", 7, "0" * 32, status, "a reason").encode() for status in statuses]  # type: ignore[arg-type]


def _statuses() -> list[bytes]:
    birth = StreamBirth("0" * 16, "epsilon 1", 60, "the disk is full; free it")
    will = Status("offline", "s1", {})
    return [Status("online", "s1", {"air": birth, "b": birth}).encode(), will.encode()]


def _healths() -> list[bytes]:
    well = Health("s1", "0.1.0", 60, True, 0, None, 0, 0, 4096)
    ill = Health("s1", "0.1.0+x", 2**40, None, 7, 86400, 3, 2, 0, memory_protected=False)
    return [well.encode(), ill.encode()]


def _scales() -> list[bytes]:
    knots = {"temp": (-40.0, 4.5, 60.0), "pm25": (0.0, 1e-9, 5.0, 7.0, 1000.0)}
    learned = Scales(1, "air", "0" * 16, 86_400, knots)
    return [learned.encode(), Scales(1, "air", "f" * 16, 0, {}).encode()]


def _asks() -> list[bytes]:
    domain, privacy = Domain([Attribute("temp", -10, 40)]), Privacy(1.0, aggregation="blinded")
    spec = ViewsSpec(domain, privacy, (View(("temp",), (3,), 1_000_000),))
    label = WindowId("dev-1", "air", 7, 60, 120, True, bytes(8))
    windows = (MaskedWindow(label, (bytes(32), b"1" * 32)),)
    question = KeeperQuestion("f", spec.digest, "1d", Fraction(1, 2), windows)
    kinds = ("prepare", "answer")
    return [Ask(kind, question, spec, bytes(8)).encode() for kind in kinds]  # type: ignore[arg-type]


def _replies() -> list[bytes]:
    windows = (("dev-1", "air", bytes(8), 7), ("dev-2", "air", b"", 2**40))
    refused = Reply("refused", bytes(32), bytes(8), windows, "spent: at this level")
    return [refused.encode(), Reply("answered", b"1" * 32, bytes(8), answer=b"PANA").encode()]


def _audits() -> list[bytes]:
    held = AuditRecord("2026-01-31T12:00:00Z", "0.1.0", "0" * 16, "full", 2, 2, (), PLANTED, True)
    names = ("exact: one counter", "seizure: a key")
    broken = AuditRecord(
        "2026-01-31T12:00:00Z", "1", "f" * 16, "quick", 3, 1, names, PLANTED, False
    )
    return [held.encode(), broken.encode()]


def _open_topic(_folder: Path) -> Run:
    return _topic


def _topic(data: bytes) -> None:
    """A parsed topic formats to the same text."""
    text = data.decode("utf-8", "replace")
    found = topics.parse(text)
    if found is None:
        return
    match found.kind:
        case "release":
            again = topics.release(found.fleet, found.device, found.stream or "")
        case "status":
            again = topics.status(found.fleet, found.device)
        case "ack":
            again = topics.ack(found.fleet, found.device)
        case "health":
            again = topics.health(found.fleet, found.device)
        case "mark":
            again = topics.mark(found.fleet, found.device)
        case "scale":
            again = topics.scale(found.fleet, found.stream or "")
        case "ask":
            again = topics.keeper_ask(found.fleet, found.device)
        case "answer":
            again = topics.keeper_answer(found.fleet, found.device)
        case "keeper-status":
            again = topics.keeper_status(found.fleet, found.device)
    require(again == text, "a topic is spelled differently from what was taken apart")


def _topics() -> list[bytes]:
    ends = (b"d/status", b"d/health", b"d/ack", b"d/mark", b"d/release/s", b"all.devices/scale/s",
            b"keeper.k/ask", b"keeper.k/answer", b"keeper.k/status")  # fmt: skip
    return [b"pansketch/v1/f/" + end for end in ends]


def _open_quantities(_folder: Path) -> Run:
    return _quantities


def _quantities(data: bytes) -> None:
    """The first byte selects between a size and a topic."""
    text = data[1:].decode("utf-8", "replace")
    if data[:1] == b"s":
        size = quantities.size_bytes(text)
        require(quantities.size_bytes(quantities.size_text(size)) == size, "a size is changed")
        return
    seconds = quantities.seconds(text)
    again = quantities.seconds(quantities.duration_text(seconds)) if seconds < 1e15 else seconds
    require(abs(again - seconds) <= 1e-12 * seconds, "a duration is changed")


def _amounts() -> list[bytes]:
    return [b"d30d", b"d10 m", b"d0.5s", b"d100ms", b"s64KiB", b"s16 MiB", b"s4k", b"dyear", b"s"]


JSON = Bound(1 << 20, 300)
TARGETS = {
    "ack": Target(
        "the collector's acknowledgement", _decoding(Ack), (ValueError,), _acks,
        memory=JSON, tokens=TOKENS,
    ),
    "status": Target(
        "a device's presence", _decoding(Status), (ValueError,), _statuses,
        memory=JSON, tokens=TOKENS,
    ),
    "health": Target(
        "how a device is", _decoding(Health), (ValueError,), _healths,
        memory=JSON, tokens=TOKENS,
    ),
    "scales": Target(
        "published scales", _decoding(Scales), (ValueError,), _scales,
        memory=JSON, tokens=(*TOKENS, b'"knots":', b'"begins":'),
    ),
    "keeper-ask": Target(
        "a question to a keeper", _decoding(Ask), (ValueError,), _asks,
        memory=JSON, tokens=(*TOKENS, b'"spec":', b'"views":', b'"bits":', b"PANQ"),
    ),
    "keeper-reply": Target(
        "a keeper's reply", _decoding(Reply), (ValueError,), _replies,
        memory=JSON, tokens=(*TOKENS, b'"refused":', b"PANA"),
    ),
    "audit": Target(
        "the record of an audit", _decoding(AuditRecord), (ValueError,), _audits,
        memory=JSON, tokens=(*TOKENS, b'"planted":', b'"broken":', b'"holds":'),
    ),
    "topic": Target(
        "a topic's name", _open_topic, (),
        _topics,
        tokens=(b"/", b"+", b"#", b"\x00", b"pansketch/v1/"),
    ),
    "quantities": Target(
        "durations and sizes", _open_quantities, (ValueError,), _amounts,
        tokens=(b"KiB", b"ms", b"w", b"9" * 15, b".", "٣".encode()),
    ),
}  # fmt: skip
