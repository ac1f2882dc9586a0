"""The shared subscription of `serve` and its workers, at a real server and broker."""

import re
from contextlib import ExitStack

import pytest

from pansketch_collector.mqtt.connection import CollectorClient
from pansketch_collector.storage.writer import changing
from pansketch_fleet.protocol import topics
from testbed.mosquitto import mosquitto
from testbed.postgresql import postgresql
from tests import waiting
from tests.collector.ingest.test_workers import collector

GROUP = "b5d1" * 8
LOGS = "log_type subscribe\nlog_type error"


def groups(log):
    """The group of each shared subscription in a broker's log."""
    return re.findall(r"\$share/([^/]+)/", log.read_text())


@pytest.mark.needs("postgresql", "mosquitto")
def test_all_processes_join_one_group_whose_name_is_in_the_database_alone(
    tmp_path, make_small_fleet
):
    """A device with a guessed name would take releases away: mosquitto lets it subscribe."""
    joined = set()
    with postgresql() as first, postgresql() as second:
        for number, server in enumerate((first, second)):
            folder = tmp_path / f"site-{number}"
            folder.mkdir()
            with ExitStack() as stack:
                port = stack.enter_context(mosquitto(folder, settings=LOGS))
                fleet = make_small_fleet(server=server.url, url=f"mqtt://127.0.0.1:{port}")
                for word in ("serve", "ingest"):
                    log = folder / word
                    stack.enter_context(collector(fleet, log, word)).wait_until_connected()
                broker_log = folder / f"mosquitto-{port}.log"
                waiting.until(lambda log=broker_log: len(groups(log)) == 2, "both subscriptions")
                found = groups(broker_log)
                with changing(fleet.database) as opened:
                    assert found == [f"pansketch-{opened.workers}"] * 2
                logs = [(folder / word).read_text() for word in ("serve", "ingest")]
                assert found[0] not in "".join(logs)
            joined.update(found)
    assert len(joined) == 2
    assert all(len(name) >= 32 and fleet.fleet not in name for name in joined)


@pytest.mark.parametrize("worker", ["", "ingest-1"])
def test_a_subscription_that_is_not_authorized_is_logged_without_the_group(
    small_fleet, caplog, worker
):
    """The log names the topics, which the broker's rule is about."""
    mqtt, largest = small_fleet.config.mqtt, small_fleet.rules.largest
    link = CollectorClient(mqtt, small_fleet.fleet, largest, workers=GROUP, worker=worker)
    _, releases, _ = topics.fleet_filter(small_fleet.fleet)
    link.on_subscribed((topics.shared_filter(GROUP, releases),))
    assert f"broker does not authorize reading {releases}: allow it" in caplog.text
    assert GROUP not in caplog.text
    assert not link.connected
