"""The whole agent, as a process, with a real broker and a peer on the collector's side."""

import json
import signal
import time

import pytest

from pansketch import decode, peek
from pansketch_agent.delivery.delivery import IN_FLIGHT
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.windows.window import schedule_for
from pansketch_fleet.protocol.messages import Ack, Status
from testbed.embedded_broker import free_port
from tests.agent.peer import starts

HOUR = 3600
NEW_YEAR = 1704067200
START_SECONDS = 20


def test_a_replay_publishes_every_window_also_the_empty_ones(device, broker, peer):
    config = device.configure(broker.url)
    with peer(broker.url) as collector:
        agent = device.start("run")
        assert agent.wait() == 0, agent.output
    offset = schedule_for("dev-1", HOUR).offset
    assert starts(collector) == [NEW_YEAR + HOUR * n + offset for n in range(5)]
    assert collector.sequences() == [1, 2, 3, 4, 5]
    assert {window.end - window.start for window in collector.windows()} == {HOUR}
    for payload in collector.releases:
        decode(payload, config.streams[0].spec)
    assert device.outbox() == []
    assert [debit[4] for debit in device.ledger()] == ["1000000"] * 5


def test_running_again_releases_nothing_again(device, broker, peer):
    device.configure(broker.url)
    with peer(broker.url) as collector:
        assert device.start("run").wait() == 0
        again = device.start("run")
        assert again.wait() == 0
    assert collector.sequences() == [1, 2, 3, 4, 5]
    assert "no window that is not released already" in again.output


def test_what_the_collector_has_lost_is_released_again_as_it_was(device, broker, peer, until):
    device.configure(broker.url)
    with peer(broker.url) as collector:
        assert device.start("run").wait() == 0
        collector.streams.clear()
        assert device.start("run", "--drain", "30").wait() == 0
        until(lambda: len(collector.releases) == 10, "all of them once more")
    assert collector.sequences() == [1, 2, 3, 4, 5] * 2
    assert collector.releases[:5] == collector.releases[5:]


def test_once_goes_window_by_window(device, broker, peer):
    device.configure(broker.url)
    with peer(broker.url) as collector:
        for _ in range(6):
            agent = device.start("once")
            assert agent.wait() == 0, agent.output
    assert collector.sequences() == [1, 2, 3, 4, 5]


def test_once_without_an_ack_leaves_the_release_for_the_next_start(device, broker, peer):
    device.configure(broker.url)
    with peer(broker.url, answer=lambda payload, ack: None) as deaf:
        agent = device.start("once", "--drain", "0.5")
        assert agent.wait() == 1
        assert "not acknowledged after 0.5 s" in agent.output
    assert len(device.outbox()) == 1
    with peer(broker.url) as collector:
        assert device.start("once").wait() == 0
    assert collector.releases[0] == deaf.releases[0]
    assert collector.sequences() == [1, 2]


def test_the_birth_message_is_retained_and_a_clean_stop_states_stopped(device, broker, peer, until):
    config = device.configure(broker.url, source="{type: stdin}")
    agent = device.start("run")
    agent.wait_until_connected()
    with peer(broker.url) as collector:
        until(lambda: collector.statuses, "the retained birth")
        assert agent.stop(signal.SIGTERM) == 0, agent.output
        until(lambda: collector.statuses[-1].state == "stopped", "the farewell")
    birth, stopped_status = collector.statuses[0], collector.statuses[-1]
    stream = config.streams[0]
    assert birth == Status("online", stopped_status.session, birth.streams)
    assert birth.streams["air"].fingerprint == stream.spec.fingerprint.hex()
    assert birth.streams["air"].guarantee == str(stream.spec.guarantee)
    assert birth.streams["air"].window_seconds == HOUR


def test_a_killed_agent_is_reported_by_its_will(device, broker, peer, until):
    device.configure(broker.url, source="{type: stdin}")
    agent = device.start("run")
    agent.wait_until_connected()
    with peer(broker.url) as collector:
        until(lambda: collector.statuses, "the retained birth")
        agent.process.kill()
        until(lambda: collector.statuses[-1].state == "offline", "the will")
    assert len({status.session for status in collector.statuses}) == 1


def test_every_start_has_its_own_session(device, broker, peer, until):
    device.configure(broker.url)
    with peer(broker.url) as collector:
        for _ in range(2):
            assert device.start("once").wait() == 0
        until(lambda: len({s.session for s in collector.statuses}) == 2, "two sessions")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_stop_it_cleanly_without_any_broker(device, number):
    device.configure(source="{type: stdin}")
    agent = device.start("run")
    agent.wait_for_output("no broker at 127.0.0.1:1")
    assert agent.stop(number) == 0, agent.output
    assert "Traceback" not in agent.output


def test_a_broker_that_comes_late_is_logged_once_and_gets_everything(device, peer, broker_at):
    port = free_port()
    device.configure(f"mqtt://127.0.0.1:{port}")
    agent = device.start("run")
    agent.wait_for_output("waiting for the collector to acknowledge the outbox (releases: 5)")
    agent.wait_for_output("no broker at")
    with broker_at(port) as late, peer(late.url) as collector:
        assert agent.wait() == 0, agent.output
    assert sorted(set(collector.sequences())) == [1, 2, 3, 4, 5]
    assert agent.output.count("no broker at") == 1
    assert agent.output.count("connected to the broker") == 1


