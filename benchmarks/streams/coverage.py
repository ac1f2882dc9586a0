"""Coverage of answers: the share of truths within two standard errors, over independent fleets.

Each kind of answer has its own share. The note compares the standard error with the real error.

The readings of a stream are counted once for each age of it, at one age on scales that a first
window taught. A fleet is these counts with noise of its own, so hundreds of fleets cost little more
than their models. Each fleet is asked other questions, drawn at random: of one attribute, and of
FEW fleets of two attributes as well, which need records. A refused answer claims nothing; its share
is in the note.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from multiprocessing import get_context
from secrets import randbelow
from typing import NamedTuple

import numpy as np

from benchmarks.datasets import drawn_streams
from benchmarks.datasets.small_streams import FloatArray, Stream
from benchmarks.error_bars.short_streams import exact, noisy
from benchmarks.harness.report import Watch
from benchmarks.harness.result import Row
from benchmarks.streams import kinds
from benchmarks.streams.questions import BOUND, Found, Question, alone, together
from benchmarks.streams.streams import model_of
from pansketch import Domain, Release, ViewsSpec
from pansketch.generators import FittedModel, TooFewReadings, learned_domain

LOWEST, HIGHEST = 0.93, 0.99  # share of truths within two standard errors
RUNS, QUICK_RUNS = 200, 12
FEW, QUICK_FEW = 10, 2  # fleets of a stream that are asked of two attributes
DRAWN, QUICK_DRAWN = 60, 6  # streams
SMALL, SIZES = 2, ("one or two attributes", "more attributes")
UNSTATED = (
    "weather, dry hours",
    "delays, arrivals missing",
    "twelve stations",
    "twelve stations, temp and pm25",
)
ROUNDING = 1e-9  # of the scale, that no error is held against


class Age(NamedTuple):
    """So many windows, each of which has every `thinned`-th reading of the stream; on scales
    `learned` from as many before."""

    name: str
    windows: int
    thinned: int
    learned: bool = False


AGES = (
    Age("few readings", 3, 8),
    Age("1 window", 1, 1),
    Age("1 window after a learned scale", 1, 1, learned=True),
    Age("30 windows", 30, 1),
)


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
    jobs = list(product(streams(), AGES))
    tallies = _all_asked(jobs, *((QUICK_RUNS, QUICK_FEW) if quick else (RUNS, FEW)), watch)
    rows = [
        row
        for (stream, age), each in zip(jobs, tallies, strict=True)
        for row in _rows(f"{stream.name}, {age.name}", each)
    ]
    return [*rows, *_rows("all streams and ages", _together(tallies))]


def run_drawn(quick: bool, watch: Watch = iter, seed: int | None = None) -> list[Row]:
    """Each run draws other streams, but those of a `seed`; the first row has it. Few fleets of a
    stream show little of it, so rows are of all streams of an age and of a size alike."""
    seed = randbelow(1 << 32) if seed is None else seed
    drawn = drawn_streams.streams(seed, QUICK_DRAWN if quick else DRAWN)
    jobs = list(product(drawn, AGES))
    tallies = _all_asked(jobs, QUICK_RUNS, QUICK_FEW, watch)
    rows = [Row("seed of the drawn streams", seed, "", note=f"{len(drawn)} streams")]
    for wanted, size in product(AGES, SIZES):
        alike = [
            tally
            for (stream, age), tally in zip(jobs, tallies, strict=True)
            if (age, SIZES[stream.domain.dimension > SMALL]) == (wanted, size)
        ]
        rows += _rows(f"drawn streams of {size}, {wanted.name}", _together(alike), 1.0)
    return rows


def _all_asked(
    jobs: Sequence[tuple[Stream, Age]], runs: int, few: int, watch: Watch
) -> list[Tallies]:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # Each core has a process of its own.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        found = [pool.submit(asked, stream, age, runs, few) for stream, age in jobs]
        return [each.result() for each in watch(found)]


def streams() -> list[Stream]:
    """All of `--only streams`, and those with atoms once more with these declared. Some have no
    `step` stated, though their readings are rounded: limits are at values that many have."""
    with_atoms = [
        replace(kind.with_atoms, name=f"{kind.name}, with atoms")
        for kind in kinds.KINDS
        if kind.atoms
    ]
    every = [kind.stream for kind in (*kinds.KINDS, *kinds.WITHOUT_BARS)]
    unstated = [
        replace(
            stream,
            name=f"{stream.name}, no step stated",
            domain=Domain([replace(each, step=None) for each in stream.domain.attributes]),
        )
        for stream in every
        if stream.name in UNSTATED
    ]
    return [*every, *with_atoms, *unstated]


def asked(stream: Stream, age: Age, runs: int, few: int, seed: int = 0) -> Tallies:
    """By kind, what so many fleets answered; the first `few` of them also of two attributes."""
    rng = np.random.default_rng([seed, age.windows, age.thinned])
    if age.learned:
        _, told, releases = counted(stream, age, rng)
        stream = replace(stream, domain=learned_domain(model_of(noisy(told, releases, rng))))
    held, told, releases = counted(stream, age, rng)
    found: Tallies = {}
    viewed = None
    if isinstance(told.spec, ViewsSpec):
        names = [sorted(view.names) for view in told.spec.views]
        viewed = {pair for each in names for pair in combinations(each, 2)}
    for number in range(runs):  # One after the other: a model with its replicates is large.
        model = model_of(noisy(told, releases, rng))
        questions = list(alone(stream, held, rng))
        if number < few:
            questions += together(stream, held, age.windows, rng, viewed)
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


def counted(stream: Stream, age: Age, rng: np.random.Generator) -> tuple[FloatArray, Release, int]:
    """The readings of a window, float64[n, d]; the counters of all windows by the default plan,
    without noise; the number of its releases. Readings count with all values, or `missing` as an
    atom."""
    spec, rows = kinds.default_plan(stream, 1.0, age.windows).spec, stream.truth
    rows = rows[rng.permutation(len(rows))[: len(rows) // age.thinned]]
    optional = ["missing" in each.atoms for each in stream.domain.attributes]
    held = rows[(np.isfinite(rows) | np.array(optional)).all(axis=1)]
    told = exact(spec, held)
    told = replace(told, counters=age.windows * told.counters)
    return held, told, age.windows * len(stream.devices())


def _together(tallies: Iterable[Tallies]) -> Tallies:
    """All answers of a kind. Where cells hide most, an error is the same in all fleets of a stream:
    within two standard errors in all of them, or in none. Only over streams its share means much.
    """
    found: Tallies = {}
    for each in tallies:
        for kind, tally in each.items():
            whole = found.setdefault(kind, Tally())
            whole.errors += tally.errors
            whole.bars += tally.bars
            whole.refused += tally.refused
    return found


def _rows(title: str, found: Tallies, highest: float = HIGHEST) -> Iterator[Row]:
    for kind, tally in found.items():
        name = f"{title}: +-2 s.e. of {kind}"
        if not tally.given:
            yield Row(name, 1.0, "share", note="all were refused")
            continue
        refused = tally.refused / (tally.given + tally.refused)
        note = f"s.e. {tally.ratio:.2f} x real; {tally.given:,} answers, {refused:.2f} refused"
        most = 1.0 if kind.startswith(BOUND) else highest  # Bounds may be true more often.
        meets = LOWEST <= tally.within <= most
        bar = f"{LOWEST:g} to {most:g}" if most < 1 else f">= {LOWEST:g}"
        detail = {"ratio": tally.ratio, "answers": tally.given, "refused": refused}
        yield Row(name, tally.within, "share", bar, meets, note, detail)
