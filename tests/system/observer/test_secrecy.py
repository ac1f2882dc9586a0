"""A marked reading, searched in all that leaves a device or stays behind: files, messages, logs."""

import struct
import subprocess

import pytest

MARK = 21.734519
TEXT = str(MARK).encode()
# Both attributes hold the mark, so a float32 is searched beside its neighbour. Its four bytes alone
# would occur by chance in 1 of 2000 runs, among the 10^6 searched here. Seven bytes do in 1 of
# 10^10.
NEEDLES = [
    TEXT,
    TEXT[:7],
    *(struct.pack(order + "d", MARK) for order in "<>"),
    *(struct.pack(order + "ff", MARK, MARK) for order in "<>"),
]


def holds_the_mark(content):
    return any(needle in content for needle in NEEDLES)


def marked_files(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files, f"nothing to search in {folder}"
    return sorted(path.name for path in files if holds_the_mark(content_of(path)))


def content_of(path):
    try:
        return path.read_bytes()
    except FileNotFoundError:  # An outbox forgets a release as soon as it is acknowledged.
        return b""


@pytest.mark.parametrize("needle", NEEDLES)
def test_the_search_finds_every_form_of_the_mark(tmp_path, needle):
    (tmp_path / "clean").write_bytes(b"21.73 21.8 17")
    (tmp_path / "leak").write_bytes(b"..." + needle + b"...")
    assert marked_files(tmp_path) == ["leak"]


def feed(agent):
    """Some readings through standard input: good ones, a wrong category of line, a broken one."""
    line = b'{"temp": %s, "pm25": %s}\n' % (TEXT, TEXT)
    agent.process.stdin.write(line * 50 + TEXT + b"\n" + line[:-3] + b"\n" + line)
    agent.process.stdin.close()


def test_a_marked_reading_is_nowhere_to_be_found(fleet, listen):
    # Windows of a second, so that the live one is released soon, for both: the collector accepts
    # only windows of its configured length.
    rows = [(1704067200 + number // 40, MARK, MARK) for number in range(120)]
    fleet.configure("dev-1", rows, window="1s", epsilon=100)
    fleet.configure("dev-2", [], source="{type: stdin}", window="1s", epsilon=100)
    with (fleet.folder / "dev-1.csv").open("a") as file:
        file.write(f"{MARK},{MARK}\n1704067203,x{MARK},{MARK}\n{MARK}T,,\n")
    fleet.start_broker()
    listener = listen(fleet)
    collector = fleet.collector()
    replaying, live = fleet.agent("dev-1"), fleet.agent("dev-2", stdin=subprocess.PIPE)
    feed(live)
    # With the programs still running: nothing of it in a write-ahead log or an outbox either.
    fleet.until(lambda: fleet.stored("dev-1") and fleet.stored("dev-2"), "releases of both")
    assert marked_files(fleet.folder / "var") == []
    assert [replaying.wait(), live.wait()] == [0, 0]
    assert collector.stop() == 0
    # The readings did go in: what is stored knows of them, as far as its guarantee lets it.
    answer = fleet.ask(
        "query", "--stream", "air", "range", "temp", "20", "23", "--devices", "dev-2"
    )
    assert float(answer.split()[0]) > 25
    assert marked_files(fleet.folder / "var") == []
    logs = {program.log.name: program.output for program in fleet.programs}
    assert [name for name, said in logs.items() if holds_the_mark(said.encode())] == []
    assert all(logs[name] for name in logs if "broker" not in name)
    # A planted mark is found in the same folder and by the same listener.
    assert marked_files(fleet.folder) == ["dev-1.csv"]
    listener.publish("planted", struct.pack("<d", MARK))
    fleet.until(lambda: listener.on("planted"), "the planted message")
    kinds = {place.split("/")[4] for place, _ in listener.messages if place != "planted"}
    assert kinds == {"release", "ack", "mark", "status", "health"}
    assert [place for place, payload in listener.messages if holds_the_mark(payload)] == ["planted"]
