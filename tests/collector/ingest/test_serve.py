"""`serve` as a process of its own, with a real broker and a peer that publishes to it."""

import re
import signal
from contextlib import contextmanager

import pytest

from pansketch_collector.__main__ import main
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Ack, Status, digest
from testbed.embedded_broker import EmbeddedBroker, free_port
from tests.collector.serving import goes_on

AIR = Selection("air")


@pytest.fixture
def broker():
    with embedded() as running:
        yield running


@contextmanager
def embedded(port=None):
    with EmbeddedBroker(port) as running:
        yield running


@pytest.fixture
def served(broker, make_small_fleet):
    return make_small_fleet(url=broker.url)


@pytest.fixture
def begin(start, served):
    """Starts a collector and waits until it listens."""

    def run():
        serving = start(served.path)
        serving.wait_until_connected()
        return serving

    return run


def test_releases_are_stored_before_acknowledgement_and_malformed_ones_rejected(
    broker, served, begin, connect
):
    serving = begin()
    with connect(broker.port, served.fleet, "one", "two") as peer:
        first = served.release("one", 1)
        ack = peer.exchange(served.topic(), first)
        assert (ack.sequence, ack.digest) == (1, digest(first))
        assert ack.status in ("stored", "duplicate")
        for sequence in range(2, 30):
            payload = served.release("one", sequence)
            peer.publish(served.topic("one"), payload)
            topic, ack = peer.ack()
            while ack.sequence == 1:
                topic, ack = peer.ack()
            assert topic == topics.ack(served.fleet, "one")
            assert ack == Ack("air", sequence, digest(payload), "stored")
            assert payload in served.stored()  # at the moment of the acknowledgement, not later
        damaged = bytearray(first)
        damaged[50] ^= 1
        for device, payload, reason in [
            ("one", bytes(damaged), "checksum"),
            ("one", first[:40], "checksum"),
            ("one", b"", "size"),
            ("one", b"\0" * 200_000, "length"),
            ("two", first, "identity"),
            ("one", served.release("one", 2), "equivocation"),
        ]:
            peer.publish(served.topic(device), payload)
            topic, ack = peer.ack()
            assert topic == topics.ack(served.fleet, device)
            status = "later" if reason == "length" else "refused"
            assert (ack.status, ack.digest) == (status, digest(payload))
            assert ack.reason.startswith(reason)
        peer.publish(served.topic("one"), first)
        assert peer.ack()[1].status == "duplicate"
        peer.publish(served.topic("two"), served.release("two", 1))
        assert peer.ack()[1].status == "stored"
    assert len(served.stored()) == 30
    assert serving.stop() == 0


def test_the_state_follows_birth_message_and_last_will(
    broker, served, begin, until, capsys, connect
):
    topic = topics.status(served.fleet, "one")

    def shown():
        assert main(["devices", "--config", str(served.path)]) == 0
        return capsys.readouterr().out

    with connect(broker.port, served.fleet, "one") as peer:
        peer.publish(topic, Status("online", "s2", {}).encode(), retain=True)
        begin()
        until(lambda: re.search(r"one +online", shown()))
        peer.publish(topic, Status("offline", "s1", {}).encode())
        peer.publish(topics.status(served.fleet, "two"), Status("online", "t", {}).encode())
        until(lambda: re.search(r"two +online", shown()))
        assert re.search(r"one +online", shown())
        peer.publish(topic, Status("offline", "s2", {}).encode(), retain=True)
        until(lambda: re.search(r"one +offline", shown()))


def test_what_was_acknowledged_survives_a_kill_and_the_next_one_goes_on(
    broker, served, begin, connect
):
    first = begin()
    payloads = [served.release("one", n) for n in range(1, 4)]
    with connect(broker.port, served.fleet, "one") as peer:
        peer.exchange(served.topic(), payloads[0])
        for payload in payloads[1:]:
            peer.exchange(served.topic(), payload)
        assert first.stop(signal.SIGKILL) == -signal.SIGKILL
        assert served.stored() == payloads
        second = begin()
        while not peer.acks.empty():
            peer.acks.get_nowait()
        assert peer.exchange(served.topic(), payloads[1]).status == "duplicate"
        last = served.release("one", 4)
        assert peer.exchange(served.topic(), last).sequence in (2, 4)
    assert second.stop(signal.SIGINT) == 0
    assert served.stored() == [*payloads, last]


def test_a_broker_that_is_absent_at_the_start_is_logged_once_and_waited_for(
    make_small_fleet, start, until, connect
):
    port = free_port()
    small_fleet = make_small_fleet(url=f"mqtt://127.0.0.1:{port}")
    serving = start(small_fleet.path)
    until(lambda: "is not there" in serving.output)
    # paho retries after one and two more seconds; neither may be logged.
    goes_on(serving, 4.0)
    with embedded(port):
        serving.wait_until_connected()
        with connect(port, small_fleet.fleet, "one") as peer:
            assert peer.exchange(small_fleet.topic(), small_fleet.release()).sequence == 1
        assert serving.output.count("is not there") == 1
        assert serving.output.count("is connected") == 1
        assert serving.stop() == 0


def test_the_first_lines_state_what_to_expect(small_fleet, start, until):
    serving = start(small_fleet.path)
    until(lambda: "is not there (Connection refused)" in serving.output)
    usable = r"air: a release every 1d; an answer is usable after about \d+ windows? \(\w+\) of one"
    assert re.search(usable, serving.output), serving.output
    assert serving.stop() == 0


def test_it_stops_cleanly_while_there_is_no_broker(small_fleet, start, until, connect):
    serving = start(small_fleet.path)
    until(lambda: "is not there" in serving.output)
    assert serving.stop() == 0
    assert serving.output.splitlines()[-1].endswith("stopped")


def test_a_second_one_on_the_same_database_ends_with_a_single_line(served, begin, start, connect):
    begin()
    second = start(served.path)
    assert second.wait() == 1
    assert second.output.count("\n") == 1
    assert "another collector is serving" in second.output


def test_readers_answer_while_it_serves(broker, served, begin, capsys, connect):
    begin()
    with connect(broker.port, served.fleet, "one") as peer:
        for sequence in range(1, 20):
            payload = served.release("one", sequence, readings=[[20.0]] * 300)
            peer.exchange(served.topic(), payload)
            out = ["mean", "temp"] if sequence % 2 else ["quantile", "temp", "0.5"]
            options = ["query", "--stream", "air", "--config", str(served.path)]
            assert main([*options, *out]) == 0
            assert (
                f"{sequence} release{'s' * (sequence > 1)} of 1 device," in capsys.readouterr().out
            )
