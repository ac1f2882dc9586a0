"""Reconciliation of every masked release at every level: in one answer, or excused by a fault.

A pure function of the messages seen on the wire and of the collector's database. No keeper may
answer one question, or one window at one level, twice with distinct noise. A fault excuses the
windows that it names, and no others.
"""

import base64
import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import cast

import numpy as np

from pansketch.blinding import KeeperQuestion
from pansketch.sketches import LinearSpec
from pansketch.wire import decode_answer, decode_blinded, decode_question
from pansketch_collector.asking.waiting_releases import AGAIN
from pansketch_collector.storage.tables.records import EXCLUDED
from pansketch_fleet.config.loader import load_collector
from testbed.chaos.accounting.evidence import Evidence, Run
from testbed.chaos.environment.configuration import KEEPERS, MASKED, database_in
from testbed.chaos.observation.answers import (
    AnswerObserver,
    level_name,
    levels_of,
    waiting_until,
)

HEARD = "answers.jsonl"
ANSWERED = "answered"
NOT_OVER, LATE = "not over", "late"
FORGOTTEN = "forgotten"
RENUMBERED = "renumbered"
LEFT_OUT = "left out"
UNANSWERED = "UNANSWERED"
CLASSES: Mapping[str, str] = {
    ANSWERED: "in one answered question",
    NOT_OVER: "of a period that was not over when the run ended",
    LATE: "came after its period was asked about; the next one was not over when the run ended",
    FORGOTTEN: "asked about in a question that the database had when the run rolled it back",
    RENUMBERED: "under a number that its device had used, whose ledger the run has replaced",
    LEFT_OUT: "disputed or excluded, because a second agent of the same name released it",
    UNANSWERED: "LOST",
}
ANSWERED_SHARE = 0.8  # at least, of the windows at their levels whose period was over


@dataclass(frozen=True)
class Settled:
    """A question that the database has an answer to."""

    question: KeeperQuestion
    fingerprint: bytes
    counters: bytes


@dataclass(frozen=True)
class Answers:
    """The input of the reconciliation.

    `questions`: by digest, as they were sent. `observed`: the answers by keeper and digest.
    `levels`: the database's record of each stored masked release and level: the question's state,
    the problem, and whether the release is left out.
    """

    questions: Mapping[bytes, KeeperQuestion]
    observed: Mapping[tuple[str, bytes], frozenset[bytes]]
    settled: tuple[Settled, ...]
    levels: Mapping[str, tuple[str, str, bool]]
    waiting: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class AnswerAccount:
    """Every masked release at every level with its class, and all that is wrong, a line each."""

    classes: Mapping[str, str]
    questions: int
    failures: tuple[str, ...]

    def totals(self) -> dict[str, int]:
        counted = Counter(self.classes.values())
        return {name: counted[name] for name in CLASSES}


def write(folder: Path, observed: AnswerObserver) -> None:
    """Write the observed messages into the folder."""
    rows = [{"question": _text(each)} for each in observed.questions()]
    rows += [
        {"keeper": keeper, "to": digest.hex(), "answer": _text(answer)}
        for (keeper, digest), answers in observed.answers().items()
        for answer in sorted(answers)
    ]
    (folder / HEARD).write_text("".join(json.dumps(row) + "\n" for row in rows))


def gather(folder: Path) -> Answers:
    """Reads a finished run. Raises OSError, ValueError, sqlite3.Error when it is none."""
    questions: dict[bytes, KeeperQuestion] = {}
    observed: dict[tuple[str, bytes], set[bytes]] = defaultdict(set)
    for row in map(json.loads, (folder / HEARD).read_text().splitlines()):
        if "question" in row:
            question = decode_question(base64.b64decode(row["question"]))
            questions[question.digest] = question
        else:
            answer = base64.b64decode(row["answer"])
            observed[row["keeper"], bytes.fromhex(row["to"])].add(answer)
    database = database_in(folder)
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT payload, fingerprint, counters FROM questions WHERE state = 'answered'"
        ).fetchall()
        levels = connection.execute(
            "SELECT r.device, r.stream, r.incarnation, r.sequence, w.level, coalesce(q.state, ''),"
            " coalesce(w.problem, ''), whose FROM (SELECT *, " + EXCLUDED + " AS whose FROM"
            " releases) AS r LEFT JOIN window_levels AS w ON (w.device, w.stream, w.incarnation,"
            " w.sequence, w.window_start) = (r.device, r.stream, r.incarnation, r.sequence,"
            " r.window_start) LEFT JOIN questions AS q ON q.id = w.question WHERE r.stream = ?",
            (MASKED,),
        ).fetchall()
    return Answers(
        questions,
        {name: frozenset(found) for name, found in observed.items()},
        tuple(Settled(decode_question(row[0]), *row[1:]) for row in rows),
        {
            level_name(device, stream, incarnation, sequence, str(level)): (
                state,
                problem,
                bool(out),
            )
            for device, stream, incarnation, sequence, level, state, problem, out in levels
        },
        waiting_until(database),
    )


