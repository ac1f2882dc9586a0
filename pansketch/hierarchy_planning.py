"""Which sizes a hierarchy should have: the least predicted error (hierarchy_errors.py) that fits
into the memory.

Devices and collector must come to the same sizes, so the search is over whole numbers, and errors
are compared in whole millionths.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pansketch.domain import Domain
from pansketch.expected_errors import Errors
from pansketch.hierarchy import DEEPEST, HierarchySpec
from pansketch.hierarchy_errors import hierarchy_errors
from pansketch.plan_choice import Expected, NoPlan, frugal
from pansketch.privacy import Privacy

FANOUT = 4  # Two is noisier, and eight or sixteen are worse where noise is large.
DEEPEST_EXACT = 20
LEAST_BITS = 4  # of an attribute: too fine is only noisy, and too coarse cannot be repaired
COUNTER_BYTES = 4


@dataclass(frozen=True)
class StatedSizes:
    """Sizes that somebody has chosen already, by HierarchySpec's names; None leaves one to the
    planner."""

    depth: int | None = None
    k: int | None = None
    width: int | None = None
    rows: int | None = None
    fanout: int | None = None


NO_SIZES = StatedSizes()


@dataclass(frozen=True)
class HierarchyPlan:
    """A choice of sizes, with its predicted errors."""

    spec: HierarchySpec
    errors: Errors

    @property
    def score(self) -> int:
        return self.errors.score

    @property
    def nbytes(self) -> int:
        return self.spec.nbytes


def plan_hierarchy(
    domain: Domain,
    privacy: Privacy,
    memory_bytes: int,
    expected: Expected,
    hash_key: int = 0,
    stated: StatedSizes = NO_SIZES,
) -> HierarchyPlan:
    """The best sizes of a hierarchy. Raises NoPlan, one line that says what would fit, ValueError
    for a stated size that cannot be."""
    return hierarchy_plans(domain, privacy, memory_bytes, expected, hash_key, stated)[0]


def hierarchy_plans(
    domain: Domain,
    privacy: Privacy,
    memory_bytes: int,
    expected: Expected,
    hash_key: int = 0,
    stated: StatedSizes = NO_SIZES,
) -> list[HierarchyPlan]:
    """The plans of every depth that fit, the chosen one first, then by their errors."""
    found, coarsest = [], 0
    for spec in _candidates(domain, privacy, memory_bytes, hash_key, stated):
        coarsest = coarsest or spec.nbytes
        # A stated depth is not the planner's to refuse: all streams together must fit.
        if stated.depth is None and spec.nbytes > memory_bytes:
            break
        errors = hierarchy_errors(spec, expected.releases, expected.total)
        found.append(HierarchyPlan(spec, errors))
    if not found:
        raise NoPlan(_nothing_fits(domain, memory_bytes, coarsest))
    return frugal(found)


def _candidates(
    domain: Domain, privacy: Privacy, memory_bytes: int, hash_key: int, stated: StatedSizes
) -> Iterator[HierarchySpec]:
    for depth in _depths(domain, stated):
        # A planned depth has exact levels only: deeper ones are noisier, and share their counters.
        k = 1 << depth if stated.k is None and stated.depth is None else stated.k
        sizes = _filled(replace(stated, depth=depth, k=k), memory_bytes)
        try:
            yield HierarchySpec(domain, privacy, hash_key=hash_key, **sizes)
        except ValueError:
            # Deeper still needs a larger part of epsilon. What nobody chose is not complained of.
            if stated.depth is not None or depth == min(_depths(domain, stated)):
                raise
            return


def _depths(domain: Domain, stated: StatedSizes) -> list[int]:
    if stated.depth is not None:
        return [stated.depth]
    bits = [attribute.most_bits for attribute in domain.attributes]
    exact = DEEPEST_EXACT if stated.k is None else max(1, stated.k).bit_length() - 1
    deepest = max(1, min(sum(bits), exact, DEEPEST))
    least = min(deepest, sum(min(LEAST_BITS, each) for each in bits))
    # Whole levels: a last one with fewer children has epsilon for half the cells.
    step = max(1, (stated.fanout or FANOUT).bit_length() - 1)
    return [d for d in range(least, deepest + 1) if d % step == 0] or [deepest]


def _filled(stated: StatedSizes, memory_bytes: int) -> dict[str, int]:
    """All sizes, for a depth: every level is exact if possible; else the cells that are refined
    have a counter each at every deeper level."""
    assert stated.depth is not None
    fanout = FANOUT if stated.fanout is None else stated.fanout
    k = _refined(stated.depth, fanout, memory_bytes) if stated.k is None else stated.k
    width = max(2, 1 << (k - 1).bit_length()) if stated.width is None else stated.width
    rows = 1 if stated.rows is None else stated.rows
    return {"depth": stated.depth, "k": k, "width": width, "rows": rows, "fanout": fanout}


def _refined(depth: int, fanout: int, memory_bytes: int) -> int:
    """How many cells can be refined at each level within the memory; a power of two."""
    step = max(1, fanout.bit_length() - 1)
    for bits in range(min(depth, DEEPEST_EXACT), 0, -1):
        deeper = -(-(depth - bits) // step)
        # The exact levels together take less than two of the deepest.
        if (2 + deeper) * COUNTER_BYTES << bits <= memory_bytes:
            return 1 << bits
    return 1


def _nothing_fits(domain: Domain, memory_bytes: int, least: int) -> str:
    names = ", ".join(domain.names)
    return (
        f"memory of {memory_bytes} bytes is too small for a hierarchy of {names}: "
        f"the coarsest takes {least}"
    )
