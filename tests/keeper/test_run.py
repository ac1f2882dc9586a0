"""A running keeper, through mosquitto: after any kill no window has two distinct answers."""

import random
import signal

import numpy as np
import pytest

from pansketch.blinding import MaskContext, question_about, unblind
from pansketch.wire import decode_answer
from pansketch_audit.seizure.process_memory import process_memory
from pansketch_fleet.settings.sources import (
    Mqtt,
)
from pansketch_fleet.systemd import Notifier
from pansketch_keeper import mqtt_client, state
from testbed.embedded_broker import free_port
from testbed.mosquitto import mosquitto
from tests import waiting
from tests.keeper.site import Collector, ask_of, released
from tests.pansketch.blinding import oracle
from tests.pansketch.blinding.fleet import FLEET, SMALL, counted
from tests.pansketch.blinding.test_memory_of_a_process import PIECE, SEARCHED, found_in
from tests.pansketch.sketches.families import uniform

pytestmark = pytest.mark.needs("mosquitto")
KILLS, QUESTIONS = 50, 12


def test_two_keepers_open_a_sum(sites, port):
    """The noise of two keepers is all that is between the sum and the counts: false alarm 1e-9."""
    sequences = range(1, 6)
    releases = released(sites, sequences)
    question = question_about(FLEET, releases)
    with sites[0].runs(port) as tower, sites[1].runs(port) as well, Collector(port) as collector:
        tower.wait_until_connected()
        well.wait_until_connected()
        answers = []
        for each in sites:
            assert collector.ask(each.name, ask_of(each, releases, kind="prepare")).refused == ()
            reply = collector.ask(each.name, ask_of(each, releases))
            answers.append(decode_answer(reply.answer, SMALL))
    release = unblind(question, releases, answers, 100)
    left = release.counters - sum(counted(SMALL, uniform(9, n)) for n in sequences)
    # Each counter has two draws: beyond b scales with a probability below (1 + b) exp(-b).
    scales = np.repeat([float(each) for each in SMALL.scales], SMALL.blocks)
    assert np.abs(left / scales).max() < 25 + np.log(len(left))
    assert np.abs(left).max() > 0, "the control: there is noise"


def test_a_keeper_reports_its_state(sites, port):
    tower = sites[0]
    with Collector(port) as collector:
        with tower.runs(port) as running:
            running.wait_until_connected()
            waiting.until(lambda: ("tower", "online") in collector.statuses)
            assert running.stop() == 0
        waiting.until(lambda: collector.statuses[-1] == ("tower", "stopped"))
        with tower.runs(port) as running:
            running.wait_until_connected()
            waiting.until(lambda: collector.statuses[-1] == ("tower", "online"))
            running.stop(signal.SIGKILL)
        waiting.until(lambda: collector.statuses[-1] == ("tower", "offline"))


def test_a_question_that_came_while_it_was_disconnected_is_answered(sites, port):
    tower = sites[0]
    ask = ask_of(tower, released(sites, [1]))
    with Collector(port) as collector:
        with tower.runs(port) as running:
            running.wait_until_connected()
            running.stop()
        collector.publish("tower", ask.encode())
        with tower.runs(port):
            _, reply, _ = collector.replies.get(timeout=waiting.SECONDS)
    assert (reply.kind, reply.question) == ("answered", ask.question.digest)


def test_it_outlives_its_broker_and_hostile_frames(sites, tmp_path):
    tower, port = sites[0], free_port()
    asks = [ask_of(tower, released(sites, [n])) for n in (1, 2)]
    hostile = (b"", b"\xff" * 99, bytes(9_000_000), asks[0].encode()[:-1])
    with tower.runs(port) as running:
        for number, ask in enumerate(asks, 1):
            with mosquitto(tmp_path, port), Collector(port) as collector:
                running.wait_until_connected(number)
                for payload in hostile:
                    collector.publish("tower", payload)
                collector.publish("tower", ask.encode())
                replies = []
                while not replies or replies[-1].kind == "refused":
                    replies.append(collector.replies.get(timeout=waiting.SECONDS)[1])
                assert replies[-1].question == ask.question.digest
                assert {each.reason.split(":")[0] for each in replies[:-1]} == {"malformed"}
        assert running.stop() == 0


