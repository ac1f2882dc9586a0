"""Which sizes a hierarchy should have: the least regret (selection.py) over predicted errors
(hierarchy_errors.py) of the sizes that fit into the memory.

Exact levels serve readings that fill their bounds; levels below them, in tables that cells share,
serve those that crowd. Devices and collector must come to the same sizes, so the search is over
whole numbers, and errors are compared in whole millionths.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from pansketch.domain.domain import Domain
from pansketch.planning.expected_errors import Errors
from pansketch.planning.hierarchy_errors import hierarchy_errors
from pansketch.planning.selection import DEEP, Expected, NoPlan, cases_of, frugal, regrets
from pansketch.privacy import Guarantee, Privacy
from pansketch.sketches.hierarchy import DEEPEST, HierarchySpec

FANOUTS = (4, 8)  # Two is noisier, and of sixteen more are noisy where readings crowd.
FANOUT = 4
DEEPEST_EXACT = 20
DEEPEST_PLANNED = 32
MIN_BITS = 4  # of an attribute: too fine is only noisy, and too coarse cannot be repaired
MIN_EXACT = 4  # bits of the deepest exact level
COUNTER_BYTES = 4


@dataclass(frozen=True)
class StatedSizes:
    """Sizes of a `HierarchySpec` that are fixed already. None: the planner chooses.

    Args:
        depth: bits of a path.
        k: cells that growth refines at each deeper level.
        width: columns of the count-min table of each deeper level.
        rows: rows of each table.
        fanout: children of a cell.
    """

    depth: int | None = None
    k: int | None = None
    width: int | None = None
    rows: int | None = None
    fanout: int | None = None


NO_SIZES = StatedSizes()


@dataclass(frozen=True)
class HierarchyPlan:
    """A choice of sizes.

    Attributes:
        spec: the hierarchy with these sizes.
        errors: predicted for the expected windows and a range of readings as assumed.
        score: its regret, in thousandths.
    """

    spec: HierarchySpec
    errors: Errors
    score: int

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
    """Return the best sizes of a hierarchy.

    Args:
        domain: the attributes of a reading.
        privacy: epsilon, unit and intrusion.
        memory_bytes: maximum of the state.
        expected: the releases of a typical query.
        hash_key: public 64-bit key of the spec.
        stated: sizes that are fixed already.

    Raises:
        NoPlan: no sizes fit; one line with those that would.
        ValueError: a stated size is out of range.
    """
    return hierarchy_plans(domain, privacy, memory_bytes, expected, hash_key, stated)[0]


def hierarchy_plans(
    domain: Domain,
    privacy: Privacy,
    memory_bytes: int,
    expected: Expected,
    hash_key: int = 0,
    stated: StatedSizes = NO_SIZES,
) -> list[HierarchyPlan]:
    """Return the plans of every depth that fit: the chosen one first, then by their regret.

    For the arguments and errors see `plan_hierarchy`.
    """
    search = _Search(domain, privacy, expected, hash_key)
    known, found, coarsest = _predicted(search), [], 0
    for sizes in _candidates(domain, memory_bytes, stated):
        key = tuple(sizes.values())
        if key not in known:
            try:
                spec = search.spec(sizes)
            except ValueError:
                # Deeper still needs a larger part of epsilon. A depth that no user chose raises no
                # error; but an error of the coarsest depth is raised.
                if stated.depth is not None or not coarsest:
                    raise
                continue
            coarsest = min(coarsest or spec.nbytes, spec.nbytes)
            # A stated depth is not the planner's to refuse: all streams together must fit.
            if stated.depth is None and spec.nbytes > memory_bytes:
                continue
            known[key] = search.candidate(sizes, spec)
        coarsest = min(coarsest or known[key].nbytes, known[key].nbytes)
        if stated.depth is not None or known[key].nbytes <= memory_bytes:
            found.append(known[key])
    if not found:
        raise NoPlan(_nothing_fits(domain, memory_bytes, coarsest))
    by_depth: dict[int, list[_Candidate]] = {}
    for candidate, score in zip(found, regrets([each.scores for each in found]), strict=True):
        by_depth.setdefault(candidate.sizes["depth"], []).append(candidate._replace(score=score))
    return [
        HierarchyPlan(search.spec(each.sizes), each.errors, each.score)
        for each in frugal([frugal(each)[0] for each in by_depth.values()])
    ]


class _Candidate(NamedTuple):
    """See `HierarchyPlan`; `scores` of its errors, by case."""

    sizes: dict[str, int]
    nbytes: int
    errors: Errors
    scores: tuple[int, ...]
    score: int = 0


@dataclass(frozen=True)
class _Search:
    """Inputs of the search for sizes; a collector searches for each size of memory."""

    domain: Domain
    privacy: Privacy
    expected: Expected
    hash_key: int

    def spec(self, sizes: dict[str, int]) -> HierarchySpec:
        return HierarchySpec(self.domain, self.privacy, hash_key=self.hash_key, **sizes)

    def candidate(self, sizes: dict[str, int], spec: HierarchySpec) -> _Candidate:
        cases = cases_of(self.expected, DEEP, Guarantee.of_linear_counters(self.privacy))
        errors = [hierarchy_errors(spec, c.draws, c.total, c.shape.narrow) for c in cases]
        return _Candidate(sizes, spec.nbytes, errors[0], tuple(each.score for each in errors))


# As for views: one stream at a time is planned for all sizes of memory.
@lru_cache(maxsize=1)
def _predicted(search: _Search) -> dict[tuple[int, ...], _Candidate]:
    """The candidates of a search that are known, by their sizes."""
    return {}


def _candidates(domain: Domain, memory_bytes: int, stated: StatedSizes) -> Iterator[dict[str, int]]:
    """Sizes, the coarsest first."""
    for fanout in FANOUTS if stated.fanout is None else (stated.fanout,):
        for depth in _depths(domain, stated, fanout):
            for k in _exact(depth, fanout, memory_bytes, stated):
                yield _filled(replace(stated, depth=depth, k=k, fanout=fanout), memory_bytes)


def _depths(domain: Domain, stated: StatedSizes, fanout: int) -> list[int]:
    if stated.depth is not None:
        return [stated.depth]
    bits = [attribute.max_bits for attribute in domain.attributes]
    deepest = max(1, min(sum(bits), DEEPEST_PLANNED, DEEPEST))
    least = min(deepest, sum(min(MIN_BITS, each) for each in bits))
    # Whole levels: a last one with fewer children has epsilon for half the cells.
    step = max(1, fanout.bit_length() - 1)
    return [d for d in range(least, deepest + 1) if d % step == 0] or [deepest]


def _exact(depth: int, fanout: int, memory_bytes: int, stated: StatedSizes) -> list[int | None]:
    """Choices of k: the cells of the deepest exact level."""
    if stated.k is not None or stated.depth is not None:
        return [stated.k]
    step = max(1, fanout.bit_length() - 1)
    least = min(depth, MIN_EXACT)
    most = min(depth, DEEPEST_EXACT, (memory_bytes // COUNTER_BYTES).bit_length())
    finer = [bits for bits in range(least + 1, most + 1) if bits % step == 0 or bits == depth]
    return [1 << bits for bits in (least, *finer)]


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
    """Number of cells that can be refined at each level within the memory; a power of two."""
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
