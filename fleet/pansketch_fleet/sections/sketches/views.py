"""Sketches of type `views`: the views of a stream, and their resolutions.

The planner chooses omitted sizes (pansketch/planning/view_planner.py), from public numbers alone.
So every device and the collector find the same views.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pansketch import Domain, Privacy, ViewsSpec
from pansketch.planning import Expected, StatedViews, ViewNames, ViewPlan, view_plans
from pansketch_fleet.sections.memory_budget import VIEWS_PART, PlannedSketch, read_memory
from pansketch_fleet.settings.profiles import Profile
from pansketch_fleet.settings.section import join, section
from pansketch_fleet.settings.sketch_schema import ViewsSection
from pansketch_fleet.units import number_text, size_text
from pansketch_fleet.yaml.document import Document


@dataclass(frozen=True)
class ViewsSettings(PlannedSketch):
    """See `pansketch_fleet.settings.device_spec.SketchSettings`.

    `wanted`: the attribute sets; None leaves them to the planner.
    """

    part = VIEWS_PART
    domain: Domain
    privacy: Privacy
    wanted: tuple[ViewNames, ...] | None
    expected: Expected
    sizes: StatedViews
    memory_bytes: int | None = None

    @property
    def smaller(self) -> str:
        return "the number of views, or state memory for them"

    @property
    def fix(self) -> str:
        return "name fewer or smaller views, or take a profile with more sketch_memory"

    def choices(self, profile: Profile) -> list[ViewPlan]:
        """Return the best plan of each resolution, the chosen one first. Raises NoPlan."""
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
def _choices(plan: ViewsSettings, memory_bytes: int) -> list[ViewPlan]:
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
    wanted: tuple[ViewNames, ...] | None,
    expected: Expected,
) -> ViewsSettings:
    """Read the section. Raises ConfigError at the key at fault; `spec` checks the views."""
    given = section(document, where, raw, ViewsSection)
    memory = read_memory(document, join(where, "memory"), given.memory)
    try:
        sizes = StatedViews(given.single_bits, given.pair_bits, given.single_share)
    except ValueError as error:
        name = str(error).split(" ")[0]
        raise document.error(join(where, name), f"{error}; correct it or leave it out") from None
    return ViewsSettings(domain, privacy, wanted, expected, sizes, memory)
