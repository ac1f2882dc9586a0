"""What planners are told, and how they choose: the smallest of the plans that are nearly best."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

WORTH = 103  # per cent of the least score: what is below that is as good, for fewer bytes


class NoPlan(ValueError):
    """No choice of sizes fits. The text says what would."""


@dataclass(frozen=True)
class Expected:
    """What a query will read together: `windows` releases of each of `devices` devices, with about
    `readings` readings in each. Public guesses; a wrong one costs accuracy and never privacy.

    Raises ValueError, one line that begins with the name at fault, unless all are positive.
    """

    readings: int
    devices: int = 1
    windows: int = 1

    def __post_init__(self) -> None:
        for name in ("readings", "devices", "windows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be a positive number, not {getattr(self, name)}")

    @property
    def releases(self) -> int:
        return self.devices * self.windows

    @property
    def total(self) -> int:
        return self.readings * self.releases


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
