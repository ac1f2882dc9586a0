"""The sizes that each kind of sketch may state; what is left out has a default."""

from fleet.schema import Section


class SketchSection(Section, frozen=True):
    """Sizes of a hierarchy that a stream states itself; what is left out is planned, within
    `memory`."""

    depth: int | None = None
    fanout: int | None = None
    k: int | None = None
    width: int | None = None
    rows: int | None = None
    memory: str | None = None


class ViewsSection(Section, frozen=True):
    """Sizes of the views of a stream; what is left out is planned, within `memory`."""

    single_bits: int | None = None
    pair_bits: int | None = None
    single_share: int | None = None
    memory: str | None = None


class DistinctSection(Section, frozen=True):
    """Sizes of a sketch of keys; of `universe` and `expected_keys` there is exactly one."""

    universe: int | None = None
    expected_keys: int | None = None
    memory: str | None = None
    variant: str | None = None
    release: str | None = None


class CellsSection(Section, frozen=True):
    """Sizes of a density sketch."""

    depth: int | None = None
    width: int | None = None
    rows: int | None = None


class MomentsSection(Section, frozen=True):
    """Sizes of a moment sketch: `sigma` of rff and race, `m` of rff, `rows` and `width` of race,
    `bins` of hist."""

    features: str | None = None
    m: int | None = None
    sigma: float | None = None
    rows: int | None = None
    width: int | None = None
    bins: int | None = None
    num_share: float | None = None
