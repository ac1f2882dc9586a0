"""The generators: what reads the releases of which sketch, and which questions it then answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from collector.failure import wrong
from pansketch import (
    Domain,
    M2MModel,
    Partition,
    Release,
    combine,
    density,
    kdtree,
    m2m,
    pairwise,
    privhp,
)

AUTO = "auto"
SAMPLE = "sample"
OF_BOXES = ("quantile", "mean", "cdf", "range", "count", "covariance", SAMPLE)
OF_MOMENTS = ("mean", "cdf", "count", "covariance", SAMPLE)
SIZES = ("cells", "points")
LEAST_POINTS, MOST_POINTS = 1_000, 200_000

Fitted = Partition | M2MModel


@dataclass(frozen=True)
class Choice:
    """What a person asks for: a generator's name, "auto" for the one that suits the sketch best,
    and its sizes, None for its own."""

    name: str = AUTO
    cells: int | None = None
    points: int | None = None


@dataclass(frozen=True)
class Generator:
    """`fit`: from merged releases, one for each spec there is, to one model of all; raises
    CommandError for a size that cannot be, ValueError for one that the library refuses."""

    family: str
    questions: tuple[str, ...]
    fit: Callable[[Sequence[Release], Choice], Fitted]
    sizes: tuple[str, ...] = ()


def _privhp(releases: Sequence[Release], choice: Choice) -> Partition:
    return combine([privhp(release) for release in releases])


def _kdtree(releases: Sequence[Release], choice: Choice) -> Partition:
    return combine([kdtree(release).partition for release in releases])


def _density(releases: Sequence[Release], choice: Choice) -> Partition:
    if choice.cells is None:
        return combine([density(release).partition for release in releases])
    return combine([density(release, cells=choice.cells).partition for release in releases])


def _pairwise(releases: Sequence[Release], choice: Choice) -> Partition:
    return combine([pairwise(release) for release in releases])


def _m2m(releases: Sequence[Release], choice: Choice) -> M2MModel:
    if len(releases) > 1:
        raise wrong(
            "feature sums of different sketches do not add up: select windows of one of them "
            "with --from and --to, or --devices"
        )
    if choice.points is None:
        return m2m(releases[0])
    if not LEAST_POINTS <= choice.points <= MOST_POINTS:
        raise wrong(f"--points must lie between {LEAST_POINTS} and {MOST_POINTS}")
    return m2m(releases[0], points=choice.points)


# Of those that read one family, the first is the one that suits it best.
GENERATORS: Mapping[str, Generator] = {
    "privhp": Generator("hierarchy", OF_BOXES, _privhp),
    "kdtree": Generator("hierarchy", OF_BOXES, _kdtree),
    "density": Generator("cells", OF_BOXES, _density, ("cells",)),
    "pairwise": Generator("views", OF_BOXES, _pairwise),
    "m2m": Generator("moments", OF_MOMENTS, _m2m, ("points",)),
}


def choose(stream: str, family: str, choice: Choice) -> str:
    """The name of the generator for a stream whose sketch is of that family.

    Raises CommandError, which says what suits, for one that reads other sketches, and for a size
    that it does not have.
    """
    suited = [name for name, each in GENERATORS.items() if each.family == family]
    name = suited[0] if choice.name == AUTO else choice.name
    if name not in suited:
        wanted = GENERATORS[name].family
        raise wrong(
            f"{name} reads sketches of type {wanted}, and the sketch of stream {stream} is of type "
            f"{family}: use --generator {' or '.join(suited)}"
        )
    for size in SIZES:
        if getattr(choice, size) is not None and size not in GENERATORS[name].sizes:
            raise wrong(f"--{size} is no size of {name}, which reads stream {stream}: leave it out")
    return name


def domain_of(fitted: Fitted) -> Domain:
    """The attributes that a model speaks of."""
    return fitted.domain if isinstance(fitted, Partition) else fitted.spec.domain


def readings_of(fitted: Fitted) -> float:
    """The estimated number of readings; noise may bring it below zero."""
    return fitted.total if isinstance(fitted, Partition) else fitted.readings.value
