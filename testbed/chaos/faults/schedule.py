"""The kinds of faults, and which of them come when: a public function of the seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

Where = Literal[
    "device",
    "capped",
    "small",
    "clocked",
    "link",
    "collector",
    "collector-clock",
    "keeper",
    "broker",
    "secured",
]


@dataclass(frozen=True)
class Kind:
    """A kind of fault. `where`: its target; `weight`: its relative frequency.

    `seconds`: the minimum and maximum duration of the fault, or of a killed program's absence.
    """

    name: str
    where: Where
    weight: float
    seconds: tuple[float, float]
    description: str


KINDS: Sequence[Kind] = (
    Kind("agent-killed", "device", 60, (0.0, 3.0), "SIGKILL of an agent"),
    Kind("agent-restarted", "device", 25, (0.0, 2.0), "SIGTERM of an agent, and a start"),
    Kind("segment-torn", "device", 20, (2.0, 6.0), "offline, SIGKILL, last bytes cut off"),
    Kind("segment-flipped", "device", 20, (2.0, 6.0), "offline, SIGKILL, one byte changed"),
    Kind("state-lost", "device", 10, (0.0, 0.0), "SIGKILL, state folder deleted: a new card"),
    Kind("state-restored", "device", 10, (4.0, 16.0), "SIGKILL, state folder of some time ago"),
    Kind("agent-twice", "device", 6, (4.0, 12.0), "a second agent of the same name"),
    Kind("outbox-capped", "capped", 8, (24.0, 60.0), "offline until a small outbox is full"),
    Kind("device-disk-full", "small", 16, (3.0, 12.0), "no space for ledger and outbox"),
    Kind("clock-forward", "clocked", 16, (2.0, 8.0), "wall clock 5 to 50 s ahead, and back"),
    Kind("clock-back", "clocked", 16, (2.0, 8.0), "wall clock 5 to 50 s behind, and forth"),
    Kind("clock-1970", "clocked", 8, (2.0, 10.0), "wall clock decades behind, and forth"),
    Kind("clock-far-ahead", "clocked", 1, (2.0, 4.0), "wall clock hours ahead, and back"),
    Kind("link-cut", "link", 30, (1.0, 20.0), "connections reset, new ones ended at once"),
    Kind("link-silent", "link", 16, (3.0, 25.0), "connections accepted, nothing comes through"),
    Kind("link-deaf-up", "link", 16, (2.0, 12.0), "half-open: nothing reaches the broker"),
    Kind("link-deaf-down", "link", 16, (2.0, 12.0), "half-open: nothing comes from the broker"),
    Kind("link-slow", "link", 24, (2.0, 12.0), "0.2 to 2 s later, each way"),
    Kind("link-truncated", "link", 30, (0.0, 0.0), "ended in the middle of a packet"),
    Kind("link-reset", "link", 30, (0.0, 0.0), "connections reset"),
    Kind("collector-killed", "collector", 14, (0.0, 4.0), "SIGKILL of the collector"),
    Kind("collector-group-killed", "collector", 8, (0.0, 4.0), "SIGKILL of its process group"),
    Kind("collector-killed-in-commit", "collector", 16, (0.0, 2.0), "SIGKILL as its log grows"),
    Kind("collector-killed-asking", "collector", 12, (0.0, 2.0), "SIGKILL after a question left"),
    Kind("collector-restarted", "collector", 8, (0.0, 2.0), "SIGTERM of the collector"),
    Kind("collector-misconfigured", "collector", 2, (4.0, 6.0), "another epsilon for a while"),
    Kind("database-restored", "collector", 4, (3.0, 12.0), "replaced by a backup of its own"),
    Kind("collector-clock", "collector-clock", 6, (2.0, 8.0), "hours ahead or behind, and back"),
    Kind("database-locked", "collector", 10, (2.0, 9.0), "held by another process"),
    Kind("collector-disk-full", "collector", 8, (2.0, 9.0), "no space for the database"),
    Kind("keeper-killed", "keeper", 12, (0.0, 3.0), "SIGKILL of a keeper"),
    Kind("keeper-killed-answering", "keeper", 16, (0.0, 2.0), "SIGKILL as its ledger grows"),
    Kind("keeper-away", "keeper", 6, (6.0, 20.0), "SIGTERM of a keeper, and a start later"),
    Kind("keeper-restored", "keeper", 4, (0.0, 6.0), "an old ledger, which it must refuse"),
    Kind("broker-killed", "broker", 12, (0.0, 4.0), "SIGKILL, with what it had saved"),
    Kind("broker-emptied", "broker", 8, (0.0, 3.0), "SIGKILL, with nothing of it left"),
    Kind("broker-restarted", "broker", 6, (0.0, 2.0), "SIGTERM of the broker"),
    Kind("broker-limited", "broker", 8, (4.0, 10.0), "one message in flight, two queued"),
    Kind("broker-small", "broker", 4, (2.0, 6.0), "messages of 64 bytes at most"),
    Kind("password-changed", "broker", 8, (2.0, 6.0), "wrong credentials at the broker"),
    Kind("certificate-expired", "secured", 5, (2.0, 6.0), "an expired certificate of the broker"),
    Kind("garbage", "broker", 14, (0.0, 0.0), "bytes that are no MQTT, no release, no ack"),
    Kind("hostile-device", "broker", 8, (0.0, 0.0), "an enrolled device lies in six ways"),
    Kind("retained-flood", "broker", 4, (0.0, 0.0), "4 MiB retained for invented streams"),
    Kind("oversize", "broker", 6, (0.0, 0.0), "messages far beyond any release"),
    Kind("repeated", "broker", 10, (0.0, 0.0), "old releases again, and under other names"),
)
BY_NAME: Mapping[str, Kind] = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True)
class Fault:
    """One fault: `at` seconds after the start of the faults, `seconds` long.

    `draw`: a number in [0, 1) for all other choices of the fault.
    """

    number: int
    at: float
    kind: str
    target: str
    seconds: float
    draw: float


@dataclass(frozen=True)
class Targets:
    """The targets of each `Kind.where`; a kind without a target never occurs."""

    of: Mapping[str, Sequence[str]]
    without: Mapping[str, str] = field(default_factory=dict)  # kinds left out, and why
    only: frozenset[str] = frozenset()  # kinds that were asked for; none: all

    def kinds(self) -> list[Kind]:
        wanted = self.only or BY_NAME.keys()
        return [
            k
            for k in KINDS
            if self.of.get(k.where) and k.name in wanted and k.name not in self.without
        ]


def schedule(
    seed: int, count: int, span_seconds: float, longest: float, targets: Targets
) -> list[Fault]:
    """`count` faults in the order of their times, spread over `span_seconds`: one of each kind at
    least, where there are as many. `longest`: none lasts longer, in seconds, than this or than its
    kind must last.
    """
    rng = np.random.default_rng(seed)
    kinds = targets.kinds()
    weights = np.array([kind.weight for kind in kinds])
    more = rng.choice(len(kinds), max(0, count - len(kinds)), p=weights / weights.sum())
    chosen = [*rng.permutation(len(kinds))[:count], *more]
    drawn = [_draw(kinds[int(place)], rng, span_seconds, longest, targets) for place in chosen]
    return [replace(fault, number=n) for n, fault in enumerate(sorted(drawn, key=_at), 1)]


def _draw(
    kind: Kind, rng: np.random.Generator, span_seconds: float, longest: float, targets: Targets
) -> Fault:
    """One fault that is over within the span, if nothing holds it up."""
    low, high = kind.seconds
    seconds = round(float(rng.uniform(low, max(low, min(high, longest)))), 2)
    at = round(float(rng.uniform(0.0, max(0.0, span_seconds - seconds))), 2)
    names = targets.of[kind.where]
    target = names[int(rng.integers(len(names)))]
    return Fault(0, at, kind.name, target, seconds, float(rng.random()))


def _at(fault: Fault) -> float:
    return fault.at
