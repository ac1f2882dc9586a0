"""The collector's part of a blinded fleet: asks keepers, retries until they answer, and unblinds.

Each turn executes the next steps that the database lists. So a killed process continues from its
last state. A question's list is on the disk before any keeper is asked to answer it. A repeated
question has the same answer.
"""

import logging
from dataclasses import dataclass
from typing import Protocol

from pansketch.blinding import KeeperQuestion, MaskedWindow, most_windows
from pansketch.sketches import LinearSpec
from pansketch_collector.asking.due_questions import due, parts
from pansketch_collector.asking.masked_sums import (
    StoredReleases,
    checked_answer,
    summed,
)
from pansketch_collector.asking.question_store import AskedKeeper, OpenQuestion, QuestionStore
from pansketch_collector.asking.waiting_releases import Group, WaitingReleases
from pansketch_collector.storage.tables.connection import ERRORS, Database
from pansketch_collector.validation.decision import supersedes
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import KeeperReply, KeeperStatus, Outcome
from pansketch_fleet.backoff import Backoff
from pansketch_fleet.config.loader import Config
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.keeper_messages import Ask, ask_load
from pansketch_fleet.settings.settings import AnswerLevel, Stream
from pansketch_fleet.units import utc_text

SCAN_SECONDS = 0.5
AGAIN_SECONDS = 3_600.0  # between two scans of all releases
FAILED_SECONDS = 10.0  # the pause after a database that cannot be written
MAX_AT_ONCE = 8  # questions sent in one turn
UNKNOWN = "its settings are none that this collector served"

log = logging.getLogger("collector")


class KeeperOutlet(Protocol):
    """The publisher of questions: `pansketch_collector.mqtt.connection.CollectorClient`."""

    @property
    def connected(self) -> bool: ...
    def room(self, topic: str) -> int: ...
    def ask(self, keeper: str, payload: bytes) -> None: ...


@dataclass
class _Turn:
    """When one keeper is asked again, on the clock that never jumps, and the pause after that."""

    due: float = 0.0
    pause: float = 0.0


