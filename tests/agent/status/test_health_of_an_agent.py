"""The health messages of an agent's process, and what it does when it has none."""

from pansketch import __version__
from tests.agent.status.test_health import LIVE, out_of_order


def test_an_agent_goes_on_when_its_health_cannot_be_taken(device, broker, peer, until):
    device.configure(broker.url, source=LIVE, window="1s")
    (device.state / "outbox").mkdir(parents=True)
    out_of_order(device.state / "outbox")
    with peer(broker.url) as collector:
        agent = device.start("run")
        until(lambda: len(collector.releases) >= 2, "releases")
        assert agent.stop() == 0, agent.output
        until(lambda: collector.statuses[-1].state == "stopped", "the farewell")
        assert collector.healths == []
    assert agent.output.count("no health is published") == 1
    assert "Traceback" not in agent.output


def test_it_is_published_on_connection_and_at_the_end_and_not_retained(device, broker, peer, until):
    device.configure(broker.url, source=LIVE)
    with peer(broker.url) as collector:
        agent = device.start("run")
        until(lambda: collector.healths, "the first health")
        assert agent.stop() == 0, agent.output
        until(lambda: collector.statuses[-1].state == "stopped", "the farewell")
    assert len(collector.healths) == 2
    for retained, health in collector.healths:
        assert not retained
        assert health.session == collector.statuses[-1].session
        assert (health.version, health.waiting, health.dropped) == (__version__, 0, 0)
    with peer(broker.url) as late:
        until(lambda: late.statuses, "the retained status")
        assert late.healths == []


def test_the_health_of_an_agent_whose_collector_is_unavailable(device, broker, peer, until):
    device.configure(broker.url)
    agent = device.start("run", "--drain", "0")
    assert agent.wait() == 1
    (device.state / "outbox/refused").mkdir()
    (device.state / "outbox/refused/x").write_bytes(b"x")
    with peer(broker.url, answer=lambda payload, ack: None) as deaf:
        agent = device.start("run")
        until(lambda: deaf.healths, "the first health")
        agent.stop()
    health = deaf.healths[0][1]
    assert (health.waiting, health.set_aside) == (5, 1)
    assert health.oldest_waiting_seconds is None
