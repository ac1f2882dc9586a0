"""Malformed and forged messages by the ten thousand: the collector must handle every one.

They are random bytes, random topics, true releases with changed bits, any MessagePack body under a
valid checksum, and repeated true releases. The collector's own loop takes them from a queue in its
process, into a database on the disk.
"""

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import msgpack

from benchmarks.harness.result import MeasurementFailed, Row, at_most
from benchmarks.performance.footprint import RESIDENT
from pansketch import WindowId, encode, os_entropy
from pansketch.randomness import digest as checksum
from pansketch.wire import CHECKSUM_BYTES, HEADER_BYTES, MAGIC, VERSION
from pansketch_collector.ingest import ingest_loop as service
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage.database import open_writing
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.writer import SqliteStore
from pansketch_collector.validation.validation import Rules
from pansketch_fleet.child_process import run_child
from pansketch_fleet.config.loader import load_agent, load_collector
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Ack, Status, digest
from pansketch_fleet.settings.device_spec import schedule_offset
from testbed.local_fleet import CONFIG
from testbed.program import ROOT

MESSAGES = 100_000
QUICK_MESSAGES = 20_000
WARM_UP = 10_000  # messages, until SQLite's page cache and the quarantine are full
GROWTH_MIB = 1.0
FLEET, STREAM, DEVICE = "beijing-air", "air", "somebody"
LONGEST = 300
QUARANTINE_ROWS = 2_000

MEASURED = f"""
import sys, tempfile
from pathlib import Path
from benchmarks.performance.garbage import taken
{RESIDENT}
many, sizes = int(sys.argv[1]), []
with tempfile.TemporaryDirectory() as folder:
    found = taken(Path(folder), many, 1, lambda: sizes.append(resident()))
tail = sizes[{WARM_UP // service.BATCH} :]
print(found["answered"], found["kept"], tail[0], max(tail))
"""


def run(quick: bool) -> list[Row]:
    many = QUICK_MESSAGES if quick else MESSAGES
    words = [sys.executable, "-c", MEASURED, str(many)]
    done = run_child(words, cwd=ROOT, text=True)
    if done.returncode:
        last = " ".join(done.stderr.strip().splitlines()[-1:])
        raise MeasurementFailed(f"garbage: the measured process failed: {last}")
    answered, kept, early, most = map(float, done.stdout.split())
    return [
        at_most("made up, and not answered for", many - answered, "messages", 0, f"of {many:,}"),
        at_most("answered for, and neither stored nor counted", answered - kept, "messages", 0),
        at_most(f"growth after {WARM_UP:,} messages", most - early, "MiB", GROWTH_MIB, _flat(many)),
    ]


def _flat(many: int) -> str:
    return f"over {many - WARM_UP:,} more; before, SQLite's page cache fills, which is bounded"


def taken(folder: Path, many: int, seed: int, look: Callable[[], object]) -> Counter[str]:
    """Ingests `many` generated messages; returns how many were "answered", and "kept" in any table.

    `look` is called at every turn of the loop.
    """
    rules, stop = Rules.of(load_collector(CONFIG, {})), threading.Event()
    database = folder / "garbage.sqlite"
    store = SqliteStore(open_writing(database), QUARANTINE_ROWS)
    post = Made(many, seed, stop)
    service.serve(post, store, rules, service.IngestClock(lambda: 1, lambda: 0.0), stop, look)
    store.close()
    with reading(database) as reader:
        kept = sum(reader.refusals().values()) + sum(reader.duplicates().values())
        kept += sum(h.windows + h.disputed for h in reader.holdings())
    return Counter({"answered": post.answered, "kept": kept + post.presences})


class Made:
    """A transport of generated messages, with counters of acknowledged messages and of statuses.

    The database overwrites birth messages and last wills, so the valid ones are counted here.
    """

    def __init__(self, many: int, seed: int, stop: threading.Event) -> None:
        self._messages = made(many, random.Random(seed))
        self._stop = stop
        self.answered = self.presences = 0

    def receive(self, limit: int, timeout_seconds: float) -> list[Incoming]:
        batch = list(islice(self._messages, limit))
        if not batch:
            self._stop.set()
        return batch

    def ack_broker(self, message: Incoming) -> None:
        self.answered += 1
        self.presences += _holds_a_status(message)

    def send_ack(self, device: str, ack: Ack) -> None:
        ack.encode()  # as the client does: an invalid acknowledgement raises

    def flush(self) -> None:
        """Nothing is buffered."""


