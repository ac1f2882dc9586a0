"""Requests of the command line to a running agent: a signal, and an answer in the state folder.

The agent that holds the state folder's lock receives the signal and replaces a file that counts its
answers. The files contain nothing about readings.

`pansketch-agent rerandomise` sends SIGUSR1: the device was, or is about to be, seized. The file
`intrusions` counts the announcements after which every sketch has drawn fresh noise. A sketch of
keys absorbs no more keys instead: a key before and after the announcement would spend epsilon
twice.

`pansketch-agent outbox` sends SIGUSR2. The agent writes the file `attempts`: transmissions of each
release in flight, releases on hold with reasons, and counts of buffered and dropped releases. If a
file `retry` exists, the agent also retransmits at once. If that file contains the word "refused",
the agent requeues dead-lettered releases as well. It reads nothing else from that file.
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
from pansketch_agent.ledger.state_folder import lock_holder, signal_lock_holder
from pansketch_agent.outbox.records import Key
from pansketch_fleet.settings.settings import KeyStream, Stream

REFUSED = b"refused"
INTRUSION_SECONDS = 10.0  # for every sketch to draw fresh noise
OUTBOX_SECONDS = 5.0
POLL_SECONDS = 0.05


class NoAnswerError(Exception):
    """The running agent has not answered. One line: why, and the fix."""


@dataclass
class Confirmations:
    """The file that counts the announcements which this run of the agent has answered."""

    state: Path
    answered: int = 0

    def begin(self) -> None:
        """Replace the file of an earlier run, or at least remove it. Raises OSError."""
        try:
            self.write()
        except OSError:
            (self.state / "intrusions").unlink(missing_ok=True)
            raise

    def confirm(self) -> None:
        """Count one more answer. Raises OSError."""
        self.answered += 1
        self.write()

    def write(self) -> None:
        """Write the file. Raises OSError."""
        content = b"%d %d\n" % (os.getpid(), self.answered)
        replace_file(self.state / "intrusions", content)


def intrusion_effect(streams: Sequence[Stream]) -> str:
    """Return, for people, the effect of an announced intrusion on the open sketches of these
    streams.
    """
    keyed = [stream.name for stream in streams if isinstance(stream, KeyStream)]
    drawn = "every open sketch has drawn fresh noise"
    frozen = f"no more keys are taken until the window ends ({', '.join(keyed)})"
    if len(keyed) == len(streams):
        return frozen
    return f"{drawn}; {frozen}" if keyed else drawn


def announce_intrusion(state: Path, clock: Clock) -> None:
    """Announce an intrusion, and return once the running agent has confirmed it. Raises
    NoAnswerError.
    """
    confirmed = state / "intrusions"
    try:
        before = _read(confirmed)
        agent = signal_lock_holder(state, signal.SIGUSR1)
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
    """The agent's answer about its outbox; keys are file names of releases.

    `attempts`: transmissions of each release in flight. `buffered`: the number of releases in
    memory only. `dropped`: how many the outbox ever dropped. `on_hold`: reasons of blocked
    releases. `requeued`: how many dead-lettered releases were queued again on this request.
    """

    attempts: Mapping[str, int]
    buffered: int
    dropped: int
    on_hold: Mapping[str, str]
    requeued: int = 0


@dataclass
class OutboxReplies:
    """The agent's side: requests to retry, and its answers, numbered within its run."""

    state: Path
    written: int = 0

    def take_retry_request(self) -> bytes | None:
        """Remove the request, and return b"" or REFUSED; None if there is no request. Raises
        OSError.
        """
        try:
            wanted = (self.state / "retry").read_bytes()
            (self.state / "retry").unlink()
        except FileNotFoundError:
            return None
        return REFUSED if wanted == REFUSED else b""

    def write(
        self,
        attempts: Mapping[Key, int],
        buffered: int,
        dropped: int,
        on_hold: Mapping[Key, str],
        requeued: int,
    ) -> None:
        """Write the answer. Raises OSError."""
        self.written += 1
        named = {key.filename: count for key, count in attempts.items()}
        reasons = {key.filename: reason for key, reason in on_hold.items()}
        answer = {"answer": [os.getpid(), self.written], "attempts": named, "held_back": reasons}
        counts = {"held": buffered, "dropped": dropped, "taken_back": requeued}
        content = json.dumps({**answer, **counts})
        replace_file(self.state / "attempts", content.encode())


def ask_outbox(state: Path, clock: Clock, retry: bytes | None = None) -> OutboxReply | None:
    """Return the running agent's answer, or None if no agent runs.

    `retry`: the request, as `take_retry_request` returns it. A request for dead-lettered releases
    also reaches an agent that starts later. Raises NoAnswerError.
    """
    attempts = state / "attempts"
    try:
        agent = lock_holder(state)
        if retry == REFUSED or (retry is not None and agent is not None):
            replace_file(state / "retry", retry)
        if agent is None:
            return None
        before = _read(attempts)
        if signal_lock_holder(state, signal.SIGUSR2) is None:
            return None
    except OSError as error:
        raise _unreachable(state, "asked", error) from None
    answer = _changed(attempts, before, clock, OUTBOX_SECONDS)
    if answer is None:
        raise NoAnswerError(
            f"the agent (process {agent}) did not answer within {OUTBOX_SECONDS:g} s; see its log"
        )
    reply = json.loads(answer)
    counts = reply["held"], reply["dropped"], reply["held_back"], reply["taken_back"]
    return OutboxReply(reply["attempts"], *counts)


def retry_text(answer: OutboxReply | None, refused: int | None) -> str:
    """Return the output of `outbox retry`.

    `refused`: the number of dead-lettered releases left, None if they were not requested.
    """
    if answer is None:
        later = "no agent is running; when one starts it sends all queued releases at once"
        return later if refused is None else f"{later}, refused releases as well: {refused}"
    reply = f"the running agent retransmits at once: {len(answer.attempts)} in flight"
    if refused is None:
        return reply
    left = f"; no room yet for {refused}" if refused else ""
    return f"{reply}, and refused releases from now on: {answer.requeued}{left}"


def notes(
    answer: OutboxReply | None, dropped: int, refused: int = 0, removed_count: int = 0
) -> list[str]:
    """Return what a list of the releases on disk lacks.

    `dropped`: the count on disk. `refused`: the number of dead-lettered releases; `gone`: how many
    of these were ever removed.
    """
    buffered = 0 if answer is None else answer.buffered
    if answer is not None:
        dropped = answer.dropped
    lost = f"dropped ever, because the outbox was full or could not be written: {dropped}"
    more = f"{buffered} more in memory only (persist: when_unacknowledged)"
    kept = f"refused and kept: {refused}; `outbox retry --refused` requeues them"
    removed = f"refused and removed ever, because they took too much room: {removed_count}"
    return [
        *[more] * bool(buffered),
        *[lost] * bool(dropped),
        *[kept] * bool(refused),
        *[removed] * bool(removed_count),
    ]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def _changed(file: Path, before: bytes, clock: Clock, seconds: float) -> bytes | None:
    """Return the content of a file once it differs from `before`, or None after `seconds`."""
    until = clock.monotonic() + seconds
    while (content := _read(file)) == before:
        if clock.wait(Event(), POLL_SECONDS) or clock.monotonic() > until:
            return None
    return content


def _unreachable(state: Path, how: str, error: OSError) -> NoAnswerError:
    reasons = error.strerror or type(error).__name__
    return NoAnswerError(
        f"the agent cannot be {how} through {state} ({reasons}); run this as the agent's user"
    )
