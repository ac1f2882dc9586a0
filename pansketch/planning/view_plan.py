"""What a planner of views is told, and what it returns."""

from collections.abc import Sequence
from dataclasses import dataclass

from pansketch.domain.domain import Domain
from pansketch.planning.expected_errors import Errors
from pansketch.planning.view_errors import Bits
from pansketch.privacy import Privacy
from pansketch.sketches.views import MAX_VIEW_BITS, View, ViewsSpec

CELL_BYTES = 4

ViewNames = tuple[str, ...]


@dataclass(frozen=True)
class StatedViews:
    """Sizes of views that are fixed already. None: the planner chooses.

    Args:
        single_bits: of an attribute in a view of its own.
        pair_bits: of an attribute in a pair.
        single_share: of epsilon, in whole per cent, for all views of one attribute together.

    Raises:
        ValueError: a size is out of range; the line begins with its name.
    """

    single_bits: int | None = None
    pair_bits: int | None = None
    single_share: int | None = None

    def __post_init__(self) -> None:
        for name in ("single_bits", "pair_bits"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= MAX_VIEW_BITS:
                raise ValueError(f"{name} must lie between 1 and {MAX_VIEW_BITS}, not {value}")
        if self.single_share is not None and not 1 <= self.single_share <= 99:
            raise ValueError(f"single_share must lie between 1 and 99, not {self.single_share}")


NOTHING_STATED = StatedViews()


@dataclass(frozen=True)
class ViewPlan:
    """A choice of views.

    Args:
        domain: the attributes of a reading.
        privacy: epsilon, unit and intrusion.
        sets: the attributes of each view.
        shapes: bits of each attribute of each view.
        parts: what each view costs a reading, in micro-epsilon.
        errors: predicted for the expected windows and a range of readings as assumed.
        score: its regret, in thousandths.
        single_bits: the finest resolution of an attribute alone; 0: there is no such view.
        pair_bits: the finest resolution of an attribute in a pair; 0: there is no such view.
    """

    domain: Domain
    privacy: Privacy
    sets: tuple[ViewNames, ...]
    shapes: tuple[Bits, ...]
    parts: tuple[int, ...]
    errors: Errors
    score: int
    single_bits: int
    pair_bits: int

    @property
    def spec(self) -> ViewsSpec:
        views = tuple(map(View, self.sets, self.shapes, self.parts))
        return ViewsSpec(self.domain, self.privacy, views)

    @property
    def single_percent(self) -> float:
        """Of epsilon: the part of all views of one attribute together."""
        alone = sum(p for names, p in zip(self.sets, self.parts, strict=True) if len(names) == 1)
        return 100 * alone / sum(self.parts)

    @property
    def nbytes(self) -> int:
        return state_nbytes(self.shapes)


def state_nbytes(shapes: Sequence[Bits]) -> int:
    """Of the cells of views with so many bits of each attribute."""
    return CELL_BYTES * sum(1 << sum(bits) for bits in shapes)
