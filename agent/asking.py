"""`pansketch-agent outbox` asks the running agent: SIGUSR2, and an answer in the state folder.

The agent writes the file `attempts`: how often it has sent what is on its way, what it holds back
and why, how many releases it holds in memory, how many it has dropped. When there is a file
`retry`, it also sends again at once. Nothing else is read from either file, and neither says
anything of a reading.
"""

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from agent.clock import Clock
from agent.files import replace_file
from agent.ledger import holder
from agent.records import Key

MOST_SECONDS = 5.0
POLL_SECONDS = 0.05


class NoAnswerError(Exception):
    """The running agent has not answered, one line: why, and what to do."""


@dataclass(frozen=True)
class Answer:
    """`attempts`: how often a release on its way was sent, by its file's name. `held`: how many
    are in memory only. `dropped`: how many the outbox ever had no room for. `held_back`: why some
    are not sent for now, by their files' names."""

    attempts: Mapping[str, int]
    held: int
    dropped: int
    held_back: Mapping[str, str]


@dataclass
class Answers:
    """The agent's part: what it was asked, and its answers, numbered within its run."""

    state: Path
    written: int = 0

    def asked_to_retry(self) -> bool:
        """Whether somebody wants it; asking counts once. Raises OSError."""
        try:
            (self.state / "retry").unlink()
        except FileNotFoundError:
            return False
        return True

    def write(
        self, attempts: Mapping[Key, int], held: int, dropped: int, held_back: Mapping[Key, str]
    ) -> None:
        """Raises OSError."""
        self.written += 1
        named = {key.filename: count for key, count in attempts.items()}
        why = {key.filename: reason for key, reason in held_back.items()}
        answer = {"answer": [os.getpid(), self.written], "attempts": named, "held_back": why}
        content = json.dumps({**answer, "held": held, "dropped": dropped})
        replace_file(self.state / "attempts", content.encode())


def ask(state: Path, clock: Clock, retry: bool) -> Answer | None:
    """What the running agent answers, None when none runs. Raises NoAnswerError."""
    try:
        agent = holder(state)
        if agent is None:
            return None
        before = _read(state)
        if retry:
            replace_file(state / "retry", b"")
        os.kill(agent, signal.SIGUSR2)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise NoAnswerError(
            f"the agent cannot be asked through {state} ({why}); run this as the agent's user"
        ) from None
    until = clock.monotonic() + MOST_SECONDS
    while (answer := _read(state)) == before:
        if clock.wait(Event(), POLL_SECONDS) or clock.monotonic() > until:
            raise NoAnswerError(
                f"the agent (process {agent}) did not answer within {MOST_SECONDS:g} s; see its log"
            )
    said = json.loads(answer)
    return Answer(said["attempts"], said["held"], said["dropped"], said["held_back"])


def told_to_retry(answer: Answer | None) -> str:
    """What `outbox retry` says."""
    if answer is None:
        return "no agent is running; when one starts it sends at once whatever waits"
    return f"the running agent sends again, at once: {len(answer.attempts)} on their way"


def notes(answer: Answer | None, dropped: int) -> list[str]:
    """What a list of the releases on disk does not show; `dropped`: how many its disk knows of."""
    held = 0 if answer is None else answer.held
    if answer is not None:
        dropped = answer.dropped
    lost = f"dropped ever, because the outbox was full or could not be written: {dropped}"
    more = f"{held} more in memory only (persist: when_unacknowledged)"
    return [more] * bool(held) + [lost] * bool(dropped)


def _read(state: Path) -> bytes:
    try:
        return (state / "attempts").read_bytes()
    except FileNotFoundError:
        return b""
