"""Runs the parts of the audit and says what they found: a table, or JSON."""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context, parent_process
from typing import Literal, cast

import numpy as np

from pansketch import os_entropy
from pansketch.version import code_version
from pansketch_audit.empirical import attacks
from pansketch_audit.empirical.loss_lower_bound import (
    ALPHA,
    Moment,
    claim_at,
    lower_bound,
    moments_of,
)
from pansketch_audit.exact.blinded import CLAIM, SCENARIOS, blinded_loss
from pansketch_audit.exact.keys import TOLERANCE, KeyLosses
from pansketch_audit.exact.readings import largest_loss
from pansketch_audit.mechanisms.blinded import BlindedMechanism
from pansketch_audit.mechanisms.mechanism import PRODUCTION, View, claim, views_of
from pansketch_audit.mechanisms.subjects import Subject, subjects
from pansketch_audit.planted_bugs.readings import bugs
from pansketch_audit.seizure.seizure import seize

Part = Literal["exact", "statistical", "attack", "seizure", "planted"]
WORKERS = 2
QUICK_RUNS, FULL_RUNS = 1_500, 40_000
QUICK_SEIZED, FULL_SEIZED = 1_000, 10_000
FEW_COUNTERS = 3  # Enumerable over draws from -1 to 1; larger subjects over draws of 0.
FEW_SLOTS, FEW_KEYS = 4, 3  # Larger counters of keys are for the full audit.

NOT_SHOWN = (
    "larger universes than those enumerated: there the tests of the construction carry the proof",
    "two snapshots with no draw between them, the first unnoticed: what arrived between is exact",
    "keys over several windows or devices: one in w windows on d devices spends w x d epsilon",
    "a source in several streams of the configuration: it spends epsilon in each",
    "the reading in flight, while it is in a sensor's or a parser's hands",
    "two snapshots of masked counters within one epoch: what arrived between is exact",
    "that X25519, BLAKE2b and ChaCha20 hold: masks of the exact part are ideal",
    "what the kernel counts of this process (bytes read, calls, time) and keeps in its buffers",
    "who reads the kernel's random generator: it predicts draws until its next reseed",
    "that the kernel's random numbers are random, and that the hardware is correct",
    "swap, hibernation and copies of a virtual machine: each is another snapshot",
    "what the interpreter, its modules and the allocator keep: memory here is a sketch's own",
    "batches of readings, and the agent's clock, windows and limiter: the project's tests do",
    "side channels of the hardware: time and power",
)


@dataclass(frozen=True)
class Finding:
    """One claim and what was measured. A planted bug's claim is that it is caught."""

    part: Part
    subject: str
    claimed: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Task:
    """What one worker does: the part, which subject or bug, and of a subject which views or
    moments. It has a finding for each."""

    part: Part | Literal["blinded"]
    which: int
    quick: bool
    details: tuple[str, ...] = ("",)


def run_audit(quick: bool, said: Callable[[Finding, int, int], None]) -> list[Finding]:
    """All parts. `said` hears each finding as it comes, with its number and how many there are."""
    tasks = list(_tasks(quick))
    total = 1 + sum(len(task.details) for task in tasks)
    findings: list[Finding] = []

    def found(finding: Finding) -> None:
        findings.append(finding)
        said(finding, len(findings), total)

    # Spawned, not forked: the seizure runs threads in this process meanwhile.
    pool = ProcessPoolExecutor(WORKERS, get_context("spawn"), _end_with_parent)
    with pool:
        waiting: list[Future[list[Finding]]] = [pool.submit(perform, task) for task in tasks]
        found(_seized(quick))
        for future in waiting:
            for finding in future.result():
                found(finding)
    return findings


