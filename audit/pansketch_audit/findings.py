"""The findings of an audit: as a table for people, as JSON for programs. It includes the findings
of runs with real entropy."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from pansketch import os_entropy
from pansketch.version import code_version
from pansketch_audit.empirical import attacks
from pansketch_audit.empirical.loss_lower_bound import ALPHA, Moment, claim_at, lower_bound
from pansketch_audit.empirical.outside_search import Site, searched
from pansketch_audit.mechanisms.mechanism import PRODUCTION
from pansketch_audit.mechanisms.subjects import Subject, subjects

QUICK_RUNS, FULL_RUNS = 1_500, 10_000
SEARCH_RUNS = 2_000

Part = Literal["exact", "draws", "agent", "statistical", "attack", "seizure", "planted"]

NOT_SHOWN = (
    "larger universes than those enumerated: there the draws and the tests carry the proof",
    "two snapshots with no draw between them, the first unnoticed: what arrived between is exact",
    "keys over several windows or devices: one in w windows on d devices spends w x d epsilon",
    "a source in several streams of the configuration: it spends epsilon in each",
    "the reading in flight, while it is in a sensor's or a parser's hands",
    "whether an open slot of a span has had its reading, while it is open",
    "two snapshots of masked counters within one epoch: what arrived between is exact",
    "that X25519, BLAKE2b and ChaCha20 hold: masks of the exact part are ideal",
    "what the kernel counts of this process (bytes read, calls, time) and keeps in its buffers",
    "who reads the kernel's random generator: it predicts draws until its next reseed",
    "that the kernel's random numbers are random, and that the hardware is correct",
    "swap, hibernation and copies of a virtual machine: each is another snapshot",
    "what the interpreter and the allocator count: versions of dicts, statistics, freed blocks",
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


def _units() -> list[str]:
    return sorted({str(subject.unit) for subject in subjects()})


def as_table(findings: Sequence[Finding]) -> str:
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


def as_json(findings: Sequence[Finding]) -> str:
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


def named(subject: Subject) -> str:
    """A subject, as findings call it."""
    return f"{subject.name}, {subject.unit}, {subject.intrusion}"


def sampled(subject: Subject, moment: Moment, quick: bool) -> Finding:
    """The most distinguishing event by theory, in a small universe."""
    runs = QUICK_RUNS if quick else FULL_RUNS
    bound = lower_bound(PRODUCTION, subject, moment, runs)
    allowed = float(claim_at(subject, moment))
    return Finding(
        "statistical",
        f"{named(subject)}, {_beside(moment)}",
        f"loss <= {allowed:g}",
        f"loss >= {bound.epsilon:.3f} in {runs} runs",
        bound.epsilon <= allowed,
    )


def outside(site: Site, moment: Moment) -> Finding:
    """The event that a search finds, in a window of ordinary size."""
    found = searched(PRODUCTION, site, moment, SEARCH_RUNS, os_entropy())
    return Finding(
        "statistical",
        f"search from outside, {site.name}, {_beside(moment)}",
        f"loss <= {found.claimed:.3g}",
        str(found),
        found.holds,
    )


def attacked(subject: Subject) -> Finding:
    """The result of rewinding a generator in memory."""
    broken, measured = attacks.rewound(os_entropy, subject)
    return Finding("attack", named(subject), "rewinding finds nothing", measured, not broken)


def _beside(moment: Moment) -> str:
    return f"{'before and after' if moment == 'both' else moment} the snapshot"
