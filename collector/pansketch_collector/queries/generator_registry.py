"""The generators: the sketch that each reads, and the questions that its model answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pansketch import Release
from pansketch.generators import (
    FittedModel,
    M2MModel,
    Partition,
    Sampler,
    TooFewReadings,
    ViewsModel,
    combine,
    density,
    kdtree,
    m2m,
    pairwise,
    privhp,
)
from pansketch_collector.errors import CommandError, wrong
from pansketch_fleet.settings.settings import KeyStream, Stream

AUTO = "auto"
SAMPLE = "sample"
CHANGE, DRIFT = "change", "drift"
OF_BOXES = ("quantile", "mean", "cdf", "range", "count", "covariance", CHANGE, SAMPLE)
OF_COUNTS = (*OF_BOXES, DRIFT)
OF_MOMENTS = ("mean", "cdf", "count", "covariance", CHANGE, SAMPLE)
SIZES = ("cells", "points")
MIN_POINTS, MAX_POINTS = 1_000, 200_000


@dataclass(frozen=True)
class GeneratorChoice:
    """The requested generator: its name, or "auto" for the best one for the sketch, and its sizes.

    `cells`, `points`: None for its defaults. `robust`: the median over groups of devices.
    """

    name: str = AUTO
    cells: int | None = None
    points: int | None = None
    robust: bool = False


Unused = Sampler | None


@dataclass(frozen=True)
class Generator:
    """A generator of the library.

    `fit`: makes one model of merged releases, one release for each spec. It raises CommandError for
    an invalid size, ValueError for one that the library rejects. `trained`: it may use records from
    another sketch of the source. `max_rows`: limit of rows by window, day or device, each of which
    is a fit; `max_single_rows`: the limit if the question is about one attribute.
    """

    family: str
    questions: tuple[str, ...]
    fit: Callable[[Sequence[Release], GeneratorChoice, Sampler | None], FittedModel]
    sizes: tuple[str, ...] = ()
    max_rows: int = 400
    max_single_rows: int = 400
    trained: bool = False


def _privhp(releases: Sequence[Release], choice: GeneratorChoice, _: Unused) -> Partition:
    return combine([privhp(release) for release in releases])


def _kdtree(releases: Sequence[Release], choice: GeneratorChoice, _: Unused) -> Partition:
    return combine([kdtree(release).partition for release in releases])


def _density(releases: Sequence[Release], choice: GeneratorChoice, _: Unused) -> Partition:
    if choice.cells is None:
        return combine([density(release).partition for release in releases])
    return combine([density(release, cells=choice.cells).partition for release in releases])


def _pairwise(releases: Sequence[Release], choice: GeneratorChoice, _: Unused) -> ViewsModel:
    return pairwise(*releases)


def _m2m(
    releases: Sequence[Release], choice: GeneratorChoice, training: Sampler | None
) -> M2MModel:
    if len(releases) > 1:
        raise wrong(
            "feature sums of different sketches do not add up: select windows of one of them "
            "with --from and --to, or --devices"
        )
    if choice.points is None:
        return m2m(releases[0], training)
    if not MIN_POINTS <= choice.points <= MAX_POINTS:
        raise wrong(f"--points must lie between {MIN_POINTS} and {MAX_POINTS}")
    return m2m(releases[0], training, points=choice.points)


# The first one of a family is its default.
GENERATORS: Mapping[str, Generator] = {
    "privhp": Generator("hierarchy", OF_COUNTS, _privhp),
    "kdtree": Generator("hierarchy", OF_COUNTS, _kdtree),
    "density": Generator("cells", OF_BOXES, _density, ("cells",)),
    "pairwise": Generator("views", OF_COUNTS, _pairwise, max_rows=40, max_single_rows=1000),
    "m2m": Generator("moments", OF_MOMENTS, _m2m, ("points",), max_rows=24, trained=True),
}


def choose(stream: str, family: str, choice: GeneratorChoice) -> str:
    """The name of the generator for a stream with a sketch of this family.

    Raises CommandError, with the suitable names, for one that reads other sketches, and for a size
    that it lacks.
    """
    suitable = [name for name, each in GENERATORS.items() if each.family == family]
    name = suitable[0] if choice.name == AUTO else choice.name
    if name not in suitable:
        wanted = GENERATORS[name].family
        raise wrong(
            f"{name} reads sketches of type {wanted}, and the sketch of stream {stream} is of type "
            f"{family}: use --generator {' or '.join(suitable)}"
        )
    for size in SIZES:
        if getattr(choice, size) is not None and size not in GENERATORS[name].sizes:
            raise wrong(
                f"--{size} does not apply to {name}, which reads stream {stream}: leave it out"
            )
    return name


def trainer(parts: Sequence[Stream]) -> Stream | None:
    """The sketch of one source whose records M2M trains on, if the source has one."""
    for family in ("views", "hierarchy", "cells"):
        for each in parts:
            if each.spec.family == family:
                return each
    return None


def records(releases: Sequence[Release]) -> Sampler | None:
    """A sampler of records like the readings; None if noise outweighs the readings."""
    if not releases:
        return None
    family = releases[0].spec.family
    model = GENERATORS[choose("", family, GeneratorChoice())].fit(releases, GeneratorChoice(), None)
    try:
        model.check()
    except TooFewReadings:
        return None
    return model.sampler()


DISTINCT = "distinct"


def answering(
    parts: Sequence[Stream], question: str, choice: GeneratorChoice, sketch: str | None = None
) -> Stream:
    """The first sketch of one source that answers a question, or the one of type `sketch`.

    Raises CommandError, as `check_answers` does, and for a type that the source lacks.
    """
    if sketch is not None:
        named = [each for each in parts if each.spec.family == sketch]
        if not named:
            available = " and ".join(each.spec.family for each in parts)
            raise wrong(
                f"stream {parts[0].name} has no sketch of type {sketch}: it has {available}, "
                "leave out --sketch or name one of these"
            )
        parts = named
    refusals = []
    for each in parts:
        try:
            check_answers(each, question, choice)
        except CommandError as error:
            refusals.append(error)
        else:
            return each
    raise refusals[0]


def check_answers(stream: Stream, question: str, choice: GeneratorChoice) -> None:
    """Raises CommandError, with the stream's questions, if the stream cannot answer this one."""
    if isinstance(stream, KeyStream):
        _check_keys(stream.name, question, choice)
        return
    if choice.robust and question in (CHANGE, DRIFT):
        raise wrong(f"--robust is not for {question}, which has two sets of releases: leave it out")
    if choice.robust and question == SAMPLE:
        raise wrong(
            "--robust takes a median of answers, and synthetic readings have none: leave out "
            "--robust, and exclude what you do not trust with `exclude DEVICE`"
        )
    family = stream.spec.family
    name = choose(stream.name, family, choice)
    answers = GENERATORS[name].questions
    if question in answers:
        return
    if question == DISTINCT:
        raise wrong(
            f"stream {stream.name} has readings and no keys: it answers {', '.join(answers)}; "
            f"{question} is for a stream with a key"
        )
    families = sorted({each.family for each in GENERATORS.values() if question in each.questions})
    raise wrong(
        f"stream {stream.name} has a sketch of type {family}, which answers {', '.join(answers)}; "
        f"{question} needs one of type {' or '.join(families)}"
    )


def _check_keys(name: str, question: str, choice: GeneratorChoice) -> None:
    if question != DISTINCT:
        instead = f"ask `query --stream {name} {DISTINCT}`"
        raise wrong(f"stream {name} counts distinct keys, and has no {question}: {instead}")
    if choice.robust:
        raise wrong(
            f"--robust is for a stream of readings, and {name} counts distinct keys: leave it "
            "out, and compare devices by `distinct --by device`"
        )
    if choice != GeneratorChoice():
        given = "--generator" if choice.name != AUTO else "a generator's size"
        raise wrong(f"{given} is for a stream of readings, and {name} has a key: leave it out")
