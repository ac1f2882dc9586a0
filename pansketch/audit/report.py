"""Runs the parts of the audit and says what they found: a table, or JSON."""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import numpy as np

from pansketch.audit import attacks
from pansketch.audit.exact import claim, largest_loss
from pansketch.audit.mechanism import PRODUCTION, VIEWS, View
from pansketch.audit.planted import bugs
from pansketch.audit.seizure import seize
from pansketch.audit.statistical import ALPHA, lower_bound
from pansketch.audit.subjects import Subject, subjects
from pansketch.noise import os_entropy
from pansketch.version import __version__

Part = Literal["exact", "statistical", "attack", "seizure", "planted"]
WORKERS = 2
QUICK_RUNS, FULL_RUNS = 1_500, 40_000
QUICK_SEIZED, FULL_SEIZED = 1_000, 10_000
FEW_COUNTERS = 3  # Enumerable over draws from -1 to 1; larger subjects over draws of 0.

NOT_SHOWN = (
    "larger universes than those enumerated: there the tests of the construction carry the proof",
    "two unnoticed snapshots within one window, which show what arrived between them",
    "the reading in flight, while it is in a sensor's or a parser's hands",
    "side channels: time, power, and what the operating system keeps of other programs",
    "that the kernel's random numbers are random, and that the hardware does what it is told",
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
    """What one worker does: the part, and which subject, view, moment or bug."""

    part: Part
    which: int
    detail: str
    quick: bool


def run_audit(quick: bool, said: Callable[[Finding, int, int], None]) -> list[Finding]:
    """All parts. `said` hears each finding as it comes, with its number and how many there are."""
    tasks = list(_tasks(quick))
    findings = []
    # Spawned, not forked: the seizure runs threads in this process meanwhile.
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        waiting: list[Future[Finding]] = [pool.submit(perform, task) for task in tasks]
        findings.append(_seized(quick))
        said(findings[0], 1, len(tasks) + 1)
        for future in waiting:
            findings.append(future.result())
            said(findings[-1], len(findings), len(tasks) + 1)
    return findings


def plant(name: str) -> Finding:
    """The audit of the product with a bug in it: the claim must fail. Raises ValueError."""
    for bug in bugs():
        if bug.name == name:
            caught, measured = bug.caught(subjects()[0])
            return Finding("planted", bug.name, "the guarantee", measured, not caught)
    raise ValueError(f"no planted bug {name!r}; there is {', '.join(bug.name for bug in bugs())}")


def perform(task: Task) -> Finding:
    """Does one task, in whichever process."""
    if task.part == "planted":
        bug = bugs()[task.which]
        caught, measured = bug.caught(subjects()[0])
        return Finding("planted", f"{bug.name}: {bug.what}", "is caught", measured, caught)
    subject = subjects()[task.which]
    if task.part == "attack":
        broken, measured = attacks.rewound(os_entropy, subject)
        return Finding("attack", _named(subject), "rewinding finds nothing", measured, not broken)
    if task.part == "statistical":
        return _sampled(subject, task)
    return _enumerated(subject, task)


def _tasks(quick: bool) -> Iterator[Task]:
    """The slow ones first, so that the workers end together."""
    listed = list(enumerate(subjects()))
    listed.sort(key=lambda each: -sum(each[1].spec.blocks))
    for which, subject in listed:
        for view in VIEWS[subject.intrusion]:
            yield Task("exact", which, view, quick)
    for which, _ in enumerate(bugs()):
        yield Task("planted", which, "", quick)
    for which, subject in listed:
        if subject.unit == "reading":
            for arrives in ("before", "after") if subject.intrusion == "silent" else ("before",):
                yield Task("statistical", which, arrives, quick)
            yield Task("attack", which, "", quick)


def _enumerated(subject: Subject, task: Task) -> Finding:
    view: View = task.detail  # type: ignore[assignment]
    small = sum(subject.spec.blocks) <= FEW_COUNTERS and subject.unit == "reading"
    loss = largest_loss(PRODUCTION, subject, view, int(small and not task.quick))
    allowed = float(claim(subject))
    how = "" if loss.exact else ", not exact"
    measured = (
        f"{loss.value:.9g}, {loss.value / allowed:.3f}x the claim: {loss.pairs} pairs, "
        f"{loss.outcomes} outcomes{how}"
    )
    return Finding(
        "exact",
        f"{_named(subject)}, {view}",
        f"loss <= {allowed:g}",
        measured,
        loss.value <= allowed and loss.exact,
    )


def _sampled(subject: Subject, task: Task) -> Finding:
    runs = QUICK_RUNS if task.quick else FULL_RUNS
    bound = lower_bound(PRODUCTION, subject, task.detail, runs)
    allowed = float(claim(subject))
    return Finding(
        "statistical",
        f"{_named(subject)}, reading {task.detail} the snapshot",
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


def code_version() -> str:
    """The version and a digest of the library's sources: what was audited."""
    root = Path(__file__).parents[1]
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return f"pansketch {__version__}, sources {digest.hexdigest()}"


def as_table(findings: list[Finding]) -> str:
    """For people: what holds, what was caught, and what none of it shows."""
    units = sorted({str(subject.unit) for subject in subjects()})
    lines = [
        code_version(),
        f"python {sys.version.split()[0]}, numpy {np.__version__}",
        f"unit {' or '.join(units)}; neighbouring streams differ by one unit, added or removed",
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
            "adjacency": "add or remove one unit",
            "delta": 0,
            "alpha": ALPHA,
            "holds": all(finding.holds for finding in findings),
            "findings": [asdict(finding) for finding in findings],
            "not_shown": NOT_SHOWN,
        },
        indent=2,
    )
