"""Releases that the collector does not take yet: kept, retried with backoff, never in the way."""

import json
from itertools import pairwise

import pytest

from pansketch_agent.__main__ import main
from pansketch_agent.delivery.deferrals import FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS
from pansketch_agent.delivery.delivery import IN_FLIGHT, Delivery
from pansketch_agent.outbox.dead_letters import refused_in
from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_fleet.protocol.messages import Ack, digest

COUNT = 40


def key(sequence):
    return Key(sequence, "air")


class Collector:
    """A collector that answers each release at once; `later` states which ones it defers."""

    def __init__(self, outbox, later):
        self.sent, self.later = [], later
        self.delivery = Delivery(outbox, self.send, lambda: 0.5)
        self.answers = []

    def send(self, stream, payload):
        self.sent.append(payload)
        self.answers.append(payload)
        return len(self.sent)

    def turn(self, now):
        """One step, and the answers to it. Returns the sequence numbers that were sent."""
        self.delivery.step(float(now))
        answers, self.answers = self.answers, []
        for payload in answers:
            self.delivery.publish_acknowledged(self.sent.index(payload) + 1, "")
            sequence = self.numbers[payload]
            status = "later" if self.later(sequence) else "stored"
            reason = "fingerprint: made with other settings" if status == "later" else ""
            self.delivery.acknowledged(Ack("air", sequence, digest(payload), status, reason))
        return [self.numbers[payload] for payload in answers]


@pytest.fixture
def collector(device, release_of, tmp_path):
    config = device.configure()
    outbox = Outbox(tmp_path / "outbox", 10**6)
    numbers = {}
    for number in range(1, COUNT + 1):
        payload = release_of(config, number)
        numbers[payload] = number
        outbox.put(key(number), payload)

    def made(later):
        found = Collector(outbox, later)
        found.numbers = numbers
        return found

    return made


def test_all_stay_in_the_outbox_and_come_back_with_exponential_backoff(collector, caplog):
    deaf = collector(lambda sequence: True)
    sent = {}
    for now in range(40_000):
        for sequence in deaf.turn(now):
            sent.setdefault(sequence, []).append(now)
    assert len(deaf.delivery.outbox) == COUNT
    assert refused_in(deaf.delivery.outbox.folder) == []
    assert set(sent) == set(range(1, COUNT + 1))
    for times in sent.values():
        pauses = [after - before for before, after in pairwise(times)]
        assert pauses[0] >= FIRST_DELAY_SECONDS
        assert all(b >= a for a, b in pairwise(pauses)), pauses
        assert MAX_DELAY_SECONDS <= pauses[-1] < MAX_DELAY_SECONDS + COUNT
    assert deaf.delivery.deferred() == {"fingerprint": COUNT}
    assert len(deaf.delivery.on_hold()) == COUNT
    (line,) = caplog.messages
    assert "deferred release 1 (fingerprint: made with other settings)" in line


