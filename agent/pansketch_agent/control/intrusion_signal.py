"""Announced intrusions: somebody says that the device was, or is about to be, looked into.

`pansketch-agent rerandomise` sends SIGUSR1 to the agent that holds the state folder's lock, and
waits until the file `intrusions` of the state folder says that every sketch has drawn fresh noise.
A sketch of keys takes no more in instead: a key that came before and after would pay twice.
"""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from pansketch_agent.host.clock import Clock
from pansketch_agent.host.durable_files import replace_file
from pansketch_agent.ledger.state_folder import signal_holder
from pansketch_fleet.settings.settings import KeyStream, Stream

MAX_SECONDS = 10.0
POLL_SECONDS = 0.05


class NotAnnouncedError(Exception):
    """No running agent has answered, one line: why, and what to do."""


@dataclass
class Confirmations:
    """The file that says how many announcements this run of the agent has answered."""

    state: Path
    answered: int = 0

    def confirm(self) -> None:
        """One more is answered. Raises OSError."""
        self.answered += 1
        self.write()

    def write(self) -> None:
        """Raises OSError."""
        replace_file(_path(self.state), b"%d %d\n" % (os.getpid(), self.answered))


def told(streams: Sequence[Stream]) -> str:
    """What an announced intrusion has done to the open sketches of these streams, for people."""
    keyed = [stream.name for stream in streams if isinstance(stream, KeyStream)]
    drawn = "every open sketch has drawn fresh noise"
    frozen = f"no more keys are taken until the window ends ({', '.join(keyed)})"
    if len(keyed) == len(streams):
        return frozen
    return f"{drawn}; {frozen}" if keyed else drawn


def announce(state: Path, clock: Clock) -> None:
    """Returns once the running agent has confirmed. Raises NotAnnouncedError."""
    try:
        before = _read(state)
        agent = signal_holder(state, signal.SIGUSR1)
        if agent is None:
            raise NotAnnouncedError(
                f"no agent is running with the state {state}; do nothing, "
                "the next start draws fresh noise"
            )
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise NotAnnouncedError(
            f"the agent cannot be reached through {state} ({why}); run this as the agent's user"
        ) from None
    until = clock.monotonic() + MAX_SECONDS
    while _read(state) == before:
        if clock.wait(Event(), POLL_SECONDS) or clock.monotonic() > until:
            raise NotAnnouncedError(
                f"the agent (process {agent}) did not confirm within {MAX_SECONDS:g} s; "
                "see its log, and stop it if the device may be in wrong hands"
            )


def _path(state: Path) -> Path:
    return state / "intrusions"


def _read(state: Path) -> bytes:
    try:
        return _path(state).read_bytes()
    except FileNotFoundError:
        return b""
