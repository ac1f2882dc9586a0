"""The system's clock as the sources use it."""

import threading
from math import inf, nan

import pytest

from pansketch_agent.host.clock import system_clock


@pytest.mark.parametrize("seconds", [-inf, -1.0, 0.0, 1e9, 1e300, inf, nan])
def test_a_wait_of_any_length_is_one_that_the_system_can_make(seconds):
    """A row of a slow replay may be due in a million years: that must not raise."""

    class Stop(threading.Event):
        def wait(self, timeout=None):
            assert 0 <= timeout <= threading.TIMEOUT_MAX
            return True

    assert system_clock().wait(Stop(), seconds)