class Asker:
    """The questions of one serving process, for one thread."""

    def __init__(
        self,
        config: Config,
        db: Database,
        rules: Rules,
        outlet: KeeperOutlet,
        backoff: Backoff | None = None,
    ) -> None:
        self._config, self._rules, self._outlet = config, rules, outlet
        self._streams = [stream for stream in config.streams if stream.blinded is not None]
        self._store, self._waiting = QuestionStore(db), WaitingReleases(db)
        self._backoff = Backoff(5.0, 3_600.0) if backoff is None else backoff
        self._presences = self._store.presences()
        self._turns: dict[tuple[bytes, bytes, str], _Turn] = {}
        self._noted: dict[str, int] = {}
        self._next_scan = self._again = 0.0
        self._begun = False

    def receive(self, verdict: Outcome, now: int) -> None:
        """Record a keeper's status. An update that cannot be written now is requested again."""
        try:
            match verdict:
                case KeeperStatus(keeper, status):
                    known = self._presences.get(keeper)
                    if supersedes(status, None if known is None else known[1]):
                        self._store.note_presence(keeper, status, now)
                        self._presences[keeper] = status.state, status.session
                        self._turns.clear()  # The keeper may be back before the pause ends.
                case KeeperReply(keeper, reply):
                    self._store.record_reply(keeper, reply, now)
                    self._next_scan = 0.0
                case _:
                    pass
        except (*ERRORS, ValueError) as error:
            log.warning("a reply of keeper %s is lost (%s); asking again", verdict.keeper, error)  # type: ignore[union-attr]

    def step(self, uptime: float, now: int) -> None:
        """Makes the questions that are due, and does what is next for each open one."""
        if uptime < self._next_scan or not self._rules.keepers:
            return
        self._next_scan = uptime + SCAN_SECONDS
        try:
            self._note(uptime)
            if self._outlet.connected:
                self._make(now)
            for each in list(self._store.open()):
                self._advance(each, now)
            if self._outlet.connected:
                self._send(uptime, now)
        except ERRORS as error:
            log.warning("keepers cannot be asked now (%s); retrying", error)
            self._next_scan = uptime + FAILED_SECONDS

    def _note(self, uptime: float) -> None:
        """Has new releases wait; once in a while looks at all of them."""
        levels = {stream.name: [each.name for each in _levels(stream)] for stream in self._streams}
        if not self._begun:
            self._waiting.keep_levels(levels)
            self._store.retry()
            self._begun = True
        if uptime >= self._again:
            self._noted.clear()
            self._again = uptime + AGAIN_SECONDS
        for name, found in levels.items():
            after = self._noted.get(name, 0)
            self._noted[name] = self._waiting.note_releases(name, found, after)

    def _make(self, now: int) -> None:
        """Stores the questions that are due."""
        for stream in self._streams:
            blinded = stream.blinded
            assert blinded is not None
            for level in blinded.levels:
                for group, waiting in self._waiting.waiting(stream.name, level).items():
                    found = due(
                        waiting,
                        self._waiting.asked(group),
                        level,
                        stream.window_seconds,
                        blinded.lateness_seconds,
                        now,
                    )
                    for each in found:
                        self._make_about(group, each.period, each.listed, now)

    def _make_about(self, group: Group, period: int, listed: tuple[int, ...], now: int) -> None:
        names = self._rules.keepers
        spec = self._spec(group.stream, group.fingerprint)
        if spec is None or any(key not in names for key in group.keepers):
            return  # The configuration may know them again.
        windows = self._waiting.windows(group, listed)
        for part in self._parts(group, spec, windows):
            question = KeeperQuestion(
                self._config.fleet,
                spec.digest,
                group.level.name,
                group.level.share,
                tuple(windows[part]),
            )
            self._store.add(group, period, question, names, now)
            log.info(
                "stream %s: asking %s about %d windows, level %s, from %s",
                group.stream,
                ", ".join(names[key] for key in group.keepers),
                len(question.windows),
                group.level.name,
                utc_text(period * group.level.every_seconds),
            )

    def _parts(self, group: Group, spec: LinearSpec, windows: list[MaskedWindow]) -> list[slice]:
        """The windows that one question each can list."""
        if not windows:
            return []
        longest = max(each.window.end - each.window.start for each in windows)
        readings = self._rules.specs[group.stream].readings_of(longest)
        fit = most_windows(spec, group.level.share, len(group.keepers), readings, len(windows))
        room = min(
            self._outlet.room(topics.keeper_ask(self._config.fleet, self._rules.keepers[key]))
            for key in group.keepers
        )
        # Of each window its own: a device with many epochs must not split the fleet's answer.
        sizes = [(len(each.window.device + group.stream), len(each.epochs)) for each in windows]
        loads = {each: ask_load(spec, *each, room) for each in set(sizes)}
        return parts([loads[each] for each in sizes], max(1, fit))

    def _spec(self, stream: str, fingerprint: bytes) -> LinearSpec | None:
        specs = self._rules.specs.get(stream)
        found = None if specs is None else specs.at(0).get(fingerprint)
        return found if isinstance(found, LinearSpec) else None

    def _advance(self, open: OpenQuestion, now: int) -> None:
        """The next state of a question, if all keepers have sent the answers that it needs."""
        states = {keeper.state for keeper in open.keepers}
        if open.state == "prepare" and states == {"prepared"}:
            if unfit := self._store.unfit(open.number):
                self._store.leave(open.number, unfit)
            else:
                self._store.fix(open.number)
        elif open.state == "answer" and states == {"answered"}:
            self._unblind(open, now)

    def _unblind(self, open: OpenQuestion, now: int) -> None:
        number, spec = open.number, self._spec(open.stream, open.fingerprint)
        try:
            question = self._store.question(number)
            if spec is None or spec.digest != question.spec:
                raise ValueError(UNKNOWN)
            payloads = self._store.answers(number)
            for keeper in open.keepers:
                try:
                    checked_answer(payloads[keeper.key], keeper.key, question, spec)
                except ValueError as error:
                    log.error("keeper %s: its answer cannot be used: %s", keeper.name, error)
                    self._store.again(number, keeper.key, str(error))
                    return
            releases = StoredReleases(self._store.releases(number), self._store.payload, spec)
            longest = max(each.window.end - each.window.start for each in question.windows)
            readings = self._rules.specs[open.stream].readings_of(longest)
            total = summed(question, releases, list(payloads.values()), spec, readings)
        except ValueError as error:
            log.error("stream %s: an answer is rejected: %s", open.stream, error)
            self._store.fail(number, str(error), now)
            return
        self._store.settle(number, total, now)
        log.info(
            "stream %s: answered by %s: %d windows, level %s",
            open.stream,
            ", ".join(keeper.name for keeper in open.keepers),
            len(question.windows),
            question.level,
        )

    def _send(self, uptime: float, now: int) -> None:
        """Ask the keepers that are due, if they are online or have never sent a status."""
        turns: dict[tuple[bytes, bytes, str], _Turn] = {}
        sent = 0
        for each in self._store.open():
            kind = "prepare" if each.state == "prepare" else "answer"
            for keeper in each.keepers:
                if keeper.state == ("prepared" if kind == "prepare" else "answered"):
                    continue
                name = each.digest, keeper.key, kind
                turn = turns[name] = self._turns.get(name) or _Turn()
                online = self._presences.get(keeper.name, ("online", ""))[0] == "online"
                if online and uptime >= turn.due and sent < MAX_AT_ONCE:
                    self._ask(each, keeper, kind)
                    turn.pause = self._backoff.following(turn.pause)
                    turn.due = uptime + self._backoff.jittered(turn.pause)
                    sent += 1
        self._turns = turns

    def _ask(self, open: OpenQuestion, keeper: AskedKeeper, kind: str) -> None:
        spec = self._spec(open.stream, open.fingerprint)
        try:
            question = self._store.question(open.number)
            if spec is None:
                raise ValueError(UNKNOWN)
            payload = Ask(kind, question, spec, keeper.key).encode()  # type: ignore[arg-type]
        except ValueError as error:
            self._store.complain(open.number, keeper.key, str(error))
            return
        self._outlet.ask(keeper.name, payload)


def _levels(stream: Stream) -> tuple[AnswerLevel, ...]:
    return () if stream.blinded is None else stream.blinded.levels
