"""The files that a device reads from its disk: outbox, ledger, and refused releases."""

import shutil
from pathlib import Path

from pansketch import WireError
from pansketch_agent.commands import list_outbox
from pansketch_agent.ledger.accounts import HEADER, TORN, LedgerError, line, read_accounts
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.dead_letters import dropped_in, requeue_files
from pansketch_agent.outbox.records import (
    FORGOTTEN,
    KEPT,
    RELEASE,
    SIGNATURE,
    Key,
    encode,
    queued_in,
    scan,
)
from pansketch_agent.outbox.segments import Segments
from pansketch_fleet.protocol.messages import MAX_NUMBER
from testbed.fuzz.harness.target import Bound, Run, Target, require
from testbed.fuzz.targets.releases import body_of, own_seeds, sealed

FIRST = Key(1, "air")
SEGMENT_BYTES = 1 << 16
HEAD = f"{HEADER} 0123456789abcdef"
DEBITS = ("debit 1 air 0 60 500000", "debit 2 air 60 120 500000", "debit 1 keys 0 86400 7")


def _open_segment(folder: Path) -> Run:
    return lambda data: _segment(data, folder / "outbox")


def _open_records(folder: Path) -> Run:
    """Lines of hexadecimal become sound records, all else stands between them as it is."""
    return lambda data: _segment(_records(data), folder / "outbox")


def _segment(data: bytes, folder: Path) -> None:
    """The valid part of a segment is read back byte by byte, now and after a restart."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "00000001.segment").write_bytes(data)
    waiting = queued_in(scan(data))
    first = _contents(Segments(folder, SEGMENT_BYTES))
    require(set(first) == set(waiting), "an intact release is lost, or one is invented")
    require(_contents(Segments(folder, SEGMENT_BYTES)) == first, "a second start reads otherwise")
    require(dict(list_outbox.releases_in(folder)) == first, "the listing differs from the outbox")
    after = Segments(folder, SEGMENT_BYTES)
    after.append(FIRST, b"a new one")
    for key in list(after.positions):
        after.forget(key)
    after.close()
    require(not _contents(Segments(folder, SEGMENT_BYTES)), "a forgotten release is there again")


def _contents(segments: Segments) -> dict[Key, bytes]:
    waiting = [key for key in segments.positions if key not in segments.kept]
    found = {key: segments.read(key) for key in waiting}
    require(None not in found.values(), "a release that waits cannot be read")
    return {key: payload for key, payload in found.items() if payload is not None}


def _records(data: bytes) -> bytes:
    """A piece that begins with r or f is a record: a digit for the sequence, the payload."""
    parts = [SIGNATURE]
    for piece in data.split(b"\n"):
        if piece[:1] in (b"r", b"f") and piece[1:2].isdigit():
            kind = RELEASE if piece[:1] == b"r" else FORGOTTEN
            parts.append(encode(kind, Key(int(piece[1:2]), "air"), piece[2:]))
        else:
            parts.append(piece)
    return b"".join(parts)


def _open_ledger(folder: Path) -> Run:
    return lambda data: _ledger(data, folder / "state")


def _open_debits(folder: Path) -> Run:
    """Every line gets the checksum that it should have, but for the last one."""

    def run(data: bytes) -> None:
        *lines, last = data.decode("ascii", "replace").replace("�", "?").split("\n")
        _ledger(b"".join(map(line, lines)) + last.encode(), folder / "state")

    return run


def _ledger(data: bytes, state: Path) -> None:
    """The spent epsilon never decreases after a restart, and numbers continue."""
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(mode=0o700)
    path = state / "ledger"
    path.write_bytes(data)
    accounts, sound_bytes = read_accounts(path)
    torn = sound_bytes < len(data)
    with Ledger(state) as ledger:
        for stream, account in accounts.by_stream.items():
            spent = ledger.spent(stream)
            require(spent.sequence == account.sequence + torn, "a number is used twice")
            require(spent.lifetime_micro >= account.lifetime_micro, "what was spent is less")
        require(read_accounts(path)[1] == path.stat().st_size, "a torn end is not repaired")
        last = ledger.spent("air")
        number = ledger.debit({"air": 1}, last.until, last.until + 60)["air"]
    require(number == last.sequence + 1, "a number is left out")
    again, _ = read_accounts(path)
    require(again.account("air").sequence == number, "a debit is lost")


def _lines() -> list[bytes]:
    whole = "\n".join((HEAD, *DEBITS, TORN, ""))
    return [
        whole.encode(),
        "\n".join((HEAD, *DEBITS, "debit 3 a")).encode(),
        HEADER.encode(),
    ]


def _ledgers() -> list[bytes]:
    adopted = "adopted water - 9 2 86400 1000000"
    lines = (HEAD, *DEBITS, "incarnation fedcba9876543210", TORN, adopted)
    whole = b"".join(map(line, lines))
    return [whole, whole[:-9], line(HEAD), b"".join(map(line, (HEAD, *DEBITS, TORN))), b""]


def _open_adoption(folder: Path) -> Run:
    return lambda data: _adopted(data, folder / "outbox")


def _adopted(data: bytes, folder: Path) -> None:
    """A refused release: version and body, behind a checksum that holds."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    payload = sealed(data[0], data[1:]) if data else b""
    (folder / f"{0:012d}.air.release").write_bytes(payload)
    (folder / "dropped").write_bytes(data)
    taken: list[bytes] = []

    def append(_key: Key, content: bytes) -> bool:
        taken.append(content)
        return True

    requeue_files(folder, append)
    require(taken in ([], [payload]), "a release is adopted with other bytes")
    damaged = list((folder / "damaged").glob("*")) if not taken else []
    require(
        taken or len(damaged) == 1, "a release is neither requeued nor moved to the damaged ones"
    )
    require(0 <= dropped_in(folder) <= MAX_NUMBER, "a number of dropped releases that cannot be")


