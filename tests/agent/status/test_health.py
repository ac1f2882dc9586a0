"""A device's health message: counts, ages and its clock, on a public schedule."""

from contextlib import ExitStack
from itertools import pairwise

import pytest

from pansketch import WindowId, __version__, encode, os_entropy
from pansketch_agent.host.clock import Clock
from pansketch_agent.host.hardening import MemoryProtection
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.outbox import Key, Outbox, OutboxFullError
from pansketch_agent.outbox.records import queued_in, scan
from pansketch_agent.status.disk_writes import DAY_SECONDS, written_daily
from pansketch_agent.status.health import INTERVAL_SECONDS, HealthCollector, HealthSchedule
from pansketch_fleet.protocol.messages import Health
from pansketch_fleet.settings.profiles import DEFAULT_OUTBOX

HOUR = 3600
NOW = 1_704_067_200 + 12 * HOUR  # noon on 2024-01-01
LIVE = "{type: stdin}"


class DeviceParts:
    """The parts of an agent that its health looks at, on disk, and clocks that a test sets."""

    def __init__(self, device, folder, capacity=10**6, source=LIVE):
        self.wall, self.up, self.synchronised = float(NOW), 500.0, True
        self.config = device.configure(source=source)
        self.ledger = Ledger(folder / "state")
        self.outbox = Outbox(folder / "state/outbox", capacity)
        memory = MemoryProtection("", folder)
        self.collector = HealthCollector(
            self.config, "s1", self.clock, self.ledger, self.outbox, memory
        )

    @property
    def clock(self):
        return Clock(lambda: self.wall, lambda: self.up, lambda *_: True, lambda: self.synchronised)

    def put(self, sequence, stream="air", hours_ago=None):
        """Puts an honest release, whose window ended so long ago; returns its bytes."""
        end = NOW - HOUR * (10 - sequence if hours_ago is None else hours_ago)
        window = WindowId("dev-1", stream, sequence, end - HOUR, end)
        rng = os_entropy()
        payload = encode(self.config.streams[0].spec.start(rng).release(rng, window))
        self.outbox.put(Key(sequence, stream), payload)
        return payload

    def debit(self, count):
        until = self.ledger.spent("air").until or NOW
        for start in range(until, until + count * HOUR, HOUR):
            self.ledger.debit({"air": 10}, start, start + HOUR)


@pytest.fixture
def made(device, tmp_path):
    with ExitStack() as ends:

        def make(**settings):
            parts = DeviceParts(device, tmp_path, **settings)
            ends.enter_context(parts.ledger)
            return parts

        yield make


def test_a_device_that_has_just_started_is_well(made):
    parts = made()
    parts.up += 61.9
    assert parts.collector.snapshot() == Health(
        "s1", __version__, 61, True, 0, None, 0, 0, 0, memory_protected=True
    )


@pytest.mark.parametrize("known", [True, False, None])
def test_the_clock_is_asked_each_time(made, known):
    parts = made()
    parts.synchronised = known
    assert parts.collector.snapshot().clock_synchronised is known


def test_the_backlog_is_counted_and_the_oldest_has_an_age(made):
    """Of all streams, from the end of its window, by the clock of now."""
    parts = made()
    for sequence in (1, 2, 3):
        parts.put(sequence)
    parts.put(1, "water", hours_ago=20)
    taken = parts.collector.snapshot()
    assert (taken.waiting, taken.oldest_waiting_seconds) == (4, 20 * HOUR)
    parts.outbox.forget(Key(1, "water"))
    parts.wall += 5.9
    assert parts.collector.snapshot().oldest_waiting_seconds == 9 * HOUR + 5
    parts.outbox.forget(Key(1, "air"))
    assert parts.collector.snapshot().oldest_waiting_seconds == 8 * HOUR + 5
    parts.wall = 0.0  # A board without a clock has restarted: the age is unknown.
    taken = parts.collector.snapshot()
    assert (taken.waiting, taken.oldest_waiting_seconds) == (2, None)


@pytest.mark.parametrize(("seconds", "age"), [(0.0, 0), (0.9, 0), (1.0, 1), (-1.0, None)])
def test_the_age_of_a_window_counts_from_its_end(made, seconds, age):
    parts = made()
    parts.put(1, hours_ago=0)
    parts.wall += seconds
    assert parts.collector.snapshot().oldest_waiting_seconds == age


def test_of_each_stream_one_release_is_read_and_once(made, monkeypatch):
    """However many wait: the health is published every minute, from a slow disk."""
    parts, read = made(), []
    for sequence in (1, 2, 3):
        parts.put(sequence)
        parts.put(sequence, "water")
    real = parts.outbox.read
    monkeypatch.setattr(parts.outbox, "read", lambda key: (read.append(key), real(key))[1])
    for _ in range(3):
        parts.collector.snapshot()
    assert sorted(read) == [Key(1, "air"), Key(1, "water")]


