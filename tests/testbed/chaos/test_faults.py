"""Faults: their schedule, their damage, and the observer that reads what is published."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_agent.outbox.records import FORGOTTEN, encode
from pansketch_agent.outbox.segment_files import numbers_in
from testbed.chaos.environment.configuration import state_in
from testbed.chaos.faults import state_damage
from testbed.chaos.faults.injector import ACTS
from testbed.chaos.faults.schedule import KINDS, Targets, schedule
from testbed.chaos.observation.ledger_marks import debits_in
from testbed.mqtt_packets import PublishReader, connect, publish
from tests.testbed.chaos.small_run import ended, left_behind, start

TARGETS = Targets({kind.where: ("one", "two") for kind in KINDS})


def test_a_schedule_follows_from_its_seed_and_has_every_kind():
    planned = schedule(1, 200, 100.0, 9.0, TARGETS)
    assert planned == schedule(1, 200, 100.0, 9.0, TARGETS)
    assert planned != schedule(2, 200, 100.0, 9.0, TARGETS)
    assert {fault.kind for fault in planned} == {kind.name for kind in KINDS} == set(ACTS)
    assert [fault.number for fault in planned] == list(range(1, 201))
    assert [fault.at for fault in planned] == sorted(fault.at for fault in planned)
    least = {kind.name: kind.seconds[0] for kind in KINDS}
    assert all(
        least[fault.kind] <= fault.seconds <= max(9.0, least[fault.kind]) for fault in planned
    )
    assert all(fault.at + fault.seconds <= 100.0 for fault in planned)


def test_what_has_no_target_does_not_happen():
    targets = Targets({"broker": ("broker",)}, {"garbage": "for a test"})
    kinds = {fault.kind for fault in schedule(1, 100, 10.0, 9.0, targets)}
    assert kinds == {kind.name for kind in KINDS if kind.where == "broker"} - {"garbage"}


def outbox_of(folder: Path) -> Outbox:
    return Outbox(folder, 2**20)


@pytest.mark.parametrize("how", [state_damage.tear, state_damage.flip])
def test_damage_costs_an_outbox_exactly_what_it_says(
    tmp_path, how: Callable[..., state_damage.Damage]
):
    lost = 0
    for number in range(24):
        folder = tmp_path / str(number)
        box = outbox_of(folder)
        for sequence in range(1, 7):
            box.put(Key(sequence, "air"), os.urandom(80))
        box.forget(Key(2, "air"))
        before = {key: box.read(key) for key in box.queued()}
        done = how(folder, number / 24)
        after = outbox_of(folder)
        assert {*after.queued()} - {Key(2, "air")} == before.keys() - done.cost, done.what
        assert all(after.read(key) == before[key] for key in before.keys() - done.cost)
        lost += len(done.cost)
    assert lost >= 8


def test_there_may_be_nothing_to_damage(tmp_path):
    assert state_damage.tear(tmp_path / "none", 0.5).cost == frozenset()
    outbox_of(tmp_path / "empty")
    assert state_damage.flip(tmp_path / "empty", 0.5).cost == frozenset()


V5_PUBLISH = b"\x32\x0f\x00\x03a/b\x00\x07\x02\x01\x00hello"


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_a_bystander_reads_what_is_published(step):
    content = connect("me", "user", "word") + publish("a/b", b"first") + publish("c", bytes(300))
    reader = PublishReader()
    parts = [content[at : at + step] for at in range(0, len(content), step)]
    assert [m for part in parts for m in reader.feed(part)] == [
        ("a/b", b"first"),
        ("c", bytes(300)),
    ]


def test_a_bystander_reads_version_5():
    hello = bytearray(connect("me", "user", "word"))
    hello[8] = 5
    assert PublishReader().feed(bytes(hello) + V5_PUBLISH) == [("a/b", b"hello")]


def test_a_bystander_bears_anything():
    for number in range(200):
        reader = PublishReader()
        reader.feed(os.urandom(300))
        reader.feed(bytes([number]) * 300)


def test_a_segment_of_forgotten_releases_can_be_damaged(tmp_path):
    box = outbox_of(tmp_path)
    box.put(Key(1, "air"), b"payload")
    box.forget(Key(1, "air"))
    (number,) = numbers_in(tmp_path)
    content = (tmp_path / f"{number:08d}.segment").read_bytes()
    assert encode(FORGOTTEN, Key(1, "air")) in content
    assert state_damage.tear(tmp_path, 0.01).cost == frozenset()


@pytest.mark.needs("mosquitto", "openssl", "libfaketime")
def test_an_interrupted_run_leaves_no_process_behind(tmp_path):
    folder = tmp_path / "run"
    run = start(folder, "--devices", "2", "--windows", "500", "--faults", "40")
    state = state_in(folder, "dev-02")
    run.until(lambda: debits_in(state, "dev-02"), "a debit")
    assert left_behind(folder)
    run.process.send_signal(signal.SIGTERM)
    assert ended(run) == (
        1,
        f"2 devices, 500 windows each, 40 faults; all files are in {folder}\nchaos: interrupted\n",
    )
    assert left_behind(folder) == []
