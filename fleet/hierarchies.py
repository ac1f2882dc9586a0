"""Sketches of type `hierarchy`: sizes that a stream states, over a profile's, over planned ones."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from fleet.document import Document
from fleet.planned_memory import HIERARCHY_PART, read_memory, share_of
from fleet.profiles import Profile
from fleet.quantities import size_text
from fleet.schema import join, section
from fleet.sketch_sections import SketchSection
from pansketch import Domain, HierarchySpec, Privacy
from pansketch.hierarchy_planning import HierarchyPlan as Choice
from pansketch.hierarchy_planning import StatedSizes, hierarchy_plans
from pansketch.plan_choice import Expected

SIZES = ("depth", "fanout", "k", "width", "rows")


@dataclass(frozen=True)
class HierarchyPlan:
    """See `fleet.specs.Plan`. `memory_bytes`: the most for the state; None: a share of the
    profile's."""

    domain: Domain
    privacy: Privacy
    hash_key: int
    sizes: StatedSizes
    expected: Expected
    memory_bytes: int | None = None

    @property
    def stated(self) -> frozenset[str]:
        sizes = asdict(self.sizes) | {"memory": self.memory_bytes}
        return frozenset(name for name, value in sizes.items() if value is not None)

    @property
    def smaller(self) -> str:
        return "depth, k, width or rows, or state memory for it"

    @property
    def fix(self) -> str:
        return "correct it or leave it out"

    def memory(self, profile: Profile) -> int:
        """The most bytes that the planner may take."""
        return share_of(profile, HIERARCHY_PART, self.memory_bytes)

    def choices(self, profile: Profile) -> list[Choice]:
        """The plans of every depth that fit, the chosen one first. Raises ValueError."""
        sizes = _under(profile.sketch, self.sizes, self.domain)
        return _choices(self, sizes, self.memory(profile))

    def spec(self, profile: Profile) -> HierarchySpec:
        return self.choices(profile)[0].spec

    def shown(self, profile: Profile) -> Iterator[tuple[str, str, str]]:
        spec, given = self.spec(profile), asdict(profile.sketch)
        yield "memory", size_text(self.memory(profile)), f"profile {profile.name}"
        for name in SIZES:
            of_profile = given[name] is not None
            # Exact levels have no rows of hashed counters.
            if spec.sketched_levels or name in self.stated or name not in ("width", "rows"):
                origin = "profile" if of_profile else "planned for"
                yield name, str(getattr(spec, name)), f"{origin} {profile.name}"


# Every device plans its streams once, and the collector for every profile: many have the same.
@lru_cache(maxsize=64)
def _choices(plan: HierarchyPlan, sizes: StatedSizes, memory_bytes: int) -> list[Choice]:
    return hierarchy_plans(
        plan.domain, plan.privacy, memory_bytes, plan.expected, plan.hash_key, sizes
    )


def read_hierarchy(
    document: Document,
    where: str,
    raw: Any,
    domain: Domain,
    privacy: Privacy,
    hash_key: int,
    expected: Expected,
) -> HierarchyPlan:
    """Raises ConfigError at the key at fault; whether the sizes can be shows with a profile."""
    given = section(document, where, raw, SketchSection)
    memory = read_memory(document, join(where, "memory"), given.memory)
    sizes = StatedSizes(given.depth, given.k, given.width, given.rows, given.fanout)
    return HierarchyPlan(domain, privacy, hash_key, sizes, expected, memory)


def _under(profile: StatedSizes, stream: StatedSizes, domain: Domain) -> StatedSizes:
    """A profile's sizes under a stream's own.

    A depth from the profile shrinks to what the attributes can be halved; a stated one is left
    alone, and refused by the spec when it is too deep.
    """
    depth = profile.depth
    if depth is not None:
        depth = min(depth, sum(attribute.most_bits for attribute in domain.attributes))
    stated = {name: value for name, value in asdict(stream).items() if value is not None}
    return replace(profile, **{"depth": depth} | stated)
