"""An outbox with a few releases."""

import pytest

from pansketch_agent.outbox.outbox import Outbox
from tests.agent.delivery.wire import key


@pytest.fixture
def payloads(device, release_of):
    config = device.configure()
    return [release_of(config, number) for number in range(1, 13)]


@pytest.fixture
def outbox(tmp_path, payloads):
    made = Outbox(tmp_path / "outbox", 10**6)
    for number, payload in enumerate(payloads, 1):
        made.put(key(number), payload)
    return made
