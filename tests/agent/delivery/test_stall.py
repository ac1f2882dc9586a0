"""A broker that keeps its connections and answers nothing: the agent makes another one."""

from testbed.embedded_broker import free_port

IMPATIENT = """
import sys
from pansketch_agent.delivery import delivery
from pansketch_agent.__main__ import main
delivery.STALL_SECONDS = 0.5
sys.exit(main(sys.argv[1:]))
"""


def test_a_broker_that_hangs_is_left_and_gets_everything_later(device, peer, broker_at, until):
    with broker_at(free_port()) as hanging, peer(hanging.url) as collector:
        device.configure(hanging.url, source="{type: stdin}", window="1s")
        agent = device.start("run", program=("-c", IMPATIENT))
        until(lambda: collector.releases, "a first release")
        with hanging.program.frozen():
            agent.wait_for_output("does not answer; reconnecting")
            held = max(collector.sequences())
        until(lambda: max(collector.sequences()) >= held + 3, "what came meanwhile")
        until(lambda: not device.outbox(), "their acknowledgements")
        assert agent.stop() == 0, agent.output
    assert sorted(set(collector.sequences())) == list(range(1, max(collector.sequences()) + 1))
    assert len(set(collector.releases)) == max(collector.sequences())
    assert "Traceback" not in agent.output
