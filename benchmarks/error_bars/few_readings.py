"""Coverage of error bars with few readings, and the share of refused questions.

Coverage is the share of truths within two standard errors of the given answers. It is measured by
family and question, over shapes of readings and ages of a stream.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.error_bars.short_streams import (
    FAMILIES,
    READINGS,
    SHAPES,
    Family,
    exact,
    noisy,
    questions,
)
from benchmarks.harness.result import Row, at_most
from pansketch import Release
from pansketch.generators import EmptyModel, Fidelity, FittedModel, TooFewReadings, fidelity

WINDOWS = (14, 40, 120, 400)
RUNS, QUICK_RUNS = 50, 2  # of each age
LOWEST = 0.93
NOMINAL = 0.954

Answers = dict[tuple[str, str], list[bool | None]]


def run(quick: bool) -> list[Row]:
    runs = QUICK_RUNS if quick else RUNS
    rows: list[Row] = []
    for name, family in FAMILIES.items():
        answers: Answers = defaultdict(list)
        for shape in SHAPES:
            for windows in WINDOWS:
                for (kind, _), found in asked(family, shape, windows, runs).items():
                    answers[kind, shape] += found
        rows += _rows(name, answers)
    return [*rows, *_empty(runs), *_reports(runs)]


def asked(
    family: Family,
    shape: str,
    windows: int,
    runs: int,
    fit: Callable[[Release], FittedModel] | None = None,
    only: str = "",
) -> Answers:
    """By question and number: of each run, whether the truth lay within two standard errors; None
    where the answer was refused. `fit`: another reader than the family's. `only`: this question
    alone."""
    rng = np.random.default_rng([*shape.encode(), windows])
    domain, rows = SHAPES[shape](family.attributes, READINGS * windows, rng)
    told = exact(family.spec(domain), rows)
    listed = list(questions(domain, rows, family is not FAMILIES["m2m"]))
    found: Answers = defaultdict(list)
    for _ in range(runs):
        model = (fit or family.fit)(noisy(told, windows, rng))
        for number, (kind, truth, ask) in enumerate(listed):
            if only not in ("", kind):
                continue
            try:
                answer = ask(model)
            except EmptyModel:
                found[kind, str(number)].append(None)
            else:
                apart = abs(answer.value - truth)
                found[kind, str(number)].append(bool(apart <= 2 * answer.standard_error + 1e-9))
    return found


def _rows(name: str, answers: Answers) -> Iterator[Row]:
    for kind in sorted({kind for kind, _ in answers}):
        shapes = {shape: each for (other, shape), each in answers.items() if other == kind}
        given = {s: [a for a in each if a is not None] for s, each in shapes.items()}
        held = {shape: float(np.mean(each)) for shape, each in given.items() if each}
        everything = [a for each in given.values() for a in each]
        share = float(np.mean(everything)) if everything else 1.0
        refused = 1 - len(everything) / sum(map(len, shapes.values()))
        worst = min(held, key=lambda shape: held[shape])
        note = f"nominal {NOMINAL:g}; refused {refused:.2f}; lowest {held[worst]:.2f} ({worst})"
        bar = f"{LOWEST:g} to 1"
        yield Row(f"{name}: {kind}", share, "share", bar, share >= LOWEST, note, held)


def _empty(runs: int) -> Iterator[Row]:
    """Streams without any reading: nothing may be answered of them."""
    for name, family in FAMILIES.items():
        rng = np.random.default_rng(0)
        domain, rows = SHAPES["uniform"](family.attributes, 0, rng)
        told, given = exact(family.spec(domain), rows), 0
        for _ in range(4 * runs):
            try:
                family.fit(noisy(told, 30, rng)).mean(domain.names[0])
            except TooFewReadings:
                continue
            given += 1
        yield at_most(f"{name}: no readings at all, answered", given / (4 * runs), "share", 0.01)


def _reports(runs: int) -> Iterator[Row]:
    """Predicted distances of samples: none out of its range."""
    family, odd, given = FAMILIES["pairwise"], 0, 0
    for shape in SHAPES:
        rng = np.random.default_rng(list(shape.encode()))
        domain, rows = SHAPES[shape](family.attributes, READINGS * 40, rng)
        told = exact(family.spec(domain), rows)
        for _ in range(runs):
            try:
                found = fidelity([noisy(told, 40, rng)], 10_000)
            except TooFewReadings:
                continue
            given += 1
            odd += not in_range(found)
    note = f"{given} of {runs * len(SHAPES)} are given"
    yield at_most("reports with a figure out of its range", odd, "reports", 0, note)


def in_range(found: Fidelity) -> bool:
    """True if every figure is a possible distance."""
    finite = bool(np.isfinite([*found.marginals.values()]).all())
    pairs = all(0 <= each <= 1 for each in found.pairs.values())
    return finite and pairs and 0 <= found.correlation <= 2
