"""Runs the parts of the audit, each task in a worker of its own."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from multiprocessing import get_context, parent_process
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, cast

from pansketch import Spec
from pansketch_audit.coupling.agent_cases import agent_cases, cases_of
from pansketch_audit.coupling.coupled_agents import AgentCase, coupled_agent, why
from pansketch_audit.coupling.hostile import random_specs
from pansketch_audit.coupling.sketch_runs import audited
from pansketch_audit.empirical.loss_lower_bound import Moment, moments_of
from pansketch_audit.empirical.outside_search import sites
from pansketch_audit.exact.blinded import CLAIM, SCENARIOS, blinded_loss
from pansketch_audit.exact.keys import TOLERANCE, KeyLosses
from pansketch_audit.exact.readings import largest_loss
from pansketch_audit.exact.sampler import sampler_findings
from pansketch_audit.findings import Finding, Part, attacked, named, outside, sampled
from pansketch_audit.mechanisms.blinded import BlindedMechanism
from pansketch_audit.mechanisms.mechanism import PRODUCTION, View, claim, views_of
from pansketch_audit.mechanisms.subjects import Subject, subjects
from pansketch_audit.planted_bugs.readings import bugs
from pansketch_audit.seizure.seizure import seize
from pansketch_fleet.config.programs import AgentConfig

WORKERS = 2
QUICK_SEIZED, FULL_SEIZED = 1_000, 10_000
QUICK_SPECS, FULL_SPECS = 16, 160
QUICK_AGENTS, FULL_AGENTS = 10, 100
AGENTS_A_TASK = 10
SEED = (
    1  # Of specs, agents, readings and scripted noise: public, so that a finding can be repeated.
)
# The part of a finding whose task has another name.
FINDING_OF: dict[str, Part] = {"blinded": "exact", "sampler": "exact", "outside": "statistical"}
FEW_COUNTERS = 3  # Enumerable over draws from -1 to 1; larger subjects over draws of 0.
FEW_SLOTS, FEW_KEYS = 4, 3  # Larger counters of keys are for the full audit.


@dataclass(frozen=True)
class Task:
    """The task of one worker: the part, the subject or bug, and of a subject the views or moments.
    It has a finding for each."""

    part: Part | Literal["blinded", "outside", "sampler"]
    which: int
    quick: bool
    details: tuple[str, ...] = ("",)


def run_audit(
    quick: bool, on_finding: Callable[[Finding, int, int], None], agents: int | None = None
) -> list[Finding]:
    """Run all parts.

    `on_finding` receives each finding in turn, with its number and their total. `agents`: the
    number of coupled agents; None: the default.
    """
    tasks = list(_tasks(quick, agents))
    total = 1 + sum(len(task.details) for task in tasks)
    findings: list[Finding] = []

    def found(finding: Finding) -> None:
        findings.append(finding)
        on_finding(finding, len(findings), total)

    # Spawned, not forked: the seizure runs threads in this process meanwhile.
    pool = ProcessPoolExecutor(WORKERS, get_context("spawn"), _end_with_parent)
    with pool:
        waiting: list[Future[list[Finding]]] = [pool.submit(perform, task) for task in tasks]
        for finding in _result(Task("seizure", 0, quick), lambda: [_seized(quick)]):
            found(finding)
        for task, future in zip(tasks, waiting, strict=True):
            for finding in _result(task, future.result):
                found(finding)
    return findings


def _result(task: Task, perform: Callable[[], list[Finding]]) -> list[Finding]:
    """Its findings. A claim whose task raises is not shown; the other tasks go on."""
    try:
        return perform()
    except Exception as error:
        measured = f"the audit failed: {type(error).__name__}: {error}"
        part = FINDING_OF.get(task.part, cast(Part, task.part))
        return [
            Finding(part, f"task {task.which} {detail}".strip(), "is shown", measured, False)
            for detail in task.details
        ]


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
    raise ValueError(
        f"no planted bug {name!r}; there is all, {', '.join(bug.name for bug in bugs())}"
    )


def plant_all(on_finding: Callable[[Finding, int, int], None]) -> list[Finding]:
    """Every planted bug, by the part of the audit that must see it."""
    findings = []
    with ProcessPoolExecutor(WORKERS, get_context("spawn"), _end_with_parent) as pool:
        tasks = [Task("planted", which, True) for which, _ in enumerate(bugs())]
        for found in pool.map(perform, tasks):
            findings += found
            on_finding(found[0], len(findings), len(tasks))
    return findings


def audit_config(config: AgentConfig) -> list[Finding]:
    """The streams of one configuration: the draws of every spec, then its agent, coupled."""
    findings = [
        _drawn(stream.name, stream.spec, thorough=True)
        for stream in config.streams
        if stream.blinded is None
    ]
    with TemporaryDirectory() as folder:
        for case in cases_of(config, SEED, Path(folder)):
            findings.append(_agent_finding(f"{case.stream}, {len(case.steps)} steps", [case]))
    return findings


def _drawn(name: str, spec: Spec, thorough: bool) -> Finding:
    found = audited(spec, SEED, thorough)
    about = f"{name}, {spec.guarantee.unit}, {spec.guarantee.intrusion}"
    return Finding(
        "draws", about, f"sum of |d|/scale <= {float(found.allowed):g}", str(found), found.holds
    )


def _agent_finding(name: str, cases: Iterable[AgentCase]) -> Finding:
    """Ends at the first pair of agents that differ."""
    count, loss = 0, Fraction(0)
    for case in cases:
        count += 1
        found, holds = coupled_agent(case)
        if not holds:
            return Finding("agent", name, "both runs are alike", why(case, found), False)
        loss = max(loss, found.loss / case.allowed)
    pairs = f"{count} pair{'s' * (count != 1)} of runs"
    measured = f"no difference in {pairs}, up to {float(loss):.3f}x the claim"
    return Finding("agent", name, "both runs are alike", measured, True)


def perform(task: Task) -> list[Finding]:
    """Does one task, in whichever process."""
    if task.part == "planted":
        bug = bugs()[task.which]
        caught, measured = bug.caught()
        measured = f"{bug.part}: {measured}"
        return [Finding("planted", f"{bug.name}: {bug.what}", "is caught", measured, caught)]
    if task.part == "blinded":
        return [_blinded(task)]
    if task.part == "sampler":
        return [_sampler(task)]
    if task.part == "draws":
        name, spec = next(islice(random_specs(SEED, task.which + 1), task.which, None))
        return [_drawn(name, spec, thorough=not task.quick)]
    if task.part == "agent":
        count = int(task.details[0])
        with TemporaryDirectory() as folder:
            cases = agent_cases(SEED, count, Path(folder), task.which)
            return [_agent_finding(f"agents {task.which + 1} to {task.which + count}", cases)]
    if task.part == "outside":
        return [outside(sites()[task.which], cast(Moment, task.details[0]))]
    subject = subjects()[task.which]
    if task.part == "attack":
        return [attacked(subject)]
    if task.part == "statistical":
        return [sampled(subject, cast(Moment, task.details[0]), task.quick)]
    return _chained(subject, task) if subject.unit == "key" else [_enumerated(subject, task)]


def _tasks(quick: bool, agents: int | None) -> Iterator[Task]:
    """The slow ones first, so that the workers end together."""
    if agents is None:
        agents = QUICK_AGENTS if quick else FULL_AGENTS
    for first in range(0, agents, AGENTS_A_TASK):
        yield Task("agent", first, quick, (str(min(AGENTS_A_TASK, agents - first)),))
    for which in range(QUICK_SPECS if quick else FULL_SPECS):
        yield Task("draws", which, quick)
    for which, _ in enumerate(sampler_findings(quick)):
        yield Task("sampler", which, quick)
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
    for which, site in enumerate([] if quick else sites()):
        for moment in site.moments:
            yield Task("outside", which, quick, (moment,))
    for which, bug in enumerate(bugs()):
        if not (quick and bug.part == "outside"):
            yield Task("planted", which, quick)
    for which, subject in listed:
        if subject.sampled:
            for moment in moments_of(subject):
                yield Task("statistical", which, quick, (moment,))
            yield Task("attack", which, quick)


def _sampler(task: Task) -> Finding:
    name, enumerated = sampler_findings(task.quick)[task.which]
    try:
        found = enumerated()
    except ModuleNotFoundError as missing:
        measured = f"{missing}: install pansketch[audit]"
        return Finding("exact", name, "the law that is claimed", measured, False)
    return Finding("exact", name, "the law that is claimed", str(found), found.holds)


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
        f"{named(subject)}, {view}",
        f"loss <= {allowed:g}",
        f"{loss:.9g}, {loss / allowed:.3f}x the claim: {over}",
        loss <= allowed + slack and exact,
    )


def _seized(quick: bool) -> Finding:
    found = seize(QUICK_SEIZED if quick else FULL_SEIZED)
    return Finding(
        "seizure", "a running agent", "at most the reading in flight", str(found), found.holds
    )
