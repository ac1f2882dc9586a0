"""Sketches of type `views`: which views a stream has, and how fine each.

The planner fills in what is left out (pansketch/view_planning.py), from public numbers alone, so
that every device and the collector come to the same views.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from fleet.document import Document
from fleet.planned_memory import VIEWS_PART, read_memory, share_of
from fleet.profiles import Profile
from fleet.quantities import number_text, size_text
from fleet.schema import join, section
from fleet.sketch_sections import ViewsSection
from pansketch import Domain, Privacy, ViewsSpec
from pansketch.plan_choice import Expected
from pansketch.view_planning import Names, Stated, ViewPlan, view_plans


@dataclass(frozen=True)
class ViewsPlan:
    """See `fleet.specs.Plan`. `wanted`: the attribute sets; None leaves them to the planner.
    `memory_bytes`: the most for the state; None: a share of the profile's."""

    domain: Domain
    privacy: Privacy
    wanted: tuple[Names, ...] | None
    expected: Expected
    sizes: Stated
    memory_bytes: int | None = None

    @property
    def stated(self) -> frozenset[str]:
        sizes = asdict(self.sizes) | {"memory": self.memory_bytes}
        return frozenset(name for name, value in sizes.items() if value is not None)

    @property
    def smaller(self) -> str:
        return "the number of views, or state memory for them"

    @property
    def fix(self) -> str:
        return "name fewer or smaller views, or take a profile with more sketch_memory"

    def memory(self, profile: Profile) -> int:
        """The most bytes that the planner may take."""
        return share_of(profile, VIEWS_PART, self.memory_bytes)

    def choices(self, profile: Profile) -> list[ViewPlan]:
        """The best plan of each resolution that fits, the chosen one first. Raises NoPlan."""
        return _choices(self, self.memory(profile))

    def spec(self, profile: Profile) -> ViewsSpec:
        return _spec(self.choices(profile)[0])

    def shown(self, profile: Profile) -> Iterator[tuple[str, str, str]]:
        chosen, planned = self.choices(profile)[0], f"planned for {profile.name}"
        yield "memory", size_text(self.memory(profile)), f"profile {profile.name}"
        yield "single_bits", str(chosen.single_bits), planned
        yield "pair_bits", str(chosen.pair_bits), planned
        yield "single_share", number_text(round(chosen.single_percent, 2)), planned


# Every device plans its streams once, and the collector for every profile: many have the same.
@lru_cache(maxsize=64)
def _choices(plan: ViewsPlan, memory_bytes: int) -> list[ViewPlan]:
    return view_plans(
        plan.domain, plan.privacy, memory_bytes, plan.expected, plan.wanted, plan.sizes
    )


@lru_cache(maxsize=64)
def _spec(plan: ViewPlan) -> ViewsSpec:
    return plan.spec


def read_view_plan(
    document: Document,
    where: str,
    raw: Any,
    domain: Domain,
    privacy: Privacy,
    wanted: tuple[Names, ...] | None,
    expected: Expected,
) -> ViewsPlan:
    """Raises ConfigError at the key at fault; whether the views can be shows with a profile."""
    given = section(document, where, raw, ViewsSection)
    memory = read_memory(document, join(where, "memory"), given.memory)
    try:
        sizes = Stated(given.single_bits, given.pair_bits, given.single_share)
    except ValueError as error:
        name = str(error).split(" ")[0]
        raise document.error(join(where, name), f"{error}; correct it or leave it out") from None
    return ViewsPlan(domain, privacy, wanted, expected, sizes, memory)
