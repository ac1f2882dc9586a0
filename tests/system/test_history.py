"""No history is lost and no window is released twice when a ledger or a database goes back."""

import shutil
import signal
import subprocess

import pytest

from pansketch import peek
from pansketch_agent.commands.list_outbox import releases_in
from pansketch_agent.ledger.ledger import Ledger

LIVE = {"source": "{type: stdin}", "window": "2s"}
HOUR = 3600.0
BEGIN = 1_704_067_200.0
ROWS = [(BEGIN + 600 * n, 20.0, 35.0) for n in range(6 * 8)]


def state_of(house):
    return house.folder / "var/agent/dev-1"


def stored(house):
    """(incarnation, sequence, start, digest) of every stored release."""
    return house.rows(
        "SELECT incarnation, sequence, window_start, digest FROM releases ORDER BY window_start"
    )


def outbox_of(house):
    return list(releases_in(state_of(house) / "outbox"))


def disputed(house):
    return house.rows("SELECT count(*) FROM disputed") or [(0,)]


def live(house, windows):
    """Runs a live agent until so many windows are stored, and stops it when all it made are."""
    agent = house.agent("dev-1", stdin=subprocess.PIPE)
    house.until(lambda: len(stored(house)) >= windows, f"{windows} windows")
    house.until(lambda: not outbox_of(house), "an empty outbox")
    agent.stop()
    return agent


def test_a_replay_whose_ledger_was_lost_releases_nothing(house):
    house.configure("dev-1", ROWS)
    house.start_broker()
    collector = house.collector()
    assert house.agent("dev-1").ends() == 0
    before = stored(house)
    assert len(before) >= 8
    shutil.rmtree(state_of(house))
    agent = house.agent("dev-1")
    assert agent.ends() == 1
    assert "that " in agent.said
    assert "does not know" in agent.said
    assert house.ledger() == [], "nothing was spent"
    assert stored(house) == before
    assert disputed(house) == [(0,)]
    assert not list((state_of(house) / "outbox").glob("*.segment"))
    assert collector.stop() == 0


def test_a_replay_that_began_offline_sends_nothing_that_was_released_before(house):
    house.configure("dev-1", ROWS)
    broker = house.start_broker()
    collector = house.collector()
    assert house.agent("dev-1").ends() == 0
    before = stored(house)
    shutil.rmtree(state_of(house))
    broker.stop(signal.SIGKILL)
    agent = house.agent("dev-1")
    house.until(lambda: len(house.ledger()) == len(before), "a replay without a broker")
    house.start_broker()
    assert agent.ends() == 1
    assert "none is sent" in agent.said
    assert stored(house) == before
    assert disputed(house) == [(0,)]
    assert len(list((state_of(house) / "outbox/refused").iterdir())) == len(before)
    collector.stop()


def test_a_replay_of_a_restored_ledger_goes_no_further(house):
    """The copy is of the middle of the replay, whose end the collector has."""
    house.configure("dev-1", ROWS[:24])
    house.start_broker()
    collector = house.collector()
    assert house.agent("dev-1").ends() == 0
    shutil.copytree(state_of(house), house.folder / "copy")
    house.configure("dev-1", ROWS)
    assert house.agent("dev-1").ends() == 0
    before, known = stored(house), len(house.ledger())
    shutil.rmtree(state_of(house))
    shutil.copytree(house.folder / "copy", state_of(house))
    spent = house.ledger()
    assert len(spent) < known
    agent = house.agent("dev-1")
    assert agent.ends() == 1
    assert "does not know" in agent.said
    assert house.ledger() == spent
    assert stored(house) == before
    collector.stop()


@pytest.mark.parametrize("loss", ["lost", "restored", "ledger alone"])
def test_a_live_device_keeps_its_history_and_goes_on(house, loss):
    """A new card, a copy of its state, a deleted ledger beside an outbox that keeps acknowledged
    releases: what is stored stays, new windows come on top, and none that is debited is lost."""
    house.configure("dev-1", [], **LIVE)
    house.start_broker()
    collector = house.collector()
    live(house, 4)
    shutil.copytree(state_of(house), house.folder / "copy")
    live(house, 9)
    before = stored(house)
    if loss == "ledger alone":
        (state_of(house) / "ledger").unlink()
    else:
        shutil.rmtree(state_of(house))
    if loss == "restored":
        shutil.copytree(house.folder / "copy", state_of(house))
    copied = len(house.ledger()) if loss == "restored" else 0
    agent = live(house, len(before) + 3)
    after = stored(house)
    assert after[: len(before)] == before
    assert len(after) >= len(before) + 3
    assert len({row[2] for row in after}) == len(after), "a window twice"
    assert len({row[0] for row in after}) == 2, "another incarnation"
    waiting = {peek(payload).windows[0].start for _, payload in outbox_of(house)}
    assert {start for _, start, _ in house.ledger()} <= {row[2] for row in after} | waiting
    assert disputed(house) == [(0,)]
    assert "that this ledger does not know" in agent.said
    with Ledger(state_of(house)) as ledger:
        account = ledger.spent("air")
    # A mark is at most a minute old; the window that was last stored may not be in it yet.
    assert account.adopted >= len(before) - copied - 1
    assert account.lifetime_micro == (account.adopted + account.releases) * 1_000_000
    assert len({row[0] for row in stored(house)}) == 2
    assert f" {len(after)} " in house.ask("devices").splitlines()[1]
    collector.stop()


def test_a_restored_database_gets_what_it_lacks(house):
    """All that was stored is stored again, with the same bytes, and new windows come on top."""
    house.configure("dev-1", ROWS[:24])
    house.start_broker()
    collector = house.collector()
    assert house.agent("dev-1").ends() == 0
    assert collector.stop() == 0
    database = house.folder / "var/collector.sqlite"
    shutil.copy(database, house.folder / "backup")
    backup = stored(house)
    collector = house.collector()
    house.configure("dev-1", ROWS)
    assert house.agent("dev-1").ends() == 0
    before = stored(house)
    assert len(before) > len(backup)
    assert collector.stop() == 0
    shutil.copy(house.folder / "backup", database)
    assert stored(house) == backup
    collector = house.collector()
    more = [*ROWS, *[(ROWS[-1][0] + 600 * n, 20.0, 35.0) for n in range(1, 12)]]
    house.configure("dev-1", more)
    agent = house.agent("dev-1")
    assert agent.ends() == 0, agent.said
    assert "was restored" in agent.said
    after = stored(house)
    assert after[: len(before)] == before, "the very bytes"
    assert len(after) > len(before)
    assert disputed(house) == [(0,)]
    assert len(house.ledger()) == len(after), "nothing was spent for it"
    collector.stop()
