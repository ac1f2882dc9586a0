"""Inputs of planners, and their criterion: the least regret, for the fewest bytes.

Before the first reading it is unknown how much of their bounds readings fill, and a query reads few
windows while a stream is young. So a plan is not judged by one assumption. It is judged by its
worst ratio to the best plan of each case: a range as assumed or far narrower, few windows or many.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Protocol, TypeVar

from pansketch.privacy import Guarantee

LOCAL_DRAWS = 2  # of a device under its masks, with `local_epsilon`
WORTH = 103  # per cent of the least score: what is below that is as good, for fewer bytes


class Shape(NamedTuple):
    """Of readings: a range that is 2**-narrow of the one that is assumed of each number, and
    whether attributes are near-duplicates of each other. `tail`: a few readings far outside of the
    range make the standard deviation 2**tail times as large as usual in it."""

    narrow: int = 0
    alike: bool = False
    tail: int = 0


# A range of 2.3 standard deviations is a third of the bounds, a twelfth, a 48th. In the last case
# almost all readings are in a hundredth of the bounds.
CROWDED = (Shape(), Shape(2), Shape(4), Shape(6))
HEAVY = Shape(7, tail=2)  # as of delays: most readings are far nearer to each other than the rest
NEAR = (*CROWDED, HEAVY, Shape(alike=True))
DEEP = (Shape(), Shape(3), Shape(5), Shape(8))  # where depth costs little


class NoPlan(ValueError):
    """No choice of sizes fits. The text names sizes that would."""


@dataclass(frozen=True)
class Answering:
    """Answers about a blinded stream: each has noise once for each keeper.

    Args:
        keepers: their number, each with one draw in an answer.
        levels: of each level the windows in one answer, and its share of epsilon.

    Raises:
        ValueError: there is no keeper or no level, or a number is out of range.
    """

    keepers: int
    levels: tuple[tuple[int, Fraction], ...]

    def __post_init__(self) -> None:
        if self.keepers < 1 or not self.levels:
            raise ValueError("keepers and levels: at least one of each")
        if any(windows < 1 or not 0 < share <= 1 for windows, share in self.levels):
            raise ValueError("levels have a positive number of windows and a share of at most 1")

    @property
    def shortest(self) -> int:
        """The windows of the shortest level: no answer has fewer."""
        return min(windows for windows, _ in self.levels)

    def draws(self, windows: int) -> Fraction:
        """Return the variance of a counter's noise in the combined answers of all levels about so
        many windows, in draws of the declared scale. Levels are weighted by inverse variance, as
        `combine_levels` does.

        Args:
            windows: at least `shortest`.

        Returns:
            The draws.
        """
        precision = Fraction(0)
        for length, share in self.levels:
            if length <= windows:
                precision += share**2 / (-(-windows // length) * self.keepers)
        return 1 / precision


@dataclass(frozen=True)
class Expected:
    """The releases of a typical query. Public guesses: a wrong one costs accuracy, never privacy.

    Args:
        readings: about how many readings a release has.
        devices: number of devices.
        windows: releases of each device.
        earlier: smaller numbers of windows, which a young stream is asked about.
        answering: of a blinded stream; None: every release has noise of its own.
        means: names of attributes whose means are asked of few windows, each once.

    Raises:
        ValueError: a number is not positive, or an earlier one above `windows`; the line begins
            with its name.
    """

    readings: int
    devices: int = 1
    windows: int = 1
    earlier: tuple[int, ...] = ()
    answering: Answering | None = None
    means: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("readings", "devices", "windows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be a positive number, not {getattr(self, name)}")
        if any(not 1 <= windows <= self.windows for windows in self.earlier):
            raise ValueError(f"earlier must lie between 1 and the {self.windows} windows")

    @property
    def releases(self) -> int:
        return self.devices * self.windows

    @property
    def total(self) -> int:
        return self.readings * self.releases


class Case(NamedTuple):
    """A case that a plan is judged by: a shape, the draws of noise in a counter, and the readings
    of all windows together."""

    shape: Shape
    draws: float
    total: int


def cases_of(expected: Expected, shapes: Sequence[Shape], guarantee: Guarantee) -> list[Case]:
    """The expected windows in every shape, then the earlier ones in the first shape: a young stream
    has more noise than shape."""
    times = [(shape, expected.windows) for shape in shapes]
    times += [(shapes[0], windows) for windows in expected.earlier]
    return [case_of(expected, guarantee, shape, windows) for shape, windows in times]


def case_of(expected: Expected, guarantee: Guarantee, shape: Shape, windows: int) -> Case:
    """The case of so many windows of all devices, at least those of the shortest level."""
    each, answering = expected.devices * expected.readings, expected.answering
    if answering is None:
        return Case(shape, guarantee.draws * windows * expected.devices, windows * each)
    windows = max(windows, answering.shortest)
    local = LOCAL_DRAWS * windows * expected.devices * guarantee.local_factor**2
    return Case(shape, float(answering.draws(windows) + local), windows * each)


def regrets(scores: Sequence[Sequence[int]]) -> list[int]:
    """Of each plan the worst ratio to the best plan of a case, in thousandths. `scores`: of each
    plan, by case."""
    best = [max(1, min(column)) for column in zip(*scores, strict=True)]
    return [max(1000 * s // b for s, b in zip(row, best, strict=True)) for row in scores]


class Scored(Protocol):
    """A plan: its score, where less is better, and the bytes of its state."""

    @property
    def score(self) -> int: ...
    @property
    def nbytes(self) -> int: ...


PlanT = TypeVar("PlanT", bound=Scored)


def frugal(plans: Sequence[PlanT]) -> list[PlanT]:
    """The plan with the fewest bytes of those whose score is about the least, then the others by
    score. Whole numbers only, so that machines agree; the first of equals wins."""
    least = min(plan.score for plan in plans)
    good = [plan for plan in plans if 100 * plan.score <= WORTH * least]
    chosen = min(good, key=lambda plan: (plan.nbytes, plan.score))
    others = [plan for plan in plans if plan is not chosen]
    return [chosen, *sorted(others, key=lambda plan: plan.score)]
