"""SIGKILL at 24 random points while publishing: nothing is released twice, nothing is free.

`make chaos` kills more, in a whole fleet.

The rows jump back a year again and again, as when a clock is set back.
"""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pansketch import peek
from pansketch_agent.commands.list_outbox import releases_in
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.records import FORGOTTEN, RELEASE, Key, encode
from pansketch_fleet.protocol.messages import digest
from tests.waiting import SECONDS, until

KILLS, FOLDERS = 24, 2
NEW_YEAR, YEAR = 1_704_067_200, 365 * 86400
WINDOWS = 30_000
WINDOW_SECONDS = 10


def rows() -> str:
    lines = ["time,temp,wind"]
    for number in range(WINDOWS):
        at = NEW_YEAR + WINDOW_SECONDS * number
        lines.append(f"{at},1,N")
        if number % 40 == 0:
            lines += [f"{at - YEAR + n},2,N" for n in range(0, 50, 10)]
    return "\n".join(lines)


def check_books(state: Path) -> tuple[int, int]:
    """Debits and releases match; returns how many there are of each."""
    with Ledger(state) as ledger:
        assert not ledger.torn
    lines = (state / "ledger").read_text().splitlines()[1:]
    debits = {int(line.split()[1]): line.split()[3:5] for line in lines}
    assert len(debits) == len(lines), "a sequence number was debited twice"
    assert sorted(debits) == list(range(1, len(lines) + 1))
    releases = dict(releases_in(state / "outbox"))
    windows = [peek(payload).windows[0] for payload in releases.values()]
    for key, window in zip(releases, windows, strict=True):
        assert key == Key(window.sequence, "air")
        assert [str(window.start), str(window.end)] == debits[window.sequence]
    assert len({window.start for window in windows}) == len(windows), "a window twice"
    assert [w.start for w in windows] == sorted(w.start for w in windows)
    return len(debits), len(windows)


def wait_for_debits(agent, ledger: Path, count: int) -> None:
    ended = agent.process.poll
    until(lambda: debits_in(ledger) >= count or ended() is not None, lambda: agent.output)
    assert ended() is None, agent.output


def debits_in(ledger: Path) -> int:
    return ledger.read_text().count("\n") - 1 if ledger.exists() else 0


def kill_again_and_again(device, seed: int) -> tuple[int, int]:
    """Starts the agent and kills it while it publishes; returns debits and releases."""
    uniform = random.Random(seed)
    seen: dict[Key, str] = {}
    for number in range(KILLS // FOLDERS):
        before = debits_in(device.state / "ledger")
        agent = device.start("run")
        # A window is released before the next one is debited: three of four kills come after one.
        wait_for_debits(agent, device.state / "ledger", before + 1 + number % 4)
        time.sleep(uniform.random() * 0.05)
        agent.process.kill()
        assert agent.process.wait(SECONDS) == -9
        close(device)
        now = {key: digest(payload) for key, payload in device.releases().items()}
        assert seen.items() <= now.items(), "lost, or used again with other bytes"
        seen = now
    return check_books(device.state)


def close(device) -> None:
    for running in device.started:
        running.close()
    device.started.clear()


def test_kills(device, tmp_path):
    devices = [type(device)(tmp_path / f"d{number}") for number in range(FOLDERS)]
    text = rows()
    for each in devices:
        each.folder.mkdir()
        each.configure(window=f"{WINDOW_SECONDS}s", rows=text)
    with ThreadPoolExecutor(FOLDERS) as pool:
        seeds = [int.from_bytes(random.randbytes(4), "big") for _ in devices]
        results = list(pool.map(kill_again_and_again, devices, seeds))
    for debits, releases in results:
        assert releases > KILLS // FOLDERS, "the kills came while it published"
        # A debit without a release is a window lost to a kill, and a kill loses at most one.
        assert 0 <= debits - releases <= KILLS // FOLDERS


def test_the_books_are_checked(device):
    """The control: a release without a debit, one twice, and a wrong window are each found."""
    device.configure(window="10s", rows="\n".join(rows().splitlines()[:30]))
    assert device.start("run", "--drain", "0").wait() == 1
    debits, releases = check_books(device.state)
    assert debits == releases > 10
    (segment,) = (device.state / "outbox").glob("*.segment")
    whole, first = segment.read_bytes(), next(iter(device.releases().values()))
    for sequence in (2, 999999):
        key = Key(sequence, "air")
        segment.write_bytes(whole + encode(FORGOTTEN, key) + encode(RELEASE, key, first))
        with pytest.raises(AssertionError):
            check_books(device.state)
    segment.write_bytes(whole)
    check_books(device.state)
