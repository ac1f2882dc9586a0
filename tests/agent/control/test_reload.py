"""SIGHUP: another broker or key while windows stay open, and every other change refused."""

import os
import pty
import signal
import time
from itertools import pairwise

import pytest

from pansketch_fleet.protocol.signed_release import (
    envelope_of,
    holds,
    is_signed,
    new_credentials,
)
from testbed.embedded_broker import free_port
from tests.waiting import SECONDS

LIVE = {"source": "{type: stdin}", "window": "2s"}
OTHER = """\
devices: {dev-1: {outbox: {keep: 9d}}}
streams:
  hall:
    source: {type: system, interval: 1s}
    window: 1h
    privacy: {epsilon: 1.0}
    attributes: {load1: {low: 0, high: 8}}
"""
KEPT = "the configuration before stays in effect"


def edit(device, before, after):
    text = device.config.read_text()
    assert before in text
    device.config.write_text(text.replace(before, after))


def test_another_broker_gets_the_windows_that_follow_and_none_is_lost(
    device, broker, broker_at, peer, until
):
    device.configure(broker.url, **LIVE)
    with broker_at(free_port()) as other, peer(broker.url) as first, peer(other.url) as second:
        agent = device.start("run")
        until(lambda: first.releases, "a release at the first broker")
        edit(device, broker.url, other.url)
        agent.process.send_signal(signal.SIGHUP)
        seen = len(first.releases) + 2
        until(lambda: len(second.releases) >= seen, "releases at the second broker")
        assert agent.stop() == 0, agent.output
    windows = sorted({w for p in (first, second) for w in p.windows()}, key=lambda w: w.start)
    assert [each.sequence for each in windows] == list(range(1, len(windows) + 1))
    assert all(each.end == later.start for each, later in pairwise(windows))
    assert {each.session for p in (first, second) for each in p.statuses} == {
        first.statuses[0].session
    }


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("fleet: testing", "fleet: [", "config.yaml"),
        ("fleet: testing", "fleet: other", "a reload does not change fleet;"),
        ("epsilon: 1.0", "epsilon: 0.5", "a reload does not change streams.air.privacy.epsilon"),
        ("low: -40", "low: -50", "a reload does not change streams.air.attributes.temp"),
        ("fanout: 2", "fanout: 4", "a reload does not change streams.air.sketch.fanout"),
        ("device: dev-1", "device: dev-2", "a reload does not change agent.device"),
        ("window: 1h", "window: 2h", "a reload does not change streams.air.window;"),
        (
            "streams:\n",
            OTHER,
            "a reload does not change streams.hall (new), agent.outbox.keep;",
        ),
        ("profile: pi-zero-2w", "profile: pi-5", "a reload does not change agent.profile;"),
        (
            "{epsilon: 1.0, unit: reading, intrusion: silent}",
            "{epsilon: 2.0, unit: {span: 1m, max_readings: 2}, intrusion: announced}",
            "streams.air.privacy.unit.span and 2 more;",
        ),
    ],
    ids=[
        *("broken", "fleet", "epsilon", "domain", "sketch", "device", "window", "stream"),
        *("profile", "many"),
    ],
)
def test_what_cannot_change_is_refused_and_nothing_changes(device, before, after, says):
    """The broker's address changes with it, and stays what it was."""
    port, ignored = free_port(), free_port()
    device.configure(f"mqtt://127.0.0.1:{port}", source="{type: stdin}")
    agent = device.start("run")
    agent.wait_until_ready()
    began = time.monotonic_ns()
    edit(device, f":{port}", f":{ignored}")
    edit(device, before, after)
    agent.process.send_signal(signal.SIGHUP)
    agent.wait_for_output(f"{KEPT}: ")
    agent.notified.wait_for("READY", "1", SECONDS, times=2)
    assert (agent.notified.value("RELOADING"), agent.notified.times("RELOADING")) == ("1", 1)
    at = int(agent.notified.value("MONOTONIC_USEC")) * 1000
    assert began - 1000 <= at <= time.monotonic_ns()
    assert says in agent.output
    assert str(ignored) not in agent.output
    edit(device, after, before)
    agent.process.send_signal(signal.SIGHUP)
    agent.wait_for_output(f"no broker at 127.0.0.1:{ignored}")
    assert agent.stop() == 0


def test_other_devices_of_a_stream_change_nothing_and_an_end_that_was_wanted_is_no_outage(
    device, broker, peer, until
):
    device.configure(broker.url, **LIVE)
    edit(device, "  air:\n", '  air:\n    devices: ["dev-?"]\n')
    with peer(broker.url) as first:
        agent = device.start("run")
        until(lambda: first.statuses, "a status")
        edit(device, '["dev-?"]', '["dev-?", "hall-?"]')
        agent.process.send_signal(signal.SIGHUP)
        agent.wait_for_output("the configuration is reloaded; reconnecting")
        until(lambda: len(first.statuses) > 1, "the status of another connection")
        agent.stop()
    assert "no broker" not in agent.output


def test_releases_that_wait_are_signed_once_the_device_is_enrolled(device, broker, peer, until):
    device.configure(broker.url)
    with peer(broker.url, answer=lambda payload, ack: None) as deaf:
        agent = device.start("run")
        until(lambda: deaf.releases, "a release without a signature")
        assert not is_signed(deaf.releases[0])
        held = new_credentials("testing", "dev-1")
        path = device.folder / "device.json"
        path.write_bytes(held.encode())
        os.chmod(path, 0o600)
        edit(device, "device: dev-1", "device: dev-1, credentials: device.json")
        agent.process.send_signal(signal.SIGHUP)
        until(lambda: is_signed(deaf.releases[-1]), "a signed release")
        sealed = envelope_of(deaf.releases[-1])
        assert holds(sealed, held.public, "testing", "dev-1", "air")
        assert sealed.release in device.releases().values()
        agent.stop()
    for secret in (held.key, held.password):
        assert secret not in agent.output


def test_an_agent_in_a_terminal_ends_with_it(device, broker, peer, until):
    """The kernel sends the signal of a reload when a terminal closes."""
    device.configure(broker.url, **LIVE)
    keyboard, terminal = pty.openpty()
    try:
        with peer(broker.url) as first:
            agent = device.start("run", stdin=terminal)
            until(lambda: first.statuses, "a status")
            agent.process.send_signal(signal.SIGHUP)
            assert agent.wait() == -signal.SIGHUP
    finally:
        os.close(keyboard)
        os.close(terminal)
