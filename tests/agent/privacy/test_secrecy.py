"""No value of a reading, and no count of readings, in any log, message, or file."""

import gzip
import struct

import pytest

MARK = 17.348261593
TEXT = str(MARK)
NEEDLES = [TEXT.encode(), TEXT[:8].encode(), struct.pack("<d", MARK), struct.pack(">d", MARK)]
BAD_CELLS = f"2024-01-01T00:40:00Z,x{TEXT},N\n{TEXT},{TEXT},N{TEXT}\n{TEXT}T,1,N\n\n"
ROWS = f"time,temp,wind\n2024-01-01T00:30:00Z,{TEXT},N\n{BAD_CELLS}2024-01-01T01:30:00Z,{TEXT},N\n"


def found_in(content: bytes) -> list[bytes]:
    return [needle for needle in NEEDLES if needle in content]


def check_folder(folder) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert not found_in(path.read_bytes()), path


def test_the_search_finds_what_exists(tmp_path):
    (tmp_path / "leak").write_bytes(b"..." + struct.pack("<d", MARK))
    with pytest.raises(AssertionError, match="leak"):
        check_folder(tmp_path)


def test_a_replay_leaves_no_value_behind(device, broker, peer):
    device.configure(broker.url, rows=ROWS)
    with peer(broker.url) as collector:
        agent = device.start("run")
        assert agent.wait() in (0, 1)
    assert not found_in(agent.output.encode())
    assert collector.releases
    assert not any(found_in(payload) for payload in collector.releases)
    check_folder(device.state)


def test_a_damaged_file_leaves_no_value_behind(device, tmp_path):
    whole = gzip.compress((ROWS + ROWS.splitlines(keepends=True)[-1] * 1000).encode())
    (tmp_path / "rows.csv.gz").write_bytes(whole[:-20])
    device.configure(source="{type: replay, path: rows.csv.gz}", rows=ROWS)
    agent = device.start("run", "--drain", "0")
    assert agent.wait() == 1
    assert "is damaged" in agent.output
    assert not found_in(agent.output.encode())


def test_a_header_of_values_is_not_quoted_by_a_failing_stream(device):
    device.configure(source="{type: stdin}", window="1s")
    agent = device.start("once", "--drain", "0")
    for line in (f'{{"temp": {TEXT}, "wind": "N"}}', TEXT, f'{{"temp": "{TEXT}"', f"{{{TEXT}: 1}}"):
        agent.process.stdin.write(line + "\n")
        agent.process.stdin.flush()
    assert agent.wait() == 1
    assert not found_in(agent.output.encode())
    check_folder(device.state)


BROKEN_SKETCH = """
import sys
from pansketch_agent.windows import window
from pansketch_agent.__main__ import main

def broken(self, index, rows):
    raise ValueError(f"could not absorb {rows.tolist()}")

window.Windows.absorb = broken
sys.exit(main(sys.argv[1:]))
"""


def test_an_unforeseen_error_states_where_and_not_what(device):
    device.configure(rows=ROWS)
    agent = device.start("run", "--drain", "0", program=("-c", BROKEN_SKETCH))
    assert agent.wait() == 1
    assert "air: stopped by ValueError at __main__:" in agent.output
    assert not found_in(agent.output.encode())


@pytest.mark.parametrize("count", [1, 4000])
def test_the_agent_states_the_same_for_any_number_of_readings(device, count):
    rows = "time,temp,wind\n" + f"2024-01-01T00:30:00Z,{TEXT},N\n" * count
    device.configure(rows=rows)
    agent = device.start("run", "--drain", "0")
    assert agent.wait() == 1
    # The first depends on the machine, the second on when the broker is asked for.
    around = ("running without protection of", "no broker")
    lines = [line for line in agent.output.splitlines() if not any(a in line for a in around)]
    assert len(lines) == 4
    assert "4000" not in agent.output
    assert [debit[0] for debit in device.ledger()] == ["1"]