def test_the_windows_of_a_replay_have_no_age(made):
    """They bear the times of a file, years ago."""
    parts = made(source="{type: replay, path: rows.csv}")
    parts.put(1)
    parts.put(2, "removed-from-the-configuration", hours_ago=2)
    taken = parts.collector.snapshot()
    assert (taken.waiting, taken.oldest_waiting_seconds) == (2, 2 * HOUR)


def test_a_release_of_a_later_version_only_counts(made):
    """After a downgrade the outbox may hold what this version cannot read."""
    parts = made()
    payload = bytearray(parts.put(1))
    parts.outbox.forget(Key(1, "air"))
    payload[4] = 4
    parts.outbox.put(Key(1, "air"), bytes(payload))
    taken = parts.collector.snapshot()
    assert (taken.waiting, taken.oldest_waiting_seconds) == (1, None)


def test_dropped_and_dead_lettered_are_counted(made):
    parts = made(capacity=4000)
    size = len(parts.put(1))
    for sequence in range(2, 99):
        if parts.outbox.has_room(2 * size):
            parts.put(sequence)
    with pytest.raises(OutboxFullError):
        parts.outbox.put(Key(99, "air"), bytes(4000))
    first, second = parts.outbox.queued()[:2]
    parts.outbox.refuse(first)
    assert parts.collector.snapshot().dropped == parts.outbox.dropped == 1
    assert parts.collector.snapshot().set_aside == 1
    (segment,) = [p for p in parts.outbox.folder.glob("*.segment") if second.filename in names(p)]
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    Outbox(parts.outbox.folder, 4000)
    assert parts.collector.snapshot().set_aside == 2
    for path in (*parts.outbox.folder.glob("*.bad"), *parts.outbox.folder.glob("refused/*")):
        path.unlink()
    assert parts.collector.snapshot().set_aside == 0


def names(segment):
    return [key.filename for key in queued_in(scan(segment.read_bytes()))]


def test_what_is_written_today_follows_the_debits_and_begins_again_each_day(made):
    parts = made()
    each = written_daily(parts.config.streams[0], DEFAULT_OUTBOX) / 24
    parts.debit(3)
    assert parts.collector.snapshot().written_today_bytes == 3 * each
    parts.wall += DAY_SECONDS
    assert parts.collector.snapshot().written_today_bytes == 0
    parts.debit(2)
    assert parts.collector.snapshot().written_today_bytes == 2 * each


def test_looking_changes_nothing(made):
    parts = made()
    payload = parts.put(1)
    before = {p: p.read_bytes() for p in parts.outbox.folder.rglob("*") if p.is_file()}
    for _ in range(3):
        parts.collector.snapshot()
    assert {p: p.read_bytes() for p in parts.outbox.folder.rglob("*") if p.is_file()} == before
    assert parts.outbox.read(Key(1, "air")) == payload


def published_at(reports, said, seconds):
    """The moments, of these, at which a health was published."""
    moments = []
    for now in seconds:
        before = len(said)
        reports.step(float(now))
        moments += [now] * (len(said) - before)
    return moments


def test_it_is_published_at_a_connection_and_then_at_one_second_of_every_minute(made):
    parts, said = made(), []
    say = said.append
    reports = HealthSchedule("dev-1", parts.collector, say)
    reports.connected(1000.0)
    assert len(said) == 1
    moments = published_at(reports, said, range(1000, 2000))
    assert {after - before for before, after in pairwise(moments)} == {INTERVAL_SECONDS}
    assert len(moments) in (16, 17)
    # Another run, another connection, and any backlog: the same second.
    parts.put(1)
    again = HealthSchedule("dev-1", parts.collector, say)
    again.connected(3017.0)
    later = published_at(again, said, range(3017, 4000))
    assert {moment % 60 for moment in later} == {moment % 60 for moment in moments}
    seconds = set()
    for number in range(40):
        other = HealthSchedule(f"dev-{number}", parts.collector, say)
        other.connected(0.0)
        seconds.update(moment % 60 for moment in published_at(other, said, range(1, 121)))
    assert len(seconds) > 15, "devices speak at different seconds"


def out_of_order(folder):
    """A file system that fails there: a name longer than any may be stands in its way."""
    (folder / "refused").symlink_to("x" * 300)


def test_a_health_that_cannot_be_taken_is_left_out_and_that_is_logged_once(made, caplog):
    parts, said = made(), []
    reports = HealthSchedule("dev-1", parts.collector, said.append)
    out_of_order(parts.outbox.folder)
    with pytest.raises(OSError, match="too long"):
        parts.collector.snapshot()
    assert published_at(reports, said, range(300)) == []
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("no health is published: the outbox cannot be read (")
    (parts.outbox.folder / "refused").unlink()
    assert len(published_at(reports, said, range(300, 400))) in (1, 2)
    out_of_order(parts.outbox.folder)
    reports.connected(400.0)
    assert len(caplog.records) == 2
