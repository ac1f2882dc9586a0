"""Reports of many devices: read in portions and in parts, they are those of one at a time."""

import random
from collections import Counter

import pytest

from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.reports import device_health
from pansketch_collector.reports.reported_settings import MAX_NAMED, ReportedSettings
from pansketch_collector.storage import device_reports
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables import connection
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Health, Status, StreamBirth
from pansketch_fleet.units import utc_text
from tests.collector.small_fleet import DAY, incoming

BIRTH = StreamBirth("0" * 16, "epsilon 1", DAY)


@pytest.fixture(autouse=True)
def small_portions(monkeypatch):
    monkeypatch.setattr(device_reports, "ROWS", 4)
    for module in (connection, device_reports):
        monkeypatch.setattr(module, "PORTION", 3)


def birth(dice, own):
    """One of few settings of a stream, with few problems."""
    fingerprint = dice.choice([own, own, own, "0" * 16])
    problem = dice.choice(["", "", "", "stopped at its daily cap"])
    seconds = dice.choice([DAY, DAY, DAY, 60])
    return StreamBirth(fingerprint, "epsilon 1", seconds, problem, dice.choice(["", "", "bad"]))


def health(dice):
    waiting = dice.choice([0, 0, 7])
    return Health(
        *("s1", "0.1.0", 9, dice.choice([True, None, False]), waiting),
        *(dice.choice([None, 90]) if waiting else None, dice.choice([0, 2]), dice.choice([0, 5])),
        *(4096, dice.choice([{}, {"fingerprint": 2}]), 0, dice.choice([True, False, None])),
        dice.choice([0, 0, 3]),
    )


@pytest.fixture(params=range(3))
def reported(request, any_fleet):
    """A fleet with statuses and healths of some devices, and releases of others."""
    dice = random.Random(request.param)
    own = any_fleet.specs("air")[0].fingerprint.hex()
    messages, release = [], any_fleet.release
    for name in [f"d{number}" for number in range(40)]:
        if dice.random() < 0.7:
            streams = {name: birth(dice, own) for name in dice.sample(["air", "gone"], 1)}
            status = Status(dice.choice(["online", "offline", "stopped"]), "s1", streams)
            messages.append((topics.status(any_fleet.fleet, name), status.encode()))
        if dice.random() < 0.7:
            messages.append((topics.health(any_fleet.fleet, name), health(dice).encode()))
        if dice.random() < 0.2:
            messages.append((any_fleet.topic(name), release(name)))
    with store.opened(any_fleet.database) as opened:
        opened.serve_settings(any_fleet.config, DAY)
        batch = [incoming(*message) for message in messages]
        commit_batch(opened, batch, any_fleet.rules, 40 * DAY)
    return any_fleet


def test_names_come_in_pages_and_states_are_those_of_all(reported):
    with reading(reported.database) as reader:
        db = reader.connection
        known = {each.device: each.state for each in reader.devices()}
        present = {*known, *reader.healths(), *(each.device for each in reader.holdings())}
        assert set(known) < present, "otherwise this test shows little"
        assert device_reports.names(db) == sorted(present)
        after, found = "", []
        while page := device_reports.names(db, after, 7):
            found, after = found + page, page[-1]
        assert found == sorted(present)
        assert Counter(device_reports.states(db)) == Counter(
            known.get(name, "unknown") for name in present
        )


def test_parts_are_those_of_all(reported):
    with reading(reported.database) as reader:
        names = sorted(random.Random(1).sample(device_reports.names(reader.connection), 10))
        for read in (reader.healths, reader.duplicates):
            assert read(names) == {k: v for k, v in read().items() if k in names}
        assert reader.devices(names) == [d for d in reader.devices() if d.device in names]
        assert reader.totals(names) == [t for t in reader.totals() if t[0] in names] != []


def test_sums_of_healths_are_those_of_each(reported):
    with reading(reported.database) as reader:
        found = device_health.sum_up(reader.connection)
        each = {name: received.health for name, received in reader.healths().items()}
    every = each.values()
    for of in ("waiting", "dropped", "set_aside", "name_conflicts"):
        assert getattr(found, of) == sum(getattr(one, of) for one in every) > 0, of
    assert found.oldest_waiting_seconds == 90
    assert found.memory_protected == Counter(one.memory_protected for one in every)
    assert found.problems == {
        "name conflicts": [name for name, one in each.items() if one.name_conflicts],
        "set aside": [name for name, one in each.items() if one.set_aside],
        "dropped": [name for name, one in each.items() if one.dropped],
        "deferred": [name for name, one in each.items() if one.deferred],
        "clock not synchronised": [n for n, one in each.items() if one.clock_synchronised is False],
        "memory may be swapped": [n for n, one in each.items() if one.memory_protected is False],
    }


@pytest.mark.parametrize("given", ["", 'devices: ["d1*"]'])
def test_settings_of_a_fleet_are_those_that_its_devices_report(reported, given):
    text = reported.path.read_text().replace("  air:\n", f"  air:\n    {given}\n")
    reported.path.write_text(text)
    with reading(reported.database) as reader:
        settings, devices = ReportedSettings(reader, reported.config), reader.devices()
        texts = Counter(each.streams for each in devices)
        used, problems = settings.in_use(texts), settings.problems(texts)
        runs = {}
        for each in devices:
            for stream, epoch in settings.epochs(each).items():
                runs.setdefault((stream, epoch), []).append(each.device)
        differing = [each.device for each in devices if settings.differences(each)]
    found = {
        (use["stream"], use["now"], use["since"]): (use["devices"], use["names"]) for use in used
    }
    assert found == {
        (stream, epoch.now, epoch.since and utc_text(epoch.since)): (len(names), names[:MAX_NAMED])
        for (stream, epoch), names in runs.items()
    }
    assert max(devices for devices, _ in found.values()) > MAX_NAMED
    births = {each.device: each.births.values() for each in devices}
    assert problems == {
        "stopped": [n for n, found in births.items() if any(b["problem"] for b in found)],
        "scales rejected": [
            n for n, found in births.items() if any(b.get("scale_problem") for b in found)
        ],
        "other settings": differing,
    }
    assert all(problems.values())