def _end_with_parent() -> None:
    """A worker waits for tasks for ever, also when the audit was killed."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def plant(name: str) -> Finding:
    """The audit of the product with a bug in it: the claim must fail. Raises ValueError."""
    for bug in bugs():
        if bug.name == name:
            caught, measured = bug.caught()
            return Finding("planted", bug.name, "the guarantee", measured, not caught)
    raise ValueError(f"no planted bug {name!r}; there is {', '.join(bug.name for bug in bugs())}")


def perform(task: Task) -> list[Finding]:
    """Does one task, in whichever process."""
    if task.part == "planted":
        bug = bugs()[task.which]
        caught, measured = bug.caught()
        return [Finding("planted", f"{bug.name}: {bug.what}", "is caught", measured, caught)]
    if task.part == "blinded":
        return [_blinded(task)]
    subject = subjects()[task.which]
    if task.part == "attack":
        broken, measured = attacks.rewound(os_entropy, subject)
        return [Finding("attack", _named(subject), "rewinding finds nothing", measured, not broken)]
    if task.part == "statistical":
        return [_sampled(subject, task)]
    return _chained(subject, task) if subject.unit == "key" else [_enumerated(subject, task)]


def _tasks(quick: bool) -> Iterator[Task]:
    """The slow ones first, so that the workers end together."""
    for which, _ in enumerate(SCENARIOS):
        yield Task("blinded", which, quick)
    listed = sorted(enumerate(subjects()), key=lambda each: -each[1].draws)
    for which, subject in listed:
        if subject.unit != "key":
            for view in views_of(subject):
                yield Task("exact", which, quick, (view,))
        elif not quick or (subject.draws <= FEW_SLOTS and len(subject.universe) <= FEW_KEYS):
            # In one task, for the views share most of what is enumerated.
            yield Task("exact", which, quick, views_of(subject))
    for which, _ in enumerate(bugs()):
        yield Task("planted", which, quick)
    for which, subject in listed:
        if subject.sampled:
            for moment in moments_of(subject):
                yield Task("statistical", which, quick, (moment,))
            yield Task("attack", which, quick)


def _blinded(task: Task) -> Finding:
    scenario = SCENARIOS[task.which]
    loss = blinded_loss(BlindedMechanism(), scenario, task.quick)
    return Finding(
        "exact",
        f"views, reading, blinded, {scenario.name}",
        f"loss <= {CLAIM:g}",
        f"{loss.value:.9g}, {loss.value / CLAIM:.3f}x the claim: {loss.pairs} pairs, "
        f"{loss.outcomes} outcomes",
        loss.value <= CLAIM + TOLERANCE,
    )


def _enumerated(subject: Subject, task: Task) -> Finding:
    view = cast(View, task.details[0])
    small = subject.draws <= FEW_COUNTERS and subject.unit == "reading"
    loss = largest_loss(PRODUCTION, subject, view, int(small and not task.quick))
    how = "" if loss.exact else ", not exact"
    over = f"{loss.pairs} pairs, {loss.outcomes} outcomes{how}"
    return _exact(subject, view, loss.value, over, loss.exact)


def _chained(subject: Subject, task: Task) -> list[Finding]:
    losses = KeyLosses(PRODUCTION, subject)
    findings = []
    for view in views_of(subject):
        loss = losses.largest(view, task.quick)
        over = f"{loss.pairs} pairs, {loss.outcomes} outcomes"
        findings.append(_exact(subject, view, loss.value, over))
    return findings


def _exact(subject: Subject, view: View, loss: float, over: str, exact: bool = True) -> Finding:
    """`TOLERANCE`: to which a sum of probabilities is known; a rational loss has no error."""
    allowed = float(claim(subject, view))
    slack = TOLERANCE if subject.unit == "key" else 0.0
    return Finding(
        "exact",
        f"{_named(subject)}, {view}",
        f"loss <= {allowed:g}",
        f"{loss:.9g}, {loss / allowed:.3f}x the claim: {over}",
        loss <= allowed + slack and exact,
    )


def _sampled(subject: Subject, task: Task) -> Finding:
    runs = QUICK_RUNS if task.quick else FULL_RUNS
    moment = cast(Moment, task.details[0])
    bound = lower_bound(PRODUCTION, subject, moment, runs)
    allowed = float(claim_at(subject, moment))
    arrives = "before and after" if moment == "both" else moment
    return Finding(
        "statistical",
        f"{_named(subject)}, {arrives} the snapshot",
        f"loss <= {allowed:g}",
        f"loss >= {bound.epsilon:.3f} in {runs} runs",
        bound.epsilon <= allowed,
    )


def _seized(quick: bool) -> Finding:
    found = seize(QUICK_SEIZED if quick else FULL_SEIZED)
    return Finding(
        "seizure", "a running agent", "at most the reading in flight", str(found), found.holds
    )


def _named(subject: Subject) -> str:
    return f"{subject.name}, {subject.unit}, {subject.intrusion}"


def _units() -> list[str]:
    return sorted({str(subject.unit) for subject in subjects()})


def as_table(findings: list[Finding]) -> str:
    """For people: what holds, what was caught, and what none of it shows."""
    lines = [
        code_version(),
        f"python {sys.version.split()[0]}, numpy {np.__version__}",
        f"unit {' or '.join(_units())}; neighbouring streams differ by one unit, added or removed",
        "a key is added or removed with all its appearances in one window",
        "epsilon as claimed in each line; delta 0; intrusion silent or announced",
        f"statistical bounds are wrong with probability {ALPHA:g} each",
        "",
    ]
    wide = max(len(finding.subject) for finding in findings)
    claims = max(len(finding.claimed) for finding in findings)
    for finding in findings:
        mark = "ok  " if finding.holds else "FAIL"
        lines.append(
            f"{mark} {finding.part:<11} {finding.subject:<{wide}}  {finding.claimed:<{claims}}  "
            f"{finding.measured}"
        )
    failed = sum(not finding.holds for finding in findings)
    lines += ["", "not shown:", *(f"  {text}" for text in NOT_SHOWN), ""]
    lines.append(
        f"{failed} of {len(findings)} findings FAIL"
        if failed
        else "every claim holds, every bug is caught"
    )
    return "\n".join(lines)


def as_json(findings: list[Finding]) -> str:
    """For programs: the same."""
    return json.dumps(
        {
            "code": code_version(),
            "adjacency": "add or remove one unit; of a key, all its appearances in one window",
            "units": _units(),
            "delta": 0,
            "alpha": ALPHA,
            "holds": all(finding.holds for finding in findings),
            "findings": [asdict(finding) for finding in findings],
            "not_shown": NOT_SHOWN,
        },
        indent=2,
    )