def _open_listing(folder: Path) -> Run:
    return lambda data: _listed(data, folder / "outbox")


def _listed(data: bytes, folder: Path) -> None:
    """A sound record whose payload may be anything: the listing and the export."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    payload = sealed(data[0], data[1:]) if data else b""
    content = SIGNATURE + encode(RELEASE, FIRST, payload)
    (folder / "00000001.segment").write_bytes(content)
    rows = list_outbox.as_rows(folder, 0.0, None)
    require(len(rows) == 2, "a release that waits is not listed")
    list(list_outbox.as_jsonl("meadow", "post-7", folder))


def _segments() -> list[bytes]:
    payloads = own_seeds()[:2]
    parts = [encode(RELEASE, Key(n, "air"), payload) for n, payload in enumerate(payloads, 1)]
    forgotten = encode(FORGOTTEN, FIRST)
    return [SIGNATURE + b"".join(parts), SIGNATURE + b"".join(parts) + forgotten, b"\0" * 40]


def _bodies() -> list[bytes]:
    return [body_of(data) for data in own_seeds()]


DISK = Bound(2 << 20, 200)
TARGETS = {
    "segment": Target(
        "a segment of the outbox", _open_segment, (), _segments, memory=DISK,
        steps=Bound(20_000, 400),
        tokens=(SIGNATURE, b"\xa5PSR", encode(FORGOTTEN, FIRST), encode(KEPT, FIRST, bytes(8))),
    ),
    "records": Target(
        "sound records of the outbox in any order, with damage between", _open_records, (),
        lambda: [b"r1one\nr2two\nf1\nr3three", b"r1one\nr1two\nf1\nr1three\nf9", b"r1\n\0\0\nr2x"],
        memory=DISK, steps=Bound(20_000, 2_000), tokens=(b"\n", b"\nr1", b"\nf1", b"\xa5PSR"),
    ),
    "ledger": Target(
        "a ledger", _open_ledger, (LedgerError,), _ledgers, memory=DISK,
        steps=Bound(20_000, 400),
        tokens=(line(TORN), line(HEAD), line(DEBITS[0]),
                line("adopted a - 9 2 9 1"), b"\n"),
    ),
    "debits": Target(
        "a ledger whose checksums hold", _open_debits, (LedgerError,), _lines, memory=DISK,
        steps=Bound(20_000, 400),
        tokens=(b"\ntorn", b"\ndebit 1 b 0 1 1", b"9" * 18, b"-", b"\n", HEADER.encode()),
    ),
    "adoption": Target(
        "a refused release that is requeued", _open_adoption, (), _bodies, memory=DISK,
    ),
    "listing": Target(
        "the list of the outbox", _open_listing, (WireError,), _bodies, memory=DISK,
    ),
}  # fmt: skip
