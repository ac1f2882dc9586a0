"""Coverage of answers: the share of truths within two standard errors, over independent fleets.

Each kind of answer has its own share. The note compares the standard error with the real error.

The readings of a stream are counted once for each age of it. A fleet is these counts with noise of
its own, so hundreds of fleets cost little more than their models. Each fleet is asked other
questions, drawn at random: of one attribute, and of FEW fleets of two attributes as well, which
need records. A refused answer claims nothing; its share is in the note.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from itertools import pairwise as pairwise_of
from typing import NamedTuple

import numpy as np

from benchmarks.datasets.small_streams import FloatArray, Stream
from benchmarks.error_bars.short_streams import exact, noisy
from benchmarks.harness.report import Watch
from benchmarks.harness.result import Row
from benchmarks.streams import kinds
from pansketch import Attribute, Estimate, Release
from pansketch.generators import Estimates, FittedModel, TooFewReadings, pairwise, privhp

ALONE = ("mean", "quantile", "cdf", "share", "variance", "histogram")
TOGETHER = ("count", "density", "covariance")
LOWEST, HIGHEST = 0.93, 0.99  # share of truths within two standard errors
RUNS, QUICK_RUNS = 200, 12
FEW, QUICK_FEW = 10, 2  # fleets of a stream that are asked of two attributes
AGAIN = 4  # quantiles, and as many cdf and shares, asked of an attribute
PAIRS = 4  # of which a fleet is asked for counts
BINS = 12
PARTICLES = 1 << 15
ROUNDING = 1e-9  # of the scale, that no error is held against

Found = Estimate | Estimates


class Age(NamedTuple):
    """So many windows, each of which has every `thinned`-th reading of the stream."""

    name: str
    windows: int
    thinned: int


AGES = (Age("few readings", 3, 8), Age("1 window", 1, 1), Age("30 windows", 30, 1))


class Question(NamedTuple):
    """`truth`: of the readings, a number or an array. `scale`: of them, in the same unit. `ask`:
    the answer of a model."""

    kind: str
    truth: float | FloatArray
    scale: float | FloatArray
    ask: Callable[[FittedModel], Found]


@dataclass
class Tally:
    """Errors of answers and standard errors, both in scales; and how many were refused."""

    errors: list[FloatArray] = field(default_factory=list)
    bars: list[FloatArray] = field(default_factory=list)
    refused: int = 0

    def add(self, question: Question, found: Found) -> None:
        scale = np.ravel(np.broadcast_to(question.scale, np.shape(question.truth)))
        apart = np.ravel(np.abs(np.asarray(found.value) - question.truth))
        self.errors.append(apart / scale)
        self.bars.append(np.ravel(np.asarray(found.standard_error)) / scale)

    @property
    def given(self) -> int:
        return sum(map(len, self.errors))

    @property
    def within(self) -> float:
        """Share of truths within two standard errors."""
        errors, bars = np.concatenate(self.errors), np.concatenate(self.bars)
        return float(np.mean(errors <= 2 * bars + ROUNDING))

    @property
    def ratio(self) -> float:
        """The standard error over the real error, both as a root mean square."""
        errors, bars = np.concatenate(self.errors), np.concatenate(self.bars)
        return float(np.sqrt(np.mean(bars**2) / max(float(np.mean(errors**2)), ROUNDING**2)))


Tallies = dict[str, Tally]


def run(quick: bool, watch: Watch = iter) -> list[Row]:
    runs, few = (QUICK_RUNS, QUICK_FEW) if quick else (RUNS, FEW)
    rows = []
    for stream in watch(streams()):
        for age in AGES:
            rows += list(_rows(stream, age, asked(stream, age, runs, few)))
    return rows


def streams() -> list[Stream]:
    """All of `--only streams`, and those with atoms once more with these declared."""
    with_atoms = [
        replace(kind.with_atoms, name=f"{kind.name}, with atoms")
        for kind in kinds.KINDS
        if kind.atoms
    ]
    return [*(kind.stream for kind in kinds.KINDS), *with_atoms]


def asked(stream: Stream, age: Age, runs: int, few: int, seed: int = 0) -> Tallies:
    """By kind, what so many fleets answered; the first `few` of them also of two attributes."""
    rng = np.random.default_rng([seed, age.windows, age.thinned])
    rows, plan = stream.truth, kinds.default_plan(stream, 1.0, age.windows)
    rows = rows[rng.permutation(len(rows))[: len(rows) // age.thinned]]
    held = rows[_counted(stream, rows)]
    told = exact(plan.spec, held)
    told = replace(told, counters=age.windows * told.counters)
    draws = age.windows * len(stream.devices())
    found: Tallies = {}
    for number in range(runs):  # One after the other: a model with its replicates is large.
        model = _model(noisy(told, draws, rng))
        questions = list(alone(stream, held, rng))
        if number < few:
            questions += together(stream, held, age.windows, rng)
        tallied(model, questions, found)
    return found


def tallied(model: FittedModel, questions: Sequence[Question], found: Tallies) -> None:
    """Adds a model's answers."""
    for each in questions:
        tally = found.setdefault(each.kind, Tally())
        try:
            tally.add(each, each.ask(model))
        except TooFewReadings:
            tally.refused += int(np.size(each.truth))


