"""A blinded fleet behind a real broker: `serve` as a process, keepers that are asked over MQTT."""

import random
import threading
from contextlib import ExitStack

import numpy as np
import pytest

from pansketch.sketches.counter_bounds import sum_quantile
from pansketch.wire import decode_question
from pansketch_collector.reports.broker_acl import as_text
from testbed.mosquitto import mosquitto
from tests import waiting
from tests.collector.asking.blinded_fleet import BEGIN, FLEET, HOUR, lost, states, sums
from tests.collector.asking.mqtt_keeper import MqttKeeper
from tests.collector.asking.test_asking import all_of, check_one_list_each
from tests.collector.serving import Peer
from tests.collector.small_fleet import rows

THREE = ("one", "two", "three")
FALSE_ALARM = 1e-9
MAX_KILLS, MIN_KILLS, HOURS = 30, 10, 24  # Its questions may end before the last kill.


pytestmark = pytest.mark.needs("mosquitto")


@pytest.fixture
def port(tmp_path, make_fleet):
    """Of a broker with the rules that `acl` writes; devices have no user name here."""
    rules = tmp_path / "acl"
    rules.write_text("topic readwrite pansketch/#\n" + as_text(make_fleet().config, THREE))
    with mosquitto(tmp_path, settings=f"acl_file {rules}") as found:
        yield found


@pytest.fixture
def keepers(port):
    """Starts the keepers of a fleet; `seen` as MqttKeeper has it."""
    with ExitStack() as running:

        def go(fleet, seen=lambda payload: True):
            for each in fleet.keepers.values():
                running.enter_context(MqttKeeper(port, FLEET, each, seen))

        yield go


def publish(port, fleet, windows):
    with Peer(port, FLEET, *THREE) as peer:
        for window in windows:
            ack = peer.exchange(*fleet.release(*window))
            assert ack.status in ("stored", "duplicate")


def test_answers_are_the_sums_of_the_readings_and_noise_of_the_keepers(
    port, keepers, make_fleet, start, ask
):
    fleet = make_fleet(url=f"mqtt://127.0.0.1:{port}", lateness="20s", quiet=False, readings=900)
    keepers(fleet)
    start(fleet.path).wait_until_connected()
    publish(port, fleet, all_of(range(4)))
    waiting.until(lambda: len(sums(fleet)) == 4, lambda: str(states(fleet)))
    found = sums(fleet)
    scale = max(fleet.spec.scales)
    most = sum_quantile(scale, 2, FALSE_ALARM / (4 * found[0][4].size))
    for _, hour, windows, noise, counters in found:
        error = counters - fleet.counted(*all_of([hour]))
        assert windows == 3
        assert noise == 2
        assert 0 < np.abs(error).max() <= most
        # Another period's readings are further away than noise explains.
        assert np.abs(counters - 2 * fleet.counted(*all_of([hour]))).max() > most
    code, said, _ = ask(fleet, "query", "--stream", "air", "count", "temp > 0")
    assert code == 0
    assert (
        "12 releases of 3 devices, epsilon 1 per reading (blinded), 4 answers of 2 keepers" in said
    )


def test_a_collector_that_is_killed_asks_no_window_in_two_lists_and_loses_none(
    port, keepers, make_fleet, start
):
    """It dies as soon as a keeper has a question of its, and the reply is lost or waits for the
    next life, by chance."""
    fleet = make_fleet(
        url=f"mqtt://127.0.0.1:{port}",
        lateness="1s",
        answers="[{every: 1h, share: 1/2}, {every: 2h, share: 1/2}]",
    )
    chance = random.Random(7)
    serving, turn, kills = [], threading.Lock(), [0]

    def seen(payload):
        with turn:
            if kills[0] >= MAX_KILLS or not serving:
                return True
            kills[0] += 1
            serving.pop().process.kill()
            return chance.random() < 0.5

    keepers(fleet, seen)
    first = start(fleet.path)
    first.wait_until_connected()
    with turn:  # A keeper that has a question waits until the process to kill is known.
        publish(port, fleet, all_of(range(HOURS)))
        serving.append(first)
    while True:
        waiting.until(lambda: not serving or done(fleet), lambda: str(states(fleet)))
        if done(fleet):
            break
        with turn:
            serving.append(start(fleet.path))
    assert kills[0] >= MIN_KILLS
    check_one_list_each(fleet)
    assert lost(fleet) == []
    held = {"1h": [], "2h": []}
    for level, payload, counters in rows(
        fleet.database, "SELECT level, payload, counters FROM questions"
    ):
        listed = [each.window for each in decode_question(payload).windows]
        windows = [(each.device, (each.start - BEGIN) // HOUR) for each in listed]
        assert np.array_equal(np.frombuffer(counters, "<i8"), fleet.counted(*windows))
        held[level] += windows
    assert [sorted(found) for found in held.values()] == [sorted(all_of(range(HOURS)))] * 2


def done(fleet):
    """Every window is in an answer of each level."""
    query = (
        "SELECT count(*) FROM window_levels JOIN questions ON questions.id = question"
        " WHERE state = 'answered'"
    )
    return rows(fleet.database, query) == [(2 * 3 * HOURS,)]
