"""Findings of fuzzing, each with the smallest input that shows it."""

import gzip
import json
import tracemalloc

import pytest

from pansketch import WireError, read_header
from pansketch.randomness.keyed_hash import digest
from pansketch.wire.codec import MAGIC, VERSION
from pansketch_agent.__main__ import main as agent_main
from pansketch_agent.commands import list_outbox, list_sensors
from pansketch_agent.outbox.dead_letters import dropped_in
from pansketch_agent.outbox.records import RELEASE, SIGNATURE, Key, encode
from pansketch_agent.sources import replay
from pansketch_agent.sources.decoders import KeyDecoder
from pansketch_agent.sources.readings import NotOfferedError, SourceError
from pansketch_collector.__main__ import main as collector_main
from pansketch_fleet.protocol.messages import Ack

READING = "271828.182"


@pytest.fixture
def peak():
    """A function that calls another one and returns the most bytes that it held."""

    def measure(call):
        tracemalloc.start()
        try:
            call()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return measure


def test_lists_that_claim_much_within_lists_take_no_memory(peak):
    body = b"\xdd\x00\x10\x00\x00" * 900

    def refused():
        with pytest.raises(WireError, match="malformed"):
            read_header(MAGIC + bytes([VERSION]) + digest(body, 8) + body)

    assert peak(refused) < 1 << 20


def test_a_file_without_names_of_columns_does_not_show_its_first_row(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(f"{READING},N\n3,E\n")
    with pytest.raises(SourceError, match="does not begin with the names of columns") as caught:
        replay.check(path, ["temp"])
    assert READING not in str(caught.value)


@pytest.mark.parametrize("header", ["time,\x1b[2J", "temp,\x1b[2J", "time," + "x" * 9999])
def test_names_of_columns_are_shown_in_one_short_line(header, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(header + "\n")
    with pytest.raises((SourceError, NotOfferedError)) as caught:
        replay.check(path, ["temp"])
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("endless", [b"N" * (1 << 24), b'"xy\n",' * (1 << 17)], ids=["line", "row"])
def test_a_small_file_that_unfolds_to_an_endless_row_takes_no_memory(endless, tmp_path, peak):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"time,key\n1,a\n2," + endless, 1))
    counts = []

    def replayed():
        found = replay.blocks(path, KeyDecoder("key", None))
        counts.extend(len(block.at) for block in found)

    assert peak(replayed) < 4 << 20
    assert sum(counts) < 3


def test_the_row_after_one_that_is_too_long_is_read(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("time,key\n1,a\n2," + "x" * replay.MAX_ROW + "\n3,b\n")
    found = [*replay.blocks(path, KeyDecoder("key", None))]
    assert [block.at.tolist() for block in found] == [[1.0, 3.0]]


def test_the_name_of_a_chip_is_printable_and_no_path(tmp_path):
    chip = tmp_path / "sys/class/hwmon/hwmon0"
    chip.mkdir(parents=True)
    (chip / "temp1_input").write_text("41000\n")
    for name in ("\x1b[2J", "core/temp9x", "core/x"):
        (chip / "name").write_text(name)
        sensor, *_ = list_sensors.sensors(tmp_path)
        assert (sensor.place, sensor.readable) == ("hwmon0/temp1", True)


def test_a_message_that_is_refused_is_one_printable_line():
    with pytest.raises(ValueError, match="unknown field") as caught:
        Ack.decode(b'{"\\u001b[2J":1}')
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("main", [agent_main, collector_main])
@pytest.mark.parametrize("word", ["a\nb", "\x1b[2J", "9" * 9000])
def test_a_wrong_word_is_one_short_printable_line(main, word, capsys):
    for words in (
        [word],
        ["--no-such", word],
        ["devices", word],
        ["exclude", word],
        ["validate", word],
    ):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert said.removesuffix("\n").isprintable()
        assert len(said) < 2000


@pytest.mark.parametrize("content", [b"-1", b"9" * 20, b"1_0", b" 7", b"7\n\n", b"\xff", b""])
def test_a_damaged_count_of_what_was_dropped_counts_nothing(content, tmp_path):
    """An agent whose health had a number that no health may have ended at each start."""
    (tmp_path / "dropped").write_bytes(content)
    assert dropped_in(tmp_path) == 0
    (tmp_path / "dropped").write_bytes(b"7\n")
    assert dropped_in(tmp_path) == 7


@pytest.mark.parametrize("payload", [b"", b"PANS", MAGIC + bytes([99]) + bytes(40)])
def test_a_release_of_another_version_is_listed_and_exported(payload, tmp_path):
    record = encode(RELEASE, Key(7, "air"), payload)
    (tmp_path / "00000001.segment").write_bytes(SIGNATURE + record)
    _, row = list_outbox.as_rows(tmp_path, 0.0, None)
    assert row == ("7", "air", "-", "-", str(len(payload)), "-", "-")
    (line,) = list_outbox.as_jsonl("meadow", "post-7", tmp_path)
    assert json.loads(line)["topic"] == "pansketch/v1/meadow/post-7/release/air"
    assert json.loads(line)["window"] is None