def _holds_a_status(message: Incoming) -> bool:
    if message.topic != topics.status(FLEET, DEVICE):
        return False
    try:
        return bool(Status.decode(message.payload))
    except ValueError:
        return False


BIRTH = Status("online", "a-session", {}).encode()


def made(many: int, dice: random.Random) -> Iterator[Incoming]:
    """So many messages, a different mixture for each state of the dice."""
    rng, stream = os_entropy(), load_agent(CONFIG, {}).streams[0]
    length, offset = stream.window_seconds, schedule_offset(DEVICE, stream.window_seconds)
    starts = [(n, n * length + offset) for n in range(1, 9)]
    windows = [WindowId(DEVICE, STREAM, n, start, start + length) for n, start in starts]
    true = [encode(stream.spec.start(rng).release(rng, window)) for window in windows]
    own = topics.release(FLEET, DEVICE, STREAM)
    for _ in range(many):
        topic, payload = dice.choice(KINDS)(own, dice.choice(true), dice)
        yield Incoming(topic, payload[:70_000], len(payload), digest(payload), 0, 1, 1)


def _bytes(topic: str, true: bytes, dice: random.Random) -> tuple[str, bytes]:
    return topic, dice.randbytes(dice.randrange(LONGEST))


def _true(topic: str, true: bytes, dice: random.Random) -> tuple[str, bytes]:
    return topic, true


def _elsewhere(topic: str, true: bytes, dice: random.Random) -> tuple[str, bytes]:
    letters = "/+#abz-\x00\n\u2028é" + topic[: dice.randrange(len(topic))]
    return "".join(dice.choices(letters, k=dice.randrange(LONGEST))), true


def _changed(topic: str, true: bytes, dice: random.Random) -> tuple[str, bytes]:
    changed = bytearray(true)
    changed[dice.randrange(len(true))] ^= 1 << dice.randrange(8)
    return topic, bytes(changed[: dice.choice((len(true), dice.randrange(len(true))))])


def _resealed(topic: str, true: bytes, dice: random.Random) -> tuple[str, bytes]:
    """Changed behind the seal of a checksum that holds."""
    body = bytearray(true[HEADER_BYTES:])
    for _ in range(dice.randrange(1, 4)):
        body[dice.randrange(len(body))] = dice.randrange(256)
    return topic, _sealed(bytes(body))


def _rebuilt(topic: str, true: bytes, dice: random.Random) -> tuple[str, bytes]:
    """With one part of its body, however deep, replaced by something else."""
    body = msgpack.unpackb(true[HEADER_BYTES:])
    place = body
    while True:
        at = dice.randrange(len(place))
        if not isinstance(place[at], list) or dice.random() < 0.3:
            break
        place = place[at]
    place[at] = _junk(dice, 3)
    return topic, _sealed(msgpack.packb(body))


def _claim(topic: str, true: bytes, dice: random.Random) -> tuple[str, bytes]:
    """A few bytes that claim gigabytes, or ever deeper nesting."""
    kinds = (b"\xdd", b"\xdb", b"\xc6", b"\xdf", b"\xc9")
    return topic, _sealed(
        dice.choice((dice.choice(kinds) + b"\xff" * 4, b"\x91" * dice.randrange(2_000)))
    )


def _status(topic: str, true: bytes, dice: random.Random) -> tuple[str, bytes]:
    changed = bytearray(BIRTH)
    changed[dice.randrange(len(changed))] = dice.choice(b'"{}[]:,\\\x00\xff0eN')
    text = dice.choice((bytes(changed), b"[" * 9_999, b'{"state":NaN}', dice.randbytes(40), BIRTH))
    return topics.status(FLEET, DEVICE), text


def _long(topic: str, true: bytes, dice: random.Random) -> tuple[str, bytes]:
    return topic, true + bytes(dice.randrange(70_000))


KINDS = (_bytes, _true, _elsewhere, _changed, _resealed, _rebuilt, _claim, _status, _long)


def _sealed(body: bytes) -> bytes:
    return MAGIC + bytes([VERSION]) + checksum(body, CHECKSUM_BYTES) + body


def _junk(dice: random.Random, depth: int) -> object:
    if depth and dice.random() < 0.3:
        return [_junk(dice, depth - 1) for _ in range(dice.randrange(5))]
    return dice.choice(
        (None, True, -1, 0, 2**63, 2**64 - 1, -(2**63), 1.5, float("nan"), float("inf"), "",
         "x" * 2_000, "\x00", b"", dice.randbytes(90), {}, {"a": 1}, msgpack.ExtType(5, b"x"),
         msgpack.Timestamp(0))
    )  # fmt: skip
