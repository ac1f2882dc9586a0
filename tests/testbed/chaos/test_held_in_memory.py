"""`python -m testbed.chaos` and `persist: when_unacknowledged`: what a kill may take, and what
not."""

import signal
import time
from collections import Counter
from dataclasses import replace

import pytest

from pansketch_agent.commands.list_outbox import releases_in
from pansketch_agent.outbox.write_behind import BUFFER_SECONDS
from pansketch_fleet.protocol.messages import digest
from testbed.chaos.accounting.accounting import MERGED, NOWHERE, RISKED, UNKEPT, WAITING, account
from testbed.chaos.accounting.evidence import Evidence, Row, Run
from testbed.chaos.environment.configuration import (
    MASKED,
    Site,
    agent_command,
    devices,
    state_in,
    write_behind_among,
)
from testbed.chaos.environment.supervisor import Service, Supervisor
from testbed.chaos.observation.held_in_memory import LATE_SECONDS, Ages, Held
from testbed.chaos.observation.ledger_marks import Debit, Marks, Span, debits_in
from testbed.chaos.observation.observer import Name, Observer, named
from tests.waiting import until

KILLED, ENDED = -signal.SIGKILL, -signal.SIGTERM
USUAL, PATIENT, PLANTED = "dev-05", "dev-11", "dev-09"
NAMES = tuple(device.name for device in devices(12))
LOST = Name(PATIENT, "air", 7)
DEBITED = (Debit(LOST, 1, 9),)
TOO_FEW = "only 0.0% of what no fault destroyed were merged; wanted: 95%"

# An agent under the option that never comes to writing what it holds.
NEVER_WRITES = """
import sys
from pansketch_agent.__main__ import main
from pansketch_agent.outbox import write_behind
write_behind.BUFFER_SECONDS = 1e9
sys.exit(main(sys.argv[1:]))
"""


def left(held=(), debits=DEBITED, waiting=None, stored=(), made=None):
    """The evidence of a run of twelve devices without faults, with these changes."""
    run = Run(1, NAMES, 1, {}, {}, {}, (), {}, held=tuple(held))
    return Evidence(
        run, made or {}, tuple(debits), (), tuple(stored), (), "ok", {}, 0,
        waiting or {}, frozenset(), {}, {}, (),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("held", "where"),
    [
        ([Held(LOST, 0.0, KILLED)], RISKED),
        ([Held(LOST, BUFFER_SECONDS + LATE_SECONDS, KILLED)], RISKED),
        ([Held(LOST, BUFFER_SECONDS + LATE_SECONDS + 0.1, KILLED)], NOWHERE),
        ([Held(LOST, 1.0, 0)], NOWHERE),
        ([Held(LOST, 1.0, 1)], NOWHERE),
        ([Held(LOST, 1.0, ENDED)], NOWHERE),
        ([Held(LOST, 1.0, -signal.SIGSEGV)], NOWHERE),
        ([Held(Name(PATIENT, "air", 6), 1.0, KILLED)], NOWHERE),
        ([Held(Name(PATIENT, "load", 7), 1.0, KILLED)], NOWHERE),
        ([], NOWHERE),
    ],
)
def test_only_a_kill_in_time_explains_a_loss(held, where):
    """Negative controls: too late, an end in good order or without a kill, another release."""
    found = account(left(held))
    assert found.classes == {LOST: where}
    assert found.failures == (() if where == RISKED else (f"{LOST}: debited, and nowhere", TOO_FEW))


def test_a_kill_explains_nothing_for_a_device_that_writes_before_it_sends():
    name = Name(USUAL, "air", 7)
    found = account(left([Held(name, 1.0, KILLED)], [Debit(name, 1, 9)]))
    assert found.classes == {name: NOWHERE}
    assert found.failures == (f"{name}: debited, and nowhere", TOO_FEW)


def test_what_arrived_before_the_kill_is_merged():
    row = Row(LOST, 1, 9, 0, digest(b"payload"), b"payload")
    made = {LOST: {row.digest: b"payload"}}
    found = account(left([Held(LOST, 1.0, KILLED)], stored=[row], made=made))
    assert (found.classes, found.failures) == ({LOST: MERGED}, ())


def test_a_quarter_of_every_fleet_is_under_the_option():
    assert [len(write_behind_among(count)) for count in (2, 4, 12)] == [1, 1, 3]
    assert [device.secured for device in devices(12) if device.write_behind] == [False] * 3


def test_a_disk_that_is_full_keeps_a_release_in_memory(tmp_path):
    """Its age counts from when the disk was free again; it is judged at one end only."""
    ages = Ages({"dev-1": tmp_path}, lambda name: name.start == 2)
    clock = time.monotonic
    ages._since = {Name("dev-1", "air", n): clock() - 100 for n in (1, 2)}
    ages.disk_is_full("dev-1")
    ages.note_end("dev-1", KILLED)
    assert ages.held == [Held(Name("dev-1", "air", 1), 0.0, KILLED)]
    ages._since[Name("dev-1", "air", 3)] = clock() - 100
    ages.disk_is_free("dev-1")
    ages._full["dev-1"] -= 60
    ages.note_end("dev-1", KILLED)
    ages.note_end("dev-1", KILLED)
    ((name, seconds),) = [(one.name, one.seconds) for one in ages.held[1:]]
    assert name.start == 3
    assert 60 <= seconds < 90
    ages.note_end("dev-2", KILLED)
    assert len(ages.held) == 2