def test_a_broker_that_goes_away_and_comes_back(device, peer, broker_at, until):
    port = free_port()
    device.configure(f"mqtt://127.0.0.1:{port}")
    with broker_at(port) as first, peer(first.url, answer=lambda *_: None) as deaf:
        agent = device.start("run")
        until(lambda: len(set(deaf.releases)) == IN_FLIGHT, "as many as may be on their way")
    agent.wait_for_output("no broker at")
    with broker_at(port) as second, peer(second.url) as collector:
        assert agent.process.poll() is None
        assert agent.wait() == 0, agent.output
    assert len(set(collector.releases)) == 5
    assert set(collector.releases) > set(deaf.releases)


def test_a_refused_release_is_kept_and_the_rest_arrives(device, broker, peer):
    def answer(payload: bytes, ack: Ack) -> Ack:
        if ack.sequence != 2:
            return ack
        return Ack(ack.stream, ack.sequence, ack.digest, "refused", "unknown stream")

    device.configure(broker.url)
    with peer(broker.url, answer=answer) as collector:
        agent = device.start("run")
        assert agent.wait() == 1
    assert collector.sequences() == [1, 2, 3, 4, 5]
    assert agent.output.count("is refused by the collector (unknown stream)") == 1
    (kept,) = (device.state / "outbox/refused").iterdir()
    assert kept.read_bytes() == collector.releases[1]
    assert device.outbox() == []


def test_malformed_input_on_the_ack_topic_is_ignored(device, broker, peer):
    answers = []

    def answer(payload: bytes, ack: Ack) -> Ack:
        for rubbish in (b"", b"\xff", b"{}", b"[" * 1000, json.dumps({"stream": "air"}).encode()):
            collector._client.publish("pansketch/v1/testing/dev-1/ack", rubbish, 1)
        answers.append(ack)
        return ack

    device.configure(broker.url)
    with peer(broker.url, answer=answer) as collector:
        agent = device.start("run")
        assert agent.wait() == 0, agent.output
    assert len(answers) == 5
    assert "Traceback" not in agent.output


def test_one_wrong_year_is_reported_and_nothing_floods(device):
    rows = "time,temp,wind\n2024-01-01T00:30:00Z,1,N\n2094-01-01T00:30:00Z,1,N\n"
    device.configure(rows=rows)
    agent = device.start("run", "--drain", "0")
    assert agent.wait() == 1
    assert "air: more than 4096 windows without a row after 2024-01-01T0" in agent.output
    assert device.outbox() == []


def test_a_live_window_ends_by_the_clock_for_any_readings(device, broker, peer, until):
    device.configure(broker.url, source="{type: stdin}", window="1s")
    with peer(broker.url) as collector:
        agent = device.start("run")
        until(lambda: len(collector.releases) >= 2, "two empty windows")
        agent.process.stdin.write('{"temp": 11.5, "wind": "N"}\nnonsense\n')
        agent.process.stdin.close()
        assert agent.wait() == 0, agent.output
    windows = collector.windows()
    assert [w.start for w in windows] == [windows[0].start + n for n in range(len(windows))]
    assert collector.sequences() == list(range(1, len(windows) + 1))
    lines = agent.output.splitlines()
    ended = next(n for n, line in enumerate(lines) if "the source has ended" in line)
    assert f"release {len(windows)} is in the outbox" in lines[ended - 1]


def test_a_live_agent_waits_when_its_window_was_released_already(device, broker, peer):
    config = device.configure(broker.url, source="{type: stdin}", window="1s")
    schedule = schedule_for("dev-1", 1)
    with Ledger(device.state) as ledger:
        # Far enough ahead for an agent that starts on a busy machine.
        span = schedule.span(schedule.index(time.time()) + START_SECONDS)
        ledger.debit({"air": 1}, span.start, span.end)
    with peer(broker.url) as collector:
        agent = device.start("once")
        assert agent.wait() == 0, agent.output
    (window,) = collector.windows()
    assert window.sequence == 2
    assert window.start >= span.end
    assert "are released already; the next one follows" in agent.output
    assert peek(collector.releases[0]).fingerprint == config.streams[0].spec.fingerprint


def test_the_system_source_runs_over_a_tree_without_sensors(device, broker, peer, tmp_path):
    device.configure(broker.url, source="{type: system, interval: 100ms}", window="1s")
    text = device.config.read_text().replace("temp:", "temperature:").replace("wind:", "load1:")
    text = text.replace("{categories: [calm, N, NO]}", "{low: 0, high: 8}")
    device.config.write_text(text)
    (tmp_path / "empty").mkdir()
    with peer(broker.url) as collector:
        agent = device.start("once", "--root", str(tmp_path / "empty"))
        assert agent.wait() == 0, agent.output
    assert collector.sequences() == [1]


def test_two_streams_have_their_own_sequences(device, broker, peer):
    device.configure(broker.url)
    text = device.config.read_text()
    head, _, stream = text.partition("  air:\n")
    device.config.write_text(f"{head}  air:\n{stream}  water:\n{stream}")
    with peer(broker.url) as collector:
        agent = device.start("run")
        assert agent.wait() == 0, agent.output
    for name in ("air", "water"):
        assert [w.sequence for w in collector.windows() if w.stream == name] == [1, 2, 3, 4, 5]
