"""Segments: torn at any byte, any bit flipped, killed or full at any write, the rest goes on."""

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pansketch_agent.commands.list_outbox import releases_in
from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_agent.outbox.records import (
    FORGOTTEN,
    RELEASE,
    SIGNATURE,
    encode,
    queued_in,
    record_at,
    scan,
)
from pansketch_agent.outbox.segment_files import MAX_BAD
from pansketch_agent.outbox.segments import Segments

PAYLOADS = {number: bytes(range(number, number + 40)) for number in range(1, 6)}
REPOSITORY = Path(__file__).resolve().parents[3]


def key(sequence):
    return Key(sequence, "air")


def filled(folder, numbers=PAYLOADS, segment_bytes=10**6):
    segments = Segments(folder, segment_bytes)
    for number in numbers:
        segments.append(key(number), PAYLOADS[number])
    return segments


def only_segment(folder):
    (path,) = folder.glob("*.segment")
    return path


def contents(segments):
    return {k.sequence: segments.read(k) for k in list(segments.positions)}


def expected(*numbers):
    return {number: PAYLOADS[number] for number in numbers}


def test_a_tear_at_every_byte_of_the_last_record(tmp_path, caplog):
    """A power cut leaves a part of it, zeros to its full length, or zeros beyond."""
    whole = only_segment_bytes(tmp_path / "whole")
    begins = scan(whole).records[-1].at
    for cut in range(begins, len(whole)):
        for tail in (b"", bytes(len(whole) - cut), bytes(4096)):
            folder = tmp_path / f"{cut}-{len(tail)}"
            folder.mkdir()
            path = folder / "00000001.segment"
            path.write_bytes(whole[:cut] + tail)
            caplog.clear()
            segments = Segments(folder, 10**6)
            assert contents(segments) == expected(1, 2, 3, 4)
            assert path.read_bytes() == whole[:begins]
            said = [record.getMessage() for record in caplog.records]
            torn = cut - begins + len(tail)
            assert said == (
                [f"{path}: a torn end is cut off ({torn} bytes); earlier ones stay"] * (torn > 0)
            )
            segments.append(key(5), PAYLOADS[5])
            assert contents(Segments(folder, 10**6)) == expected(1, 2, 3, 4, 5)


def only_segment_bytes(folder):
    filled(folder)
    return only_segment(folder).read_bytes()


def test_every_flipped_bit_costs_one_release_at_most(tmp_path, caplog):
    whole = only_segment_bytes(tmp_path / "whole")
    records = scan(whole).records
    for at in range(len(whole)):
        folder = tmp_path / str(at)
        folder.mkdir()
        path = folder / "00000001.segment"
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        caplog.clear()
        segments = Segments(folder, 10**6)
        lost = [r.key.sequence for r in records if r.at <= at < r.at + r.size]
        assert contents(segments) == expected(*(set(PAYLOADS) - set(lost)))
        assert len(caplog.records) == 1
        if lost != [5]:
            assert (folder / "00000001.segment.bad").read_bytes() == damaged
            assert "is damaged; renamed to .bad" in caplog.text
        segments.append(key(9), b"next")
        assert contents(Segments(folder, 10**6)) == {**contents(segments)}


def test_damage_that_shows_when_a_release_is_read(tmp_path, caplog):
    segments = filled(tmp_path)
    segments.forget(key(2))
    path = only_segment(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content.replace(PAYLOADS[3], PAYLOADS[3][::-1]))
    assert segments.read(key(3)) is None
    assert contents(segments) == contents(Segments(tmp_path, 10**6)) == expected(1, 4, 5)
    assert "2 sound releases" not in caplog.text
    assert "3 sound releases kept" in caplog.text


def test_a_segment_that_went_away_is_damage_too(tmp_path):
    outbox = Outbox(tmp_path, 10**6)
    for number, payload in PAYLOADS.items():
        outbox.put(key(number), payload)
    only_segment(tmp_path).unlink()
    assert outbox.read(key(1)) is None
    assert len(outbox) == 0
    outbox.put(key(8), b"next")
    assert Outbox(tmp_path, 10**6).queued() == [key(8)]


def test_the_others_go_on_when_a_segment_is_rubbish(tmp_path):
    filled(tmp_path, segment_bytes=1)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 5
    (tmp_path / names[1]).write_bytes(os.urandom(300))
    (tmp_path / names[2]).write_bytes(b"")
    (tmp_path / names[3]).write_bytes(bytes(300))
    assert contents(Segments(tmp_path, 1)) == expected(1, 5)
    left = [names[0], f"{names[1]}.bad", names[4]]
    assert sorted(path.name for path in tmp_path.iterdir()) == left


@settings(max_examples=200)
@given(st.binary(max_size=400), st.integers(0, 300), st.integers(0, 300))
def test_reading_any_bytes_of_a_segment_never_fails(rubbish, begin, count):
    whole = SIGNATURE + b"".join(encode(RELEASE, key(n), p) for n, p in PAYLOADS.items())
    content = whole[:begin] + rubbish + whole[begin + count :]
    found = scan(content)
    assert 0 <= found.end <= len(content)
    for release, record in queued_in(found).items():
        assert record_at(content, record.at) == record
        assert release.sequence in PAYLOADS