def test_those_that_are_taken_do_not_wait_for_those_that_are_not(collector):
    half = collector(lambda sequence: sequence <= COUNT // 2)
    turns = 0
    while len(half.delivery.outbox) > COUNT // 2:
        half.turn(turns)
        turns += 1
        assert turns <= COUNT, "deferred releases hold up the others"
    assert half.delivery.deferred() == {"fingerprint": COUNT // 2}


def test_once_one_is_taken_the_others_follow_at_once(collector, caplog):
    caplog.set_level("INFO")
    misconfigured = [True]
    mended = collector(lambda sequence: misconfigured[0])
    now = 0
    while mended.delivery.deferred() != {"fingerprint": COUNT}:
        mended.turn(now)
        now += 1
    misconfigured[0] = False
    while not mended.turn(now):
        now += 1
    assert now <= 2 * FIRST_DELAY_SECONDS
    for later in range(1, COUNT + 1):
        mended.turn(now + later)
    assert len(mended.delivery.outbox) == 0
    assert mended.delivery.deferred() == {}
    assert "air: the collector stored a deferred release (fingerprint)" in caplog.messages


def test_an_answer_that_is_repeated_counts_once(collector):
    deaf = collector(lambda sequence: True)
    deaf.turn(0)
    payload = deaf.sent[0]
    again = Ack("air", 1, digest(payload), "later", "stream: the configuration has none")
    deaf.delivery.acknowledged(again)
    assert deaf.delivery.deferred() == {"fingerprint": IN_FLIGHT}


def test_a_release_whose_header_the_collector_cannot_read_is_named_by_its_digest(collector):
    """A collector of an earlier version knows no sequence number of it."""
    old = collector(lambda sequence: True)
    old.delivery.step(0.0)
    old.delivery.acknowledged(Ack("air", 0, digest(old.sent[2]), "later", "version: unknown"))
    old.delivery.acknowledged(Ack("air", 0, "0" * 32, "later", "version: unknown"))
    assert old.delivery.deferred() == {"version": 1}
    assert key(3) in old.delivery.outbox


def test_a_request_need_not_wait(collector):
    deaf = collector(lambda sequence: True)
    for now in range(COUNT):
        deaf.turn(now)
    before = len(deaf.sent)
    deaf.delivery.retry()
    assert len(deaf.turn(COUNT)) == IN_FLIGHT
    assert deaf.delivery.deferred() == {"fingerprint": COUNT}
    assert len(deaf.sent) == before + IN_FLIGHT


def test_health_states_how_many_wait_for_the_collector_and_why(device, broker, peer, until):
    later = "fingerprint: made with other settings"
    device.configure(broker.url)
    with peer(
        broker.url, lambda p, ack: Ack(ack.stream, ack.sequence, ack.digest, "later", later)
    ) as collector:
        agent = device.start("run")
        until(lambda: len(set(collector.releases)) == 5, "each release once")
        agent.wait_for_output("deferred release 1")
        # Answers may not have reached the agent yet: its next health shows them.
        until(lambda: collector.healths[-1][1].deferred == {"fingerprint": 5}, "a health")
        before = len(collector.healths)
        assert agent.stop() == 0
        until(lambda: len(collector.healths) > before, "the last health")
    assert agent.output.count("the collector deferred") == 1
    assert collector.healths[-1][1].deferred == {"fingerprint": 5}
    assert collector.healths[-1][1].waiting == 5
    assert len(device.outbox()) == 5


def test_what_was_refused_is_exported_and_retransmitted(device, broker, peer, until, capsys):
    def words(*given):
        code = main(["outbox", *given, "--config", str(device.config)])
        said = capsys.readouterr()
        return code, said.out + said.err

    device.configure(broker.url)
    final = [True]

    def answer(payload, ack):
        status = "refused" if final[0] and ack.sequence < 3 else ack.status
        return Ack(ack.stream, ack.sequence, ack.digest, status, "")

    with peer(broker.url, answer) as collector:
        agent = device.start("run")
        assert agent.wait() == 1
        assert len(refused_in(device.state / "outbox")) == 2
        code, said = words("list")
        assert "refused and kept: 2; `outbox retry --refused` requeues them" in said
        code, said = words("export")
        lines = [json.loads(line) for line in said.splitlines()]
        assert [(line["sequence"], line["refused"]) for line in lines] == [(1, True), (2, True)]
        final[0] = False
        code, said = words("retry", "--refused")
        assert code == 0
        assert said.endswith("refused releases as well: 2\n")
        sent = len(collector.releases)
        agent = device.start("run")
        assert agent.wait() == 0, agent.output
        assert "requeued dead-lettered releases, on request (releases: 2)" in agent.output
        assert collector.sequences()[sent:] == [1, 2]
    assert refused_in(device.state / "outbox") == []
    assert device.outbox() == []
    assert words("list", "--refused")[0] == 2