def account(folder: Path, evidence: Evidence, answers: Answers) -> AnswerAccount:
    """The class of each release at each level, and the violations."""
    run = evidence.run
    numbers = Counter(
        (debit.name.device, debit.sequence)
        for debit in evidence.debits
        if debit.name.stream == MASKED
    )
    twice = {who for who, times in numbers.items() if times > 1}
    classes = {
        name: _class(name, *found, answers, run, twice) for name, found in answers.levels.items()
    }
    failures = [
        *(f"{name}: {_why(answers, name)}" for name in classes if classes[name] == UNANSWERED),
        *_answered_twice(answers),
        *_beyond_epsilon(answers),
        *_settled_twice(answers),
        *_wrong_sums(folder, evidence, answers),
    ]
    found = AnswerAccount(classes, len(answers.settled), tuple(failures))
    counted = found.totals()
    over = len(classes) - counted[NOT_OVER]
    if counted[ANSWERED] < ANSWERED_SHARE * over:
        few = f"only {counted[ANSWERED]} of {over} windows at their levels are answered"
        failures.append(f"{few}; wanted: {ANSWERED_SHARE:.0%}")
    return AnswerAccount(classes, len(answers.settled), tuple(failures))


def _class(
    name: str,
    state: str,
    problem: str,
    left_out: bool,
    answers: Answers,
    run: Run,
    twice: set[tuple[str, int]],
) -> str:
    device, number = name.partition("/")[0], int(name.split()[2])
    if state == "answered":
        return ANSWERED
    if left_out:
        return LEFT_OUT
    own, due = answers.waiting.get(name, (0, 0))
    if not state and not problem and due > run.asked_until:
        return NOT_OVER if own > run.asked_until else LATE
    if name in run.forgotten:
        return FORGOTTEN
    if problem == AGAIN and device in run.reset and (device, number) in twice:
        return RENUMBERED
    return UNANSWERED


def _why(answers: Answers, name: str) -> str:
    state, problem, _ = answers.levels[name]
    return f"unanswered: {problem or state or 'no question lists it'}"


def _answered_twice(answers: Answers) -> Iterator[str]:
    for (keeper, digest), found in answers.observed.items():
        if len(found) > 1:
            yield f"{keeper}: question {digest.hex()[:12]} answered {len(found)} times, differently"
        if digest not in answers.questions:
            yield f"{keeper}: question {digest.hex()[:12]} answered, and never asked"
    for keeper in KEEPERS:
        asked = (q for d, q in answers.questions.items() if (keeper, d) in answers.observed)
        counted = Counter(chain.from_iterable(map(levels_of, asked)))
        yield from (f"{keeper}: {name} answered {n} times" for name, n in counted.items() if n > 1)


def _beyond_epsilon(answers: Answers) -> Iterator[str]:
    """A window whose answered levels cost more than its epsilon."""
    for keeper in KEEPERS:
        spent: dict[object, dict[str, Fraction]] = defaultdict(dict)
        for digest, question in answers.questions.items():
            if (keeper, digest) in answers.observed:
                for each in question.windows:
                    spent[each.key][question.level] = question.share
        for key, levels in spent.items():
            if sum(levels.values()) > 1:
                yield f"{keeper}: {key}: answered beyond its epsilon"


def _settled_twice(answers: Answers) -> Iterator[str]:
    counted = Counter(chain.from_iterable(levels_of(each.question) for each in answers.settled))
    yield from (f"{name}: in {n} stored answers" for name, n in counted.items() if n > 1)


def _wrong_sums(folder: Path, evidence: Evidence, answers: Answers) -> Iterator[str]:
    """Sums that are not those of the releases and the answers that were seen."""
    config = load_collector(folder / "collector.yaml", {})
    stream = next(each for each in config.streams if each.name == MASKED)
    specs = config.specs(stream)
    payloads = {
        (row.name.device, row.sequence, row.name.start): evidence.made.get(row.name, {}).get(
            row.digest
        )
        for row in evidence.stored
        if row.name.stream == MASKED
    }
    for each in answers.settled:
        question, spec = each.question, cast(LinearSpec, specs[each.fingerprint])
        total = np.zeros(sum(spec.blocks), spec.counter)
        name = f"question {question.digest.hex()[:12]}"
        for window in question.windows:
            label = window.window
            payload = payloads.get((label.device, label.sequence, label.start))
            if payload is None:
                yield f"{name}: a release that it lists was never seen"
            else:
                total += decode_blinded(payload, spec).counters
        observed = {k: answers.observed.get((k, question.digest), frozenset()) for k in KEEPERS}
        if any(len(each) > 1 for each in observed.values()):
            continue  # Another violation reports that already.
        for keeper, given in observed.items():
            if not given:
                yield f"{name}: settled without an answer of {keeper}"
            for answer in given:
                total -= decode_answer(answer, spec).counters
        if total.astype("<i8").tobytes() != each.counters:
            yield f"{name}: its sum is not that of the releases and answers that were seen"


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
