"""No history is lost and no window is released twice when a ledger or a database goes back."""

import shutil
import signal
import subprocess

import pytest

from pansketch import read_header
from pansketch_agent.commands.list_outbox import releases_in
from pansketch_agent.ledger.ledger import Ledger

LIVE = {"source": "{type: stdin}", "window": "2s"}
HOUR = 3600.0
BEGIN = 1_704_067_200.0
ROWS = [(BEGIN + 600 * n, 20.0, 35.0) for n in range(6 * 8)]


def state_of(fleet):
    return fleet.folder / "var/agent/dev-1"


def stored(fleet):
    """(incarnation, sequence, start, digest) of every stored release."""
    return fleet.rows(
        "SELECT incarnation, sequence, window_start, digest FROM releases ORDER BY window_start"
    )


def outbox_of(fleet):
    return list(releases_in(state_of(fleet) / "outbox"))


def disputed(fleet):
    return fleet.rows("SELECT count(*) FROM disputed") or [(0,)]


def live(fleet, windows):
    """Runs a live agent until so many windows are stored, and stops it when all it made are."""
    agent = fleet.agent("dev-1", stdin=subprocess.PIPE)
    fleet.until(lambda: len(stored(fleet)) >= windows, f"{windows} windows")
    fleet.until(lambda: not outbox_of(fleet), "an empty outbox")
    agent.stop()
    return agent


def test_a_replay_whose_ledger_was_lost_releases_nothing(fleet):
    fleet.configure("dev-1", ROWS)
    fleet.start_broker()
    collector = fleet.collector()
    assert fleet.agent("dev-1").wait() == 0
    before = stored(fleet)
    assert len(before) >= 8
    shutil.rmtree(state_of(fleet))
    agent = fleet.agent("dev-1")
    assert agent.wait() == 1
    assert "that " in agent.output
    assert "does not know" in agent.output
    assert fleet.ledger() == [], "nothing was spent"
    assert stored(fleet) == before
    assert disputed(fleet) == [(0,)]
    assert not list((state_of(fleet) / "outbox").glob("*.segment"))
    assert collector.stop() == 0


def test_a_replay_that_began_offline_sends_nothing_that_was_released_before(fleet):
    fleet.configure("dev-1", ROWS)
    broker = fleet.start_broker()
    collector = fleet.collector()
    assert fleet.agent("dev-1").wait() == 0
    before = stored(fleet)
    shutil.rmtree(state_of(fleet))
    broker.stop(signal.SIGKILL)
    agent = fleet.agent("dev-1")
    fleet.until(lambda: len(fleet.ledger()) == len(before), "a replay without a broker")
    fleet.start_broker()
    assert agent.wait() == 1
    assert "none is sent" in agent.output
    assert stored(fleet) == before
    assert disputed(fleet) == [(0,)]
    assert len(list((state_of(fleet) / "outbox/refused").iterdir())) == len(before)
    collector.stop()


def test_a_replay_of_a_restored_ledger_goes_no_further(fleet):
    """The copy is of the middle of the replay, whose end the collector has."""
    fleet.configure("dev-1", ROWS[:24])
    fleet.start_broker()
    collector = fleet.collector()
    assert fleet.agent("dev-1").wait() == 0
    shutil.copytree(state_of(fleet), fleet.folder / "copy")
    fleet.configure("dev-1", ROWS)
    assert fleet.agent("dev-1").wait() == 0
    before, known = stored(fleet), len(fleet.ledger())
    shutil.rmtree(state_of(fleet))
    shutil.copytree(fleet.folder / "copy", state_of(fleet))
    spent = fleet.ledger()
    assert len(spent) < known
    agent = fleet.agent("dev-1")
    assert agent.wait() == 1
    assert "does not know" in agent.output
    assert fleet.ledger() == spent
    assert stored(fleet) == before
    collector.stop()


@pytest.mark.parametrize("loss", ["lost", "restored", "ledger alone"])
def test_a_live_device_keeps_its_history_and_goes_on(fleet, loss):
    """A new card, a copy of its state, and a deleted ledger beside an outbox.

    The outbox keeps acknowledged releases. Stored releases stay, new windows are added, and no
    debited one is lost.
    """
    fleet.configure("dev-1", [], **LIVE)
    fleet.start_broker()
    collector = fleet.collector()
    live(fleet, 4)
    shutil.copytree(state_of(fleet), fleet.folder / "copy")
    live(fleet, 9)
    before = stored(fleet)
    if loss == "ledger alone":
        (state_of(fleet) / "ledger").unlink()
    else:
        shutil.rmtree(state_of(fleet))
    if loss == "restored":
        shutil.copytree(fleet.folder / "copy", state_of(fleet))
    copied = len(fleet.ledger()) if loss == "restored" else 0
    agent = live(fleet, len(before) + 3)
    after = stored(fleet)
    assert after[: len(before)] == before
    assert len(after) >= len(before) + 3
    assert len({row[2] for row in after}) == len(after), "a window twice"
    assert len({row[0] for row in after}) == 2, "another incarnation"
    waiting = {read_header(payload).windows[0].start for _, payload in outbox_of(fleet)}
    assert {start for _, start, _ in fleet.ledger()} <= {row[2] for row in after} | waiting
    assert disputed(fleet) == [(0,)]
    assert "that this ledger does not know" in agent.output
    with Ledger(state_of(fleet)) as ledger:
        account = ledger.spent("air")
    # A mark is at most a minute old; the window that was last stored may not be in it yet.
    assert account.adopted >= len(before) - copied - 1
    assert account.lifetime_micro == (account.adopted + account.releases) * 1_000_000
    assert len({row[0] for row in stored(fleet)}) == 2
    assert f" {len(after)} " in fleet.ask("devices").splitlines()[1]
    collector.stop()


def test_a_restored_database_gets_what_it_lacks(fleet):
    """All that was stored is stored again, with the same bytes, and new windows come on top."""
    fleet.configure("dev-1", ROWS[:24])
    fleet.start_broker()
    collector = fleet.collector()
    assert fleet.agent("dev-1").wait() == 0
    assert collector.stop() == 0
    database = fleet.folder / "var/collector.sqlite"
    shutil.copy(database, fleet.folder / "backup")
    backup = stored(fleet)
    collector = fleet.collector()
    fleet.configure("dev-1", ROWS)
    assert fleet.agent("dev-1").wait() == 0
    before = stored(fleet)
    assert len(before) > len(backup)
    assert collector.stop() == 0
    shutil.copy(fleet.folder / "backup", database)
    assert stored(fleet) == backup
    collector = fleet.collector()
    more = [*ROWS, *[(ROWS[-1][0] + 600 * n, 20.0, 35.0) for n in range(1, 12)]]
    fleet.configure("dev-1", more)
    agent = fleet.agent("dev-1")
    assert agent.wait() == 0, agent.output
    assert "so they are retransmitted" in agent.output
    after = stored(fleet)
    assert after[: len(before)] == before, "the very bytes"
    assert len(after) > len(before)
    assert disputed(fleet) == [(0,)]
    assert len(fleet.ledger()) == len(after), "nothing was spent for it"
    collector.stop()