def _model(release: Release) -> FittedModel:
    """What the collector makes of it by default, of fewer particles."""
    if release.spec.family == "views":
        return pairwise(release, particles=PARTICLES)
    return privhp(release)


def _counted(stream: Stream, rows: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Readings that count: without `missing` as an atom those with all values."""
    optional = ["missing" in each.atoms for each in stream.domain.attributes]
    return np.asarray((np.isfinite(rows) | np.array(optional)).all(axis=1))


def alone(stream: Stream, rows: FloatArray, rng: np.random.Generator) -> Iterator[Question]:
    """Of one attribute, drawn at random, at random values."""
    place = int(rng.integers(stream.domain.dimension))
    attribute, column = stream.domain.attributes[place], rows[:, place]
    name, there = attribute.name, column[np.isfinite(column)]
    if attribute.categories is not None:
        for code, category in enumerate(attribute.categories):
            truth = float((column == code).mean())
            yield Question("share", truth, 1.0, partial(_share, wanted={name: category}))
        return
    for _ in range(AGAIN):
        low, high = _between(attribute, there, rng)
        truth = float(((column >= low) & (column <= high)).mean())
        yield Question("share", truth, 1.0, partial(_share, wanted={name: (low, high)}))
    if attribute.cyclic:
        return
    spread = float(there.std())
    yield Question("mean", float(there.mean()), spread, partial(_mean, name=name))
    yield Question("variance", spread**2, spread**2, partial(_variance, name=name))
    for share in rng.uniform(0.03, 0.97, AGAIN).tolist():
        at = float(np.quantile(there, share, method="inverted_cdf"))
        yield Question("quantile", at, spread, partial(_quantile, name=name, share=share))
        x = _off(attribute, at)
        yield Question("cdf", float((there <= x).mean()), 1.0, partial(_cdf, name=name, x=x))
    texts, inside = _bins(attribute, there, column, rng)
    yield Question("histogram", inside.mean(axis=1), 1.0, partial(_histogram, bins=[texts]))


def together(
    stream: Stream, rows: FloatArray, windows: int, rng: np.random.Generator
) -> Iterator[Question]:
    """Of pairs of attributes that are numbers; their covariances all at once."""
    domain = stream.domain
    numbers = [n for n, a in enumerate(domain.attributes) if a.categories is None and not a.cyclic]
    pairs = list(combinations(numbers, 2))
    if not pairs:
        return
    for pick in rng.permutation(len(pairs))[:PAIRS]:
        pair, inside = pairs[pick], np.ones(len(rows), np.bool_)
        wanted: dict[str, tuple[float, float] | str] = {}
        bins, both = [], []
        for place in pair:
            attribute, column = domain.attributes[place], rows[:, place]
            there = column[np.isfinite(column)]
            low, high = _between(attribute, there, rng)
            inside &= (column >= low) & (column <= high)
            wanted[attribute.name] = (low, high)
            texts, found = _bins(attribute, there, column, rng)
            bins.append(texts)
            both.append(found.astype(np.float64))
        many = float(windows * len(rows))
        yield Question("count", windows * float(inside.sum()), many, partial(_count, wanted=wanted))
        shares = both[0] @ both[1].T / len(rows)
        yield Question("density", shares, 1.0, partial(_histogram, bins=bins))
    names = tuple(domain.names[n] for n in numbers)
    truth, scale = np.array([_covariance_of(rows[:, pair]) for pair in pairs]).T
    places = [(numbers.index(a), numbers.index(b)) for a, b in pairs]
    ask = partial(_covariances, names=names, places=places)
    yield Question("covariance", truth, scale, ask)


def _covariance_of(rows: FloatArray) -> tuple[float, float]:
    """The covariance of two attributes, where neither is missing, and the product of deviations."""
    both = np.cov(rows[np.isfinite(rows).all(axis=1)].T, bias=True)
    return float(both[0, 1]), float(np.sqrt(both[0, 0] * both[1, 1]))


def _off(attribute: Attribute, value: float) -> float:
    """Between values, so that there are no ties."""
    return value + (attribute.step or 0.0) / 2


def _between(
    attribute: Attribute, there: FloatArray, rng: np.random.Generator
) -> tuple[float, float]:
    ends = np.sort(rng.uniform(0, 1, 2))
    low, high = (_off(attribute, float(each)) for each in np.quantile(there, ends))
    return low, high


def _bins(
    attribute: Attribute, there: FloatArray, column: FloatArray, rng: np.random.Generator
) -> tuple[list[str], FloatArray]:
    """Bins of equal width over nearly all readings, and which readings each has: [bins, n]."""
    low, high = np.quantile(there, (rng.uniform(0, 0.02), rng.uniform(0.98, 1)))
    edges = [_off(attribute, each) for each in np.linspace(low, high, BINS + 1).tolist()]
    name, ends = attribute.name, list(pairwise_of(edges))
    texts = [f"{name} >= {start!r} & {name} < {end!r}" for start, end in ends]
    return texts, np.stack([(column >= start) & (column < end) for start, end in ends])


def _rows(stream: Stream, age: Age, found: Tallies) -> Iterator[Row]:
    for kind, tally in found.items():
        title = f"{stream.name}, {age.name}: +-2 s.e. of {kind}"
        if not tally.given:
            yield Row(title, 1.0, "share", note="all were refused")
            continue
        refused = tally.refused / (tally.given + tally.refused)
        note = f"s.e. {tally.ratio:.2f} x real; {tally.given:,} answers, {refused:.2f} refused"
        meets = LOWEST <= tally.within <= HIGHEST
        bar = f"{LOWEST:g} to {HIGHEST:g}"
        detail = {"ratio": tally.ratio, "answers": tally.given, "refused": refused}
        yield Row(title, tally.within, "share", bar, meets, note, detail)


def _mean(model: FittedModel, name: str) -> Found:
    return model.mean(name)


def _quantile(model: FittedModel, name: str, share: float) -> Found:
    return model.quantile(name, share)


def _cdf(model: FittedModel, name: str, x: float) -> Found:
    return model.cdf(name, x)


def _count(model: FittedModel, wanted: dict[str, tuple[float, float] | str]) -> Found:
    return model.count(wanted)


def _share(model: FittedModel, wanted: dict[str, tuple[float, float] | str]) -> Found:
    return model.share(wanted)


def _histogram(model: FittedModel, bins: list[list[str]]) -> Found:
    return model.bin_shares(bins)


def _variance(model: FittedModel, name: str) -> Found:
    return model.covariance((name,))[0, 0]


def _covariances(
    model: FittedModel, names: tuple[str, ...], places: list[tuple[int, int]]
) -> Found:
    found = model.covariance(names)
    first, second = np.array(places).T
    return Estimates(found.value[first, second], found.standard_error[first, second])
