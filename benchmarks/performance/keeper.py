"""A keeper: windows of devices that it answers in a second, and its ledger at a million windows.

Times are of the processor, on one core. A window has the default number of epochs, 24, and one more
for its release. The ledger is in a folder on a disk.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from time import process_time

from benchmarks.harness.result import Row, at_least, at_most
from pansketch import Attribute, Domain, Privacy, View, ViewsSpec, WindowId, os_entropy
from pansketch.blinding import KeeperQuestion, MaskedWindow, PrivateKey, keeper_id
from pansketch_fleet.protocol.keeper_messages import Ask
from pansketch_keeper.answering import Answerer
from pansketch_keeper.ledger import LEDGER, KeeperLedger

FLEET, EPOCHS, DEVICES, ENTRIES = "bench", 25, 100, 1_000_000
DOMAIN = Domain([Attribute("temp", -10, 40), Attribute("humidity", 0, 100)])
PAIR = ("temp", "humidity")
VIEWS = (View(PAIR, (5, 5), 400_000), View(PAIR, (4, 4), 300_000), View(PAIR[:1], (6,), 300_000))
SPEC = ViewsSpec(DOMAIN, Privacy(1.0, aggregation="blinded"), VIEWS)
MIN_WINDOWS, MAX_BYTES, MAX_MILLISECONDS = 200, 200e6, 5


def run(quick: bool = False) -> list[Row]:
    """Rows of the rate of answers, the bytes of an entry, and the time of a query."""
    with _ledger() as ledger:
        rate = _rate(ledger, 50 if quick else 400)
    # Not fewer: SQLite's log of the last changes has its size however few there are.
    entries = ENTRIES // 5 if quick else ENTRIES
    with _ledger() as ledger:
        for device in range(DEVICES):
            ledger.reserve(_question(f"dev-{device:03}", range(entries // DEVICES), (bytes(32),)))
        size = sum(os.path.getsize(file) for file in ledger.path.parent.iterdir())
        lookup = _lookup(ledger, entries)
    counters = f"{sum(SPEC.blocks)} counters, {EPOCHS} epochs"
    return [
        at_least("windows that a keeper answers", rate, "1/s", MIN_WINDOWS, counters),
        at_most("ledger", size * ENTRIES / entries / 1e6, "MB", MAX_BYTES / 1e6, "10^6 windows"),
        at_most("look-up of a window", 1e3 * lookup, "ms", MAX_MILLISECONDS, f"of {entries:,}"),
    ]


@contextmanager
def _ledger() -> Iterator[KeeperLedger]:
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd()) as folder,
        KeeperLedger.create(Path(folder) / LEDGER) as ledger,
    ):
        yield ledger


def _question(device: str, numbers: range, epochs: tuple[bytes, ...]) -> KeeperQuestion:
    labels = (WindowId(device, "air", n, n, n + 1, None, bytes(8)) for n in numbers)
    windows = tuple(MaskedWindow(each, epochs) for each in labels)
    return KeeperQuestion(FLEET, SPEC.digest, "1d", Fraction(1, 2), windows)


def _rate(ledger: KeeperLedger, windows: int) -> float:
    """Windows a second, from the bytes of a question to those of its reply."""
    rng = os_entropy()
    private = PrivateKey.draw(rng)
    epochs = tuple(PrivateKey.draw(rng).public for _ in range(EPOCHS))
    key = keeper_id(private.public)
    payload = Ask("answer", _question("dev", range(windows), epochs), SPEC, key).encode()
    answerer = Answerer(FLEET, {key: private}, ledger)
    began = process_time()
    reply = answerer.reply(payload).encode()
    spent = process_time() - began
    assert len(reply) > SPEC.nbytes
    return windows / spent


def _lookup(ledger: KeeperLedger, entries: int) -> float:
    """Seconds of one window, of a question about a hundred that are spread over the ledger."""
    step = max(1, entries // DEVICES // 100)
    asked = _question("dev-042", range(0, 100 * step, step), (bytes(32),))
    began = process_time()
    assert len(ledger.left_out(asked)) == 100
    return (process_time() - began) / 100
