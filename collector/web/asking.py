"""From a request's parameters to what the command line asks: one place answers for both."""

from collections.abc import Callable, Iterator
from typing import Any

from collector.answers import as_object, basis
from collector.failure import wrong
from collector.generators import Choice
from collector.model import Model
from collector.query import answer, attribute_of
from collector.reader import Selection
from collector.selection import select
from collector.web.histogram import histogram
from collector.web.parameters import Asking, Modelling, Selecting
from fleet.config import Config
from fleet.settings import Stream
from pansketch import Domain

# What each question may be given, and, of these, what it must be.
GIVEN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "quantile": (("attribute", "q"), ("attribute", "q")),
    "mean": (("attribute",), ("attribute",)),
    "cdf": (("attribute", "x"), ("attribute", "x")),
    "range": (("attribute", "low", "high", "category"), ("attribute",)),
    "count": (("where",), ("where",)),
    "covariance": (("attribute",), ()),
    "histogram": (("attribute", "bins"), ("attribute",)),
    "density": (("attribute", "bins"), ("attribute",)),
    "distinct": (("by", "keys"), ()),
}
BINS = {"histogram": (1, 32), "density": (2, 12)}  # attributes, and bins of each unless told
MOST_DENSITY_BINS = 16
PARTICULAR = sorted({name for may, _ in GIVEN.values() for name in may})


def selection_of(config: Config, stream: str, asked: Selecting) -> Selection:
    """Raises CommandError for times that are none, and an empty list of devices."""
    return select(config, stream, asked.since, asked.to, asked.devices)


def choice_of(asked: Modelling) -> Choice:
    return Choice(asked.generator, asked.cells, asked.points)


def check_given(asked: Asking) -> None:
    """Raises CommandError for a parameter that is missing, or means nothing to this question."""
    may, must = GIVEN[asked.question]
    given = {name for name in PARTICULAR if getattr(asked, name) not in (None, [])}
    for name in must:
        if name not in given:
            raise wrong(f"{asked.question} needs {name}: add it")
    for name in sorted(given.difference(may)):
        raise wrong(f"{name} is not for the question {asked.question}: leave it out")
    attributes = BINS.get(asked.question, (1, 0))[0]
    several = asked.question in ("range", "covariance") or not must or "attribute" not in must
    if not several and len(asked.attribute) != attributes:
        raise wrong(
            f"{asked.question} is of {attributes} attribute{'s' * (attributes > 1)}, "
            f"and {len(asked.attribute)} are given"
        )


def question_of(stream: Stream, asked: Asking) -> Callable[[Model], dict[str, Any]]:
    """What answers it from a model. Raises CommandError, as the answer does."""
    if asked.question in BINS:
        bins = asked.bins or BINS[asked.question][1]
        if asked.question == "density" and bins > MOST_DENSITY_BINS:
            raise wrong(f"a density has at most {MOST_DENSITY_BINS} bins of each attribute")
        return lambda model: histogram(model, asked.attribute, bins) | basis(model)
    assert stream.domain is not None
    words = list(_words(stream.domain, asked))
    return lambda model: as_object(answer(model, asked.question, words), model)


def _words(domain: Domain, asked: Asking) -> Iterator[str]:
    """The question as the command line has it."""
    if asked.question == "range":
        yield from _limits(domain, asked)
        return
    yield from asked.attribute
    for number in (asked.q, asked.x):
        if number is not None:
            yield repr(number)
    if asked.where is not None:
        yield asked.where


def _limits(domain: Domain, asked: Asking) -> Iterator[str]:
    limits = iter(zip(asked.low, asked.high, strict=False))
    categories = iter(asked.category)
    for name in asked.attribute:
        yield name
        if attribute_of(domain, name).categories is not None:
            yield _next(categories, f"range: a category is missing for {name}: add category")
        else:
            yield from map(
                repr, _next(limits, f"range: limits are missing for {name}: add low and high")
            )
    unused = next(categories, None) is not None or next(limits, None) is not None
    if unused or len(asked.low) != len(asked.high):
        raise wrong("range: give one low and one high for each number, one category for the others")


def _next(given: Iterator[Any], otherwise: str) -> Any:
    found = next(given, None)
    if found is None:
        raise wrong(otherwise)
    return found
