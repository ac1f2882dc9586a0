"""Keys from a source to a window: valid ones, and their rows."""

import os
import threading
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch import DistinctSpec, Privacy, hash_keys, is_incomplete, os_entropy
from pansketch_agent.host.clock import Clock
from pansketch_agent.sources import replay, stdin
from pansketch_agent.sources.decoders import MAX_KEY_BYTES, KeyDecoder
from pansketch_agent.sources.readings import NO_KEY, drop, to_absorb
from pansketch_agent.windows.window import Schedule, Windows, schedule_for
from pansketch_fleet.settings.device_spec import window_index

ENTROPY = os_entropy()
TEXTS = KeyDecoder("badge", None)
NUMBERS = KeyDecoder("badge", 1000)
# All keys of the universe are tracked. At epsilon 100 a bit is wrong with probability below
# e**-50. The noise of a release is not 0 with less than 3 e**-50, so counts are exact.
EXACT = DistinctSpec(privacy=Privacy(100, unit="key"), universe=1000)
NONE = int(NO_KEY)


def word(text: str) -> int:
    return int(hash_keys([text])[0])


def cell(decoder: KeyDecoder, text: str) -> int:
    rows = decoder.empty(1)
    decoder.decode_cells([text], rows, 0)
    return int(rows[0])


def line(decoder: KeyDecoder, content: bytes) -> int | None:
    rows = decoder.empty(1)
    taken = decoder.decode_line(memoryview(content), rows, 0)
    assert taken or rows[0] == 0
    return int(rows[0]) if taken else None


@pytest.mark.parametrize("text", ["badge-1", "  badge-1 ", "\tbadge-1"])
def test_a_text_is_its_word_with_any_text_around_it(text):
    assert cell(TEXTS, text) == word("badge-1")


@pytest.mark.parametrize("text", ["", " ", "x" * (MAX_KEY_BYTES + 1)])
def test_a_text_that_is_no_key(text):
    assert cell(TEXTS, text) == NONE
    assert line(TEXTS, b'{"badge": "%s"}' % text.encode()) == NONE


@pytest.mark.parametrize(
    ("text", "key"),
    [("0", 0), ("999", 999), (" 7 ", 7), ("007", 7), ("1000", NONE), ("-1", NONE), ("1.0", NONE)]
    + [(other, NONE) for other in ("", "x", "1e2", "1_0", "+5", "٣", "9" * 30, "NaN", "0x1")],
)
def test_a_number_of_a_universe(text, key):
    assert cell(NUMBERS, text) == key
    assert line(NUMBERS, b'{"badge": "%s"}' % text.encode()) == key


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b'"badge-1"', "badge-1"),
        (b'"b\\u0061dge-1"', "badge-1"),
        (b'" badge-1"', "badge-1"),
        ('"Müller"'.encode(), "Müller"),
        (b"1234", "1234"),
        (b"0", "0"),
        (b'"1234"', "1234"),
    ],
)
def test_json_has_the_same_keys_as_a_file(value, text):
    assert line(TEXTS, b'{"other": [1, {}], "badge": ' + value + b"}") == cell(TEXTS, text)


@pytest.mark.parametrize("value", [b"null", b"true", b"1.5", b"-3", b"[]", b'{"a": 1}', b'"\xff"'])
@pytest.mark.parametrize("decoder", [TEXTS, NUMBERS])
def test_json_values_that_are_no_key(decoder, value):
    assert line(decoder, b'{"badge": ' + value + b"}") == NONE


@pytest.mark.parametrize("decoder", [TEXTS, NUMBERS])
def test_an_object_without_the_key_has_none_and_other_lines_are_none(decoder):
    assert line(decoder, b'{"door": 3}') == NONE
    for content in (
        b"",
        b"7",
        b"[1]",
        b"badge=1",
        b'{"badge": 1',
        b'{"badge": "\\ud800"}',
        b"\xff",
    ):
        assert line(decoder, content) is None


@given(st.binary(max_size=300))
def test_no_bytes_break_a_form(content):
    for decoder in (TEXTS, NUMBERS):
        line(decoder, content)
        got = line(decoder, b'{"badge": ' + content + b"}")
        assert got is None or 0 <= got <= NONE


@given(st.text(max_size=80))
def test_no_text_breaks_a_form(text):
    text = text.encode("utf-8", "replace").decode()
    found = cell(NUMBERS, text)
    assert found == NONE or found == int(text)
    stripped = text.encode().strip()
    assert cell(TEXTS, text) == (int(hash_keys([stripped])[0]) if stripped else NONE)


def replayed(folder, decoder, text):
    path = folder / "rows.csv"
    path.write_text(text)
    rows = []
    for readings in replay.blocks(path, decoder):
        rows += zip(readings.at.tolist(), readings.rows.tolist(), strict=True)
    return rows


def test_a_row_without_a_key_keeps_its_time(tmp_path):
    """Or a missing key would show in the public schedule."""
    text = "badge,time\nb1,10\n,20\n 5 ,30\nb1,never\n\nb1\n"
    assert replayed(tmp_path, TEXTS, text) == [(10, word("b1")), (20, NONE), (30, word("5"))]
    assert replayed(tmp_path, NUMBERS, text) == [(10, NONE), (20, NONE), (30, 5)]


