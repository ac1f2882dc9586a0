"""Events that signals set: a handler between any two instructions never waits for itself."""

import sys
import threading
from pathlib import Path

import pytest

from pansketch_agent.runtime import control as agent
from pansketch_agent.runtime.control import Signals
from pansketch_collector.commands import serve as collector
from pansketch_collector.commands.serve import Sessions
from pansketch_fleet import systemd
from pansketch_fleet.systemd import SignalEvent
from pansketch_keeper import __main__ as keeper
from tests import waiting

OPERATIONS = {
    "set": lambda event: event.set(),
    "clear": lambda event: event.clear(),
    "wait": lambda event: event.wait(0.01),
    "is_set": lambda event: event.is_set(),
}


def interrupted(event, operation, handler):
    """Runs an operation in a thread with the handler after each of its lines, and those of the
    calls inside; returns the number of lines.

    A signal's handler runs in the same way: in the interrupted thread, above its frames.
    """
    lines = []

    def step(frame, what, argument):
        if what == "line":
            lines.append(frame.f_lineno)
            handler(event)
        return step

    def run():
        sys.settrace(step)
        try:
            operation(event)
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(waiting.SECONDS)
    assert not thread.is_alive(), "the handler waits for the thread that it interrupts"
    return len(lines)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("waiters", [0, 2])
def test_a_handler_may_set_it_within_any_operation(name, waiters):
    event = SignalEvent()
    threads = [threading.Thread(target=event.wait, daemon=True) for _ in range(waiters)]
    for each in threads:
        each.start()
    assert interrupted(event, OPERATIONS[name], lambda event: event.set()) >= 1
    event.set()
    for each in threads:
        each.join(waiting.SECONDS)
        assert not each.is_alive()
    assert event.is_set()


def test_the_check_can_fail():
    """Negative control: `threading.Event` holds its lock within an operation, and a handler that
    sets it would wait for that lock."""
    free = []

    def handler(event):
        free.append(event._cond.acquire(blocking=False))
        if free[-1]:
            event._cond.release()

    interrupted(threading.Event(), OPERATIONS["set"], handler)
    assert False in free


def test_the_programs_signals_set_such_events():
    """A second SIGTERM within the handler of the first one left an agent waiting for itself."""
    sessions = Sessions(None, None)
    for event in (*vars(Signals()).values(), sessions.over, sessions._reload):
        assert isinstance(event, SignalEvent)
    programs = (Path(each.__file__).read_text() for each in (agent, collector, keeper))
    assert not any("threading.Event()" in each for each in programs)


def test_it_is_an_event():
    event, woken = SignalEvent(), []
    assert not event.is_set()
    assert event.wait(0.01) is False
    waiter = threading.Thread(target=lambda: woken.append(event.wait()))
    waiter.start()
    event.set()
    waiter.join(waiting.SECONDS)
    assert woken == [True]
    assert event.wait() is True
    event.clear()
    assert not event.is_set()


def test_a_signal_that_a_wait_misses_is_noticed_soon(monkeypatch):
    """A handler after the wait's own test wakes no thread; the next test sees it."""
    monkeypatch.setattr(systemd, "MISSED_SECONDS", 0.01)
    event, found, waits = SignalEvent(), [], []
    changed_wait = event._changed.wait

    def wait_after_a_signal(timeout):
        waits.append(timeout)
        event._is_set = True
        return changed_wait(timeout)

    event._changed.wait = wait_after_a_signal
    waiter = threading.Thread(target=lambda: found.append(event.wait()), daemon=True)
    waiter.start()
    waiter.join(waiting.SECONDS)
    assert (found, waits) == ([True], [0.01])