def test_questions_beyond_the_memory_for_them_come_again(sites, port, monkeypatch):
    """Room for three at a time, of forty: none is lost, and no more are held."""
    room = 3 * (100 + mqtt_client.MESSAGE_BYTES)
    monkeypatch.setattr(mqtt_client, "MAX_WAITING_BYTES", room)
    # Otherwise the broker itself sends no more than these.
    monkeypatch.setattr(mqtt_client, "RECEIVE_MAXIMUM", 100)
    broker = Mqtt("127.0.0.1", port, tls=False)
    client = mqtt_client.KeeperClient(broker, FLEET, "tower", "s", Notifier({}))
    client.start()
    try:
        waiting.until(lambda: client.state.startswith("connected"))
        asked, taken = {b"%0100d" % number for number in range(40)}, set()
        with Collector(port) as collector:
            for payload in asked:
                collector.publish("tower", payload)
        connections = set()
        while taken != asked:
            question = client.take(1.0)
            if question is not None:
                client.reply(question, b"")
                taken.add(question.payload)
                connections.add(question.connection)
        assert len(connections) > 1, "the control: it had to connect again"
    finally:
        client.stop()


def test_no_kill_makes_a_second_answer(sites, port):
    """Killed at random moments while it answers; questions are asked again and again."""
    tower, draw = sites[0], random.Random()
    asks = [ask_of(tower, released(sites, [n])) for n in range(1, QUESTIONS * KILLS // 10 + 1)]
    answers = {}
    with Collector(port) as collector:
        for _ in range(KILLS):
            with tower.runs(port) as running:
                running.wait_until_connected()
                few = draw.sample(asks, QUESTIONS)
                for ask in few:
                    collector.publish("tower", ask.encode())
                # The moment of the kill: between two replies, somewhere in the work of the next.
                for _ in range(draw.randint(1, QUESTIONS - 2)):
                    _take(collector, answers)
                running.stop(signal.SIGKILL)
            while not collector.replies.empty():
                _take(collector, answers)
        with tower.runs(port) as running:
            running.wait_until_connected()
            wanted = {ask.question.digest for ask in asks}
            for ask in asks:
                collector.publish("tower", ask.encode())
                _take(collector, answers)
            waiting.until(lambda: _drained(collector, answers) and set(answers) == wanted)
    assert {len(found) for found in answers.values()} == {1}
    with state.opened(tower.state) as held:
        (row,) = held.ledger.summary()
    assert (row.windows, row.open) == (len(asks), 0)


def _take(collector, answers):
    _, reply, _ = collector.replies.get(timeout=waiting.SECONDS)
    assert reply.kind == "answered", reply.reason
    answers.setdefault(reply.question, set()).add(reply.answer)


def _drained(collector, answers):
    while not collector.replies.empty():
        _take(collector, answers)
    return True


def secrets_of(private, place, release, question):
    """The secrets that a keeper derives for a question about one window, by name, in pieces."""
    noise = oracle.noise_seed(private, question)
    yield from (("noise seed", noise), ("noise", oracle.chacha20(noise, bytes(12), 1024)))
    for epoch, public in enumerate(release.epochs):
        shared = oracle.x25519(private, public)
        context = MaskContext(FLEET, release.window, SMALL.digest, epoch, public, place.public)
        seed = oracle.seed(shared, context.encode())
        mask = oracle.chacha20(seed, bytes(12), SMALL.nbytes)
        yield from (("shared", shared), ("seed", seed), ("mask", mask))


def test_a_seized_keeper_holds_no_mask(sites, port):
    """After the answer: no mask, no shared secret, no noise. The control of the search is its
    private key."""
    tower = sites[0]
    (path,) = tower.state.glob("key-*")
    private = path.read_bytes()
    releases = released(sites, [1])
    ask, wanted = ask_of(tower, releases), {}
    secrets = secrets_of(private, tower, releases[0], ask.question.digest)
    for name, secret in (("key", private), *secrets):
        for start in range(0, len(secret) - PIECE + 1, PIECE):
            wanted[secret[start : start + PIECE]] = name
    with tower.runs(port) as running, Collector(port) as collector:
        running.wait_until_connected()
        assert collector.ask("tower", ask).kind == "answered"
        regions = [r for r in process_memory(running.process.pid) if r.name in SEARCHED]
    heads = np.unique(np.frombuffer(b"".join(piece[:8] for piece in wanted), np.uint64))
    found = {
        wanted[held]
        for region in regions
        for held in found_in(region.content, heads)
        if held in wanted
    }
    assert found == {"key"}