@pytest.mark.parametrize("field", ["x" * 200_000, '"a\nb"', '"a""b"', '"', "\0"])
def test_odd_fields_of_other_columns_cost_no_other_row(tmp_path, field):
    rows = "".join(f"{n},b{n},plain\n" for n in range(10, 2000, 10))
    text = f"time,badge,other\n5,b5,{field}\n{rows}"
    found = dict(replayed(tmp_path, TEXTS, text))
    expected = {n: word(f"b{n}") for n in range(10, 2000, 10)}
    if field == '"':  # quotes all that follows
        expected = {}
    assert {at: key for at, key in found.items() if at != 5} == expected


def test_buffers_are_overwritten_after_use(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("time,badge\n" + "".join(f"{n},same\n" for n in range(3000)))
    kept, count = [], 0
    for readings in replay.blocks(path, TEXTS):
        count += len(readings.at)
        assert (readings.rows == word("same")).all()
        kept.append(readings.rows)
    assert count == 3000
    assert not any((rows == word("same")).any() for rows in kept)


def test_stdin_hands_keys_over_at_the_clocks_time():
    reader, writer = os.pipe()
    os.write(writer, b'{"badge": "b1"}\nnonsense\n{"badge": 4}\n{}\n{"badge": "b1"}\n')
    os.close(writer)
    clock = Clock(lambda: 77.0, lambda: 77.0, lambda *_: False)
    rows, kept = [], []
    for readings in stdin.lines(reader, TEXTS, clock, threading.Event()):
        rows += zip(readings.at.tolist(), readings.rows.tolist(), strict=True)
        kept.append(readings.rows)
    os.close(reader)
    assert rows == [(77, word("b1")), (77, word("4")), (77, NONE), (77, word("b1"))]
    assert not any(rows.any() for rows in kept)


KEYS = st.lists(st.integers(0, 5) | st.integers(0, NONE - 1) | st.just(NONE), max_size=40)


@given(KEYS, st.data())
def test_exactly_the_keys_that_are_there_are_absorbed(keys, data):
    rows = np.array(keys, np.uint64)
    left_out = np.array([data.draw(st.booleans()) for _ in keys], np.bool_)
    drop(rows, left_out)
    expected = [k for k, out in zip(keys, left_out, strict=True) if k != NONE and not out]
    given_to_sketch = to_absorb(rows)
    assert Counter(given_to_sketch.tolist()) == Counter(expected)
    assert given_to_sketch.base is rows, "a copy would linger"


def test_readings_pass_as_they_are():
    rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    drop(rows, np.array([True, False]))
    assert to_absorb(rows) is rows
    assert np.isinf(rows[0]).all()  # NaN would be a missing value.
    assert rows[1].tolist() == [3, 4]


def windows_of(spec, schedule, live=False):
    return Windows((spec,), schedule, ENTROPY, live=live)


def counted(closed) -> int:
    return round(closed.sketches[0].release(ENTROPY).distinct().value)


def keys(*numbers: int):
    return np.array(numbers, np.uint64)


def test_keys_reach_their_own_window_once_each():
    windows = windows_of(EXACT, Schedule(10, 0))
    closed = []
    for index, rows in ((0, keys(1, 2, 2, NONE, 1)), (1, keys(NONE)), (3, keys(*range(500)))):
        closed += windows.advance_to(index)
        windows.absorb(index, rows)
    windows.absorb(0, keys(*range(900)))  # too late
    closed += windows.finish()
    assert [counted(each) for each in closed] == [2, 0, 0, 500]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=30).map(sorted))
def test_a_replay_counts_the_keys_of_each_window(events):
    schedule, expected = Schedule(10, 3), {}
    windows = windows_of(EXACT, schedule)
    for at, key in events:
        expected.setdefault(schedule.index(at), set()).add(key)
    at, rows = np.array([e[0] for e in events], float), keys(*(e[1] for e in events))
    closed = []
    for index, _, part in schedule.split(at, rows):
        closed += windows.advance_to(index)
        windows.absorb(index, part)
    closed += windows.finish()
    got = {schedule.index(each.span.start): counted(each) for each in closed}
    assert {i: n for i, n in got.items() if n} == {i: len(s) for i, s in expected.items() if s}


def test_every_window_has_a_spec_of_its_own_that_all_devices_agree_on():
    fingerprints = []
    for name in ("one", "two"):
        schedule = schedule_for(name, 86400)
        windows = windows_of(EXACT, schedule)
        closed = [*windows.advance_to(100), *windows.advance_to(103), *windows.finish()]
        released = [each.sketches[0].release(ENTROPY) for each in closed]
        fingerprints.append([release.spec.fingerprint for release in released])
        for each, release in zip(closed, released, strict=True):
            index = window_index(each.span.start, 86400)
            assert release.spec.fingerprint == EXACT.for_window(index).fingerprint
    assert schedule_for("one", 86400).offset != schedule_for("two", 86400).offset
    assert fingerprints[0] == fingerprints[1]
    assert len(set(fingerprints[0])) == 4


def test_an_announced_intrusion_freezes_the_open_window_and_not_the_next():
    windows = windows_of(EXACT, Schedule(10, 0), live=True)
    list(windows.advance_to(0))
    windows.absorb(0, keys(1, 2, 3))
    windows.rerandomise()
    windows.absorb(0, keys(4, 5, 6, 7))
    (first,) = windows.advance_to(1)
    windows.absorb(1, keys(1, 2, 3, 4))
    (second,) = windows.advance_to(2)
    releases = [each.sketches[0].release(ENTROPY) for each in (first, second)]
    assert [round(release.distinct().value) for release in releases] == [3, 4]
    assert [is_incomplete(release) for release in releases] == [True, False]
