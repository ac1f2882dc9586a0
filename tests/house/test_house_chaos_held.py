"""`python -m chaos` and `persist: when_unacknowledged`: what a kill may take, and what not."""

import signal
import time
from collections import Counter

import pytest

from agent.backlog import releases_in
from agent.outbox import HOLD_SECONDS
from chaos.accounting import LATE_SECONDS, MERGED, NOWHERE, RISKED, WAITING, account
from chaos.evidence import Evidence, Row, Run
from chaos.held import Ages, Held
from chaos.marks import Debit, debits_in
from chaos.programs import Keeper, Program
from chaos.site import Site, agent_command, devices, patient_among, state_in
from chaos.witness import Name, Witness
from fleet.messages import digest

KILLED, ENDED = -signal.SIGKILL, -signal.SIGTERM
USUAL, PATIENT, PLANTED = "dev-05", "dev-11", "dev-09"
NAMES = tuple(device.name for device in devices(12))
LOST = Name(PATIENT, "air", 7)
DEBITED = (Debit(LOST, 0, 2),)
MOST_SECONDS = 90.0

# An agent under the option that never comes to writing what it holds.
NEVER_WRITES = """
import sys
from agent import outbox
from agent.__main__ import main
outbox.HOLD_SECONDS = 1e9
sys.exit(main(sys.argv[1:]))
"""


def left(held=(), debits=DEBITED, waiting=None, stored=(), made=None):
    """What a run of twelve devices without faults would have left, with these."""
    nothing = frozenset()
    run = Run(1, NAMES, 1, {}, {}, {}, (), nothing, nothing, nothing, tuple(held), (), {})
    return Evidence(
        run, made or {}, tuple(debits), (), tuple(stored), (), "ok", {}, 0,
        waiting or {}, nothing, nothing, {}, {}, (),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("held", "where"),
    [
        ([Held(LOST, 0.0, KILLED)], RISKED),
        ([Held(LOST, HOLD_SECONDS + LATE_SECONDS, KILLED)], RISKED),
        ([Held(LOST, HOLD_SECONDS + LATE_SECONDS + 0.1, KILLED)], NOWHERE),
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
    """Negative controls: too late, an end in good order or by itself, another release."""
    found = account(left(held))
    assert found.classes == {LOST: where}
    assert found.failures == (() if where == RISKED else (f"{LOST}: debited, and nowhere",))


def test_a_kill_explains_nothing_for_a_device_that_writes_before_it_sends():
    name = Name(USUAL, "air", 7)
    found = account(left([Held(name, 1.0, KILLED)], [Debit(name, 0, 2)]))
    assert found.classes == {name: NOWHERE}
    assert found.failures == (f"{name}: debited, and nowhere",)


def test_what_arrived_before_the_kill_is_merged():
    row = Row(LOST, 0, 2, digest(b"payload"), b"payload")
    made = {LOST: {row.digest: b"payload"}}
    found = account(left([Held(LOST, 1.0, KILLED)], stored=[row], made=made))
    assert (found.classes, found.failures) == ({LOST: MERGED}, ())


def test_a_quarter_of_every_fleet_is_under_the_option():
    assert [len(patient_among(count)) for count in (2, 4, 12)] == [1, 1, 3]
    assert [device.secured for device in devices(12) if device.patient] == [False] * 3


def test_a_disk_that_is_full_keeps_a_release_in_memory(tmp_path):
    """Its age counts from when the disk was free again; it is judged at one end only."""
    ages = Ages({"dev-1": tmp_path}, lambda name: name.sequence == 2)
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
    assert name.sequence == 3
    assert 60 <= seconds < 90
    ages.note_end("dev-2", KILLED)
    assert len(ages.held) == 2


@pytest.fixture
def killed(tmp_path):
    """What three agents without a broker left when they were killed, once each had held releases
    for longer than the option says."""
    site = Site(tmp_path / "run")
    wanted = {device.name: device for device in devices(12)}
    states = {name: state_in(site.folder, name) for name in (USUAL, PATIENT, PLANTED)}
    witness = Witness("chaos", {name: state / "outbox" for name, state in states.items()})
    ages = Ages({name: states[name] for name in (PATIENT, PLANTED)}, witness.saw_on_disk)
    with Keeper() as keeper, witness, ages:
        agents = []
        for name in states:
            command = agent_command(site.configure(wanted[name], 1))
            if name == PLANTED:
                command[1:3] = ["-c", NEVER_WRITES]
            program = Program(name, command, site.folder, site.environment, reads=True)
            agents.append(keeper.add(program))
            program.start()
        until_old(states)
        for agent in agents:
            agent.end(signal.SIGKILL)
            witness.look(agent.name)
            ages.note_end(agent.name, agent.ends[-1].code)
    debits = [debit for name, state in states.items() for debit in debits_in(state, name)]
    waiting = {
        Name(name, key.stream, key.sequence): digest(payload)
        for name, state in states.items()
        for key, payload in releases_in(state / "outbox")
    }
    return left(ages.held, debits, waiting, made=witness.made())


def until_old(states):
    """Waits until a debit of each is older than what may be held."""
    since, deadline = {}, time.monotonic() + MOST_SECONDS
    while len(since) < len(states) or time.monotonic() - max(since.values()) < (
        HOLD_SECONDS + LATE_SECONDS + 0.5
    ):
        assert time.monotonic() < deadline, since
        for name, state in states.items():
            if name not in since and debits_in(state, name):
                since[name] = time.monotonic()
        time.sleep(0.05)


def test_agents_that_are_killed_lose_what_the_option_says_and_no_more(killed):
    """The planted one is the negative control: what it lost is older than the option allows."""
    found = account(killed)
    counted = {name: Counter(found.by_device()[name]) for name in (USUAL, PATIENT, PLANTED)}
    assert set(counted[USUAL]) == {WAITING}
    assert set(counted[PATIENT]) == {WAITING, RISKED}
    assert counted[PLANTED][WAITING] == 0
    assert counted[PLANTED][NOWHERE] >= 1
    assert {line.partition("/")[0] for line in found.failures} == {PLANTED}
    assert len(found.failures) == counted[PLANTED][NOWHERE]
