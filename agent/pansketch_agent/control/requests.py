"""Requests of the command line to a running agent: a signal, and an answer in the state folder.

The agent that holds the state folder's lock gets the signal, and replaces a file that counts its
answers. The files say nothing of a reading.

`pansketch-agent rerandomise` sends SIGUSR1: the device was, or is about to be, seized. The file
`intrusions` counts the announcements after which every sketch has drawn fresh noise. A sketch of
keys takes no more in instead: a key that came before and after would pay twice.

`pansketch-agent outbox` sends SIGUSR2. The file `attempts` says how often the agent has sent each
release in flight, what it holds back and why, how many releases are in memory only, how many it has
dropped. With a file `retry` the agent also retransmits at once; if that holds the word "refused",
refused releases as well. Nothing else is read from that file.
"""

import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from pansketch_agent.host.clock import Clock
from pansketch_agent.host.durable_files import replace_file
from pansketch_agent.ledger.state_folder import holder, signal_holder
from pansketch_agent.outbox.records import Key
from pansketch_fleet.settings.settings import KeyStream, Stream

REFUSED = b"refused"
INTRUSION_SECONDS = 10.0  # for every sketch to draw fresh noise
OUTBOX_SECONDS = 5.0
POLL_SECONDS = 0.05


class NoAnswerError(Exception):
    """The running agent has not answered, one line: why, and what to do."""


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
        content = b"%d %d\n" % (os.getpid(), self.answered)
        replace_file(self.state / "intrusions", content)


def intrusion_effect(streams: Sequence[Stream]) -> str:
    """What an announced intrusion has done to the open sketches of these streams, for people."""
    keyed = [stream.name for stream in streams if isinstance(stream, KeyStream)]
    drawn = "every open sketch has drawn fresh noise"
    frozen = f"no more keys are taken until the window ends ({', '.join(keyed)})"
    if len(keyed) == len(streams):
        return frozen
    return f"{drawn}; {frozen}" if keyed else drawn


def announce_intrusion(state: Path, clock: Clock) -> None:
    """Returns once the running agent has confirmed. Raises NoAnswerError."""
    confirmed = state / "intrusions"
    try:
        before = _read(confirmed)
        agent = signal_holder(state, signal.SIGUSR1)
    except OSError as error:
        raise _unreachable(state, "reached", error) from None
    if agent is None:
        raise NoAnswerError(
            f"no agent is running with the state {state}; do nothing, "
            "the next start draws fresh noise"
        )
    if _changed(confirmed, before, clock, INTRUSION_SECONDS) is None:
        raise NoAnswerError(
            f"the agent (process {agent}) did not confirm within {INTRUSION_SECONDS:g} s; "
            "see its log, and stop it if the device may be in wrong hands"
        )


@dataclass(frozen=True)
class OutboxReply:
    """`attempts`: how often a release on its way was sent, by its file's name. `held`: how many
    are in memory only. `dropped`: how many the outbox ever had no room for. `held_back`: why some
    are not sent for now, by their files' names. `taken_back`: how many refused releases are among
    those that wait again, as asked."""

    attempts: Mapping[str, int]
    held: int
    dropped: int
    held_back: Mapping[str, str]
    taken_back: int = 0


@dataclass
class OutboxReplies:
    """The agent's part: what it was asked, and its answers, numbered within its run."""

    state: Path
    written: int = 0

    def asked_to_retry(self) -> bytes | None:
        """What to send again, b"" or REFUSED; None where nobody asks. Asking counts once. Raises
        OSError."""
        try:
            wanted = (self.state / "retry").read_bytes()
            (self.state / "retry").unlink()
        except FileNotFoundError:
            return None
        return REFUSED if wanted == REFUSED else b""

    def write(
        self,
        attempts: Mapping[Key, int],
        held: int,
        dropped: int,
        held_back: Mapping[Key, str],
        taken_back: int,
    ) -> None:
        """Raises OSError."""
        self.written += 1
        named = {key.filename: count for key, count in attempts.items()}
        why = {key.filename: reason for key, reason in held_back.items()}
        answer = {"answer": [os.getpid(), self.written], "attempts": named, "held_back": why}
        counts = {"held": held, "dropped": dropped, "taken_back": taken_back}
        content = json.dumps({**answer, **counts})
        replace_file(self.state / "attempts", content.encode())


def ask_outbox(state: Path, clock: Clock, retry: bytes | None = None) -> OutboxReply | None:
    """What the running agent answers, None when none runs. `retry`: what it is to send again, as
    `asked_to_retry` returns it; what was refused is sent again also by an agent that starts later.

    Raises NoAnswerError.
    """
    attempts = state / "attempts"
    try:
        agent = holder(state)
        if retry == REFUSED or (retry is not None and agent is not None):
            replace_file(state / "retry", retry)
        if agent is None:
            return None
        before = _read(attempts)
        if signal_holder(state, signal.SIGUSR2) is None:
            return None
    except OSError as error:
        raise _unreachable(state, "asked", error) from None
    answer = _changed(attempts, before, clock, OUTBOX_SECONDS)
    if answer is None:
        raise NoAnswerError(
            f"the agent (process {agent}) did not answer within {OUTBOX_SECONDS:g} s; see its log"
        )
    said = json.loads(answer)
    counts = said["held"], said["dropped"], said["held_back"], said["taken_back"]
    return OutboxReply(said["attempts"], *counts)


def told_to_retry(answer: OutboxReply | None, refused: int | None) -> str:
    """What `outbox retry` says; `refused`: how many refused releases lie there now, None where they
    are not to be sent again."""
    if answer is None:
        waits = "no agent is running; when one starts it sends all queued releases at once"
        return waits if refused is None else f"{waits}, refused releases as well: {refused}"
    said = f"the running agent retransmits at once: {len(answer.attempts)} in flight"
    if refused is None:
        return said
    left = f"; no room yet for {refused}" if refused else ""
    return f"{said}, and refused releases from now on: {answer.taken_back}{left}"


def notes(answer: OutboxReply | None, dropped: int, refused: int = 0, gone: int = 0) -> list[str]:
    """What a list of the releases on disk does not show; `dropped`: how many its disk knows of;
    `refused`: how many refused releases are kept, and how many of them are `gone`."""
    held = 0 if answer is None else answer.held
    if answer is not None:
        dropped = answer.dropped
    lost = f"dropped ever, because the outbox was full or could not be written: {dropped}"
    more = f"{held} more in memory only (persist: when_unacknowledged)"
    kept = f"refused and kept: {refused}; `outbox retry --refused` requeues them"
    removed = f"refused and removed ever, because they took too much room: {gone}"
    return [
        *[more] * bool(held),
        *[lost] * bool(dropped),
        *[kept] * bool(refused),
        *[removed] * bool(gone),
    ]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def _changed(file: Path, before: bytes, clock: Clock, seconds: float) -> bytes | None:
    """The content of a file once it is another than before; None when it stays so long."""
    until = clock.monotonic() + seconds
    while (content := _read(file)) == before:
        if clock.wait(Event(), POLL_SECONDS) or clock.monotonic() > until:
            return None
    return content


def _unreachable(state: Path, how: str, error: OSError) -> NoAnswerError:
    why = error.strerror or type(error).__name__
    return NoAnswerError(
        f"the agent cannot be {how} through {state} ({why}); run this as the agent's user"
    )