@pytest.fixture
def killed(tmp_path):
    """The releases of three agents without a broker that were killed.

    Each had held releases for longer than the option allows.
    """
    site = Site(tmp_path / "run")
    wanted = {device.name: device for device in devices(12)}
    states = {name: state_in(site.folder, name) for name in (USUAL, PATIENT, PLANTED)}
    observer = Observer("chaos", {name: state / "outbox" for name, state in states.items()})
    ages = Ages({name: states[name] for name in (PATIENT, PLANTED)}, observer.saw_on_disk)
    with Supervisor() as supervisor, observer, ages:
        agents = []
        for name in states:
            command = agent_command(site.configure(wanted[name], 1))
            if name == PLANTED:
                command[1:3] = ["-c", NEVER_WRITES]
            program = Service(name, command, site.folder, site.environment, reads=True)
            agents.append(supervisor.add(program))
            program.start()
        until_old(states)
        for agent in agents:
            agent.end(signal.SIGKILL)
            observer.scan(agent.name)
            ages.note_end(agent.name, agent.ends[-1].code)
    found = [debit for name, state in states.items() for debit in debits_in(state, name)]
    # A masked window is debited when it starts: the open one is lost with any process.
    debits = [debit for debit in found if debit.name.stream != MASKED]
    waiting = {
        named(name, key.stream, payload): digest(payload)
        for name, state in states.items()
        for key, payload in releases_in(state / "outbox")
        if key.stream != MASKED
    }
    made = {name: seen for name, seen in observer.made().items() if name.stream != MASKED}
    held = [each for each in ages.held if each.name.stream != MASKED]
    return left(held, debits, waiting, made=made)


def until_old(states):
    """Waits until a debit of each is older than what may be held."""
    since = {}

    def are_old():
        now = time.monotonic()
        for name, state in states.items():
            found = {debit.name.stream for debit in debits_in(state, name)}
            if name not in since and found - {MASKED}:
                since[name] = now
        held = BUFFER_SECONDS + LATE_SECONDS + 0.5
        return len(since) == len(states) and now - max(since.values()) > held

    until(are_old, lambda: str(since))


def test_agents_that_are_killed_lose_what_the_option_says_and_no_more(killed):
    """The planted one is the negative control: what it lost is older than the option allows."""
    found = account(killed)
    counted = {name: Counter(found.by_device()[name]) for name in (USUAL, PATIENT, PLANTED)}
    assert set(counted[USUAL]) == {WAITING}
    assert set(counted[PATIENT]) == {WAITING, RISKED}
    assert counted[PLANTED][WAITING] == 0
    assert counted[PLANTED][NOWHERE] >= 1
    *nowhere, few = found.failures
    assert {line.partition("/")[0] for line in nowhere} == {PLANTED}
    assert len(nowhere) == counted[PLANTED][NOWHERE]
    assert few == TOO_FEW


@pytest.mark.parametrize(
    ("device", "where"), [("dev-01", UNKEPT), ("dev-07", UNKEPT), (USUAL, NOWHERE)]
)
def test_only_a_small_outbox_may_let_go_of_what_a_database_lost(device, where):
    """The copy was on the device when the database was rolled back, and is gone."""
    lost = Name(device, "air", 7)
    found = left(debits=(Debit(lost, 1, 9),))
    run = replace(found.run, rolled_back=frozenset({lost}))
    settled = account(replace(found, run=run))
    assert settled.classes == {lost: where}
    assert (f"{lost}: debited, and nowhere" in settled.failures) is (where == NOWHERE)


@pytest.mark.parametrize(
    ("full", "before", "where"),
    [(USUAL, True, UNKEPT), (USUAL, False, NOWHERE), (PATIENT, True, NOWHERE)],
)
def test_a_full_disk_excuses_what_it_held_before_it_was_queued_again(full, before, where):
    """Negative controls: it was queued again before, or the disk of another device was full."""
    lost, marks = Name(USUAL, "air", 7), Marks()
    marks.note(marks.rolled_back, {lost})
    if before:
        marks.filled.add(full)
    marks.note_retransmission(USUAL, "air: the collector's database may lack acknowledged")
    found = left(debits=(Debit(lost, 1, 9),))
    run = replace(
        found.run,
        rolled_back=frozenset(marks.rolled_back),
        requeued=frozenset(marks.requeued),
        full_disks=(Span(full, 1, 2),),
    )
    assert account(replace(found, run=run)).classes == {lost: where}