def test_renamed_segments_are_bounded(tmp_path):
    damaged = only_segment_bytes(tmp_path / "whole").replace(PAYLOADS[2], bytes(40))
    for number in range(MAX_BAD + 3):
        (tmp_path / f"{number:08d}.segment").write_bytes(damaged)
    assert contents(Segments(tmp_path, 10**6)) == expected(1, 3, 4, 5)
    assert len(list(tmp_path.glob("*.bad"))) == MAX_BAD


def test_forgetting_survives_a_restart_and_a_torn_note_only_retransmits(tmp_path):
    segments = filled(tmp_path)
    segments.forget(key(1))
    segments.forget(key(4))
    assert contents(Segments(tmp_path, 10**6)) == expected(2, 3, 5)
    path = only_segment(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    assert contents(Segments(tmp_path, 10**6)) == expected(2, 3, 4, 5)


def test_a_copy_made_while_a_segment_was_renamed_is_no_second_release(tmp_path):
    """A power cut after the copy and before the damaged segment was renamed."""
    filled(tmp_path)
    original = only_segment(tmp_path)
    damaged = original.read_bytes().replace(PAYLOADS[2], bytes(40))
    original.write_bytes(damaged)
    Segments(tmp_path, 10**6)
    original.write_bytes(damaged)
    segments = Segments(tmp_path, 10**6)
    assert contents(segments) == expected(1, 3, 4, 5)
    for number in (1, 3, 4, 5):
        segments.forget(key(number))
    segments.close()
    assert contents(Segments(tmp_path, 10**6)) == {}


@pytest.fixture
def small_files():
    """Files of this process cannot grow beyond a limit, as on a disk that is full there."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(max_bytes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_at_every_byte_of_a_record(tmp_path, small_files):
    whole = only_segment_bytes(tmp_path / "whole")
    begins = scan(whole).records[-1].at
    for limit in range(begins, len(whole), 3):
        folder = tmp_path / str(limit)
        segments = filled(folder, (1, 2, 3, 4))
        small_files(limit)
        with pytest.raises(OSError, match=r".") as refused:
            segments.append(key(5), PAYLOADS[5])
        assert refused.value.errno in (errno.EFBIG, errno.ENOSPC)
        small_files(resource.RLIM_INFINITY)
        assert only_segment(folder).stat().st_size == begins
        assert contents(segments) == contents(Segments(folder, 10**6)) == expected(1, 2, 3, 4)
        segments.append(key(5), PAYLOADS[5])
        segments.forget(key(1))
        assert contents(Segments(folder, 10**6)) == expected(2, 3, 4, 5)


def test_a_damaged_segment_on_a_full_disk_is_used_where_it_lies(tmp_path, small_files, caplog):
    filled(tmp_path)
    path = only_segment(tmp_path)
    path.write_bytes(path.read_bytes().replace(PAYLOADS[2], bytes(40)))
    small_files(10)
    segments = Segments(tmp_path, 10**6)
    small_files(resource.RLIM_INFINITY)
    assert contents(segments) == expected(1, 3, 4, 5)
    assert "is damaged and cannot be renamed" in caplog.text
    segments.forget(key(3))
    assert contents(Segments(tmp_path, 10**6)) == expected(1, 4, 5)


PUT_AND_FORGET = """
import sys
from pathlib import Path
from pansketch_agent.outbox.outbox import Key, Outbox
outbox = Outbox(Path(sys.argv[1]), 200_000)
first = int(sys.argv[2])
for number in range(first, first + 10**6):
    outbox.put(Key(number, "air"), b"%d " % number * 100)
    print("put", number, flush=True)
    if number % 3 and number > first + 5:
        outbox.forget(Key(number - 5, "air"))
        print("forgot", number - 5, flush=True)
    while not outbox.has_room(1000):
        oldest = outbox.queued()[0]
        outbox.forget(oldest)
        print("forgot", oldest.sequence, flush=True)
"""


def test_killed_at_random_points_it_has_all_it_reported(tmp_path):
    """SIGKILL while it puts, forgets, shrinks and starts; reported results before count."""
    put, forgotten, first = set(), set(), 1
    for kill in range(12):
        with subprocess.Popen(
            [sys.executable, "-c", PUT_AND_FORGET, str(tmp_path), str(first)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        ) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(3 + kill * 29 % 120)]
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.read().splitlines()
        for word, number in (line.split() for line in lines if len(line.split()) == 2):
            (put if word == "put" else forgotten).add(int(number))
        there = {k.sequence: payload for k, payload in releases_in(tmp_path)}
        assert all(payload == b"%d " % number * 100 for number, payload in there.items())
        # One more may have been put, or forgotten, than it had the time to report.
        assert len((put - forgotten) - set(there)) <= 1
        assert len(set(there) - (put - forgotten)) <= 1
        forgotten |= put - set(there)
        put |= set(there)
        forgotten -= set(there)
        first = max(put) + 1
    assert len(put) > 250
    assert len(forgotten) > 50


def test_records_state_what_they_are():
    content = encode(RELEASE, key(7), b"payload") + encode(FORGOTTEN, key(7))
    first = record_at(content, 0)
    assert (first.kind, first.key, first.payload_bytes) == (RELEASE, key(7), 7)
    second = record_at(content, first.size)
    assert (second.kind, second.key, second.payload_bytes) == (FORGOTTEN, key(7), 0)
    assert queued_in(scan(SIGNATURE + content)) == {}
