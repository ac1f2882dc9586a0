"""`query`: answers one question with the fleet's model, with its standard error."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf, isfinite

from pansketch import Attribute, Domain
from pansketch.domain import MISSING
from pansketch.generators import FittedModel, parse_predicate
from pansketch_collector.errors import CommandError, wrong
from pansketch_collector.queries.answers import Answer, Matrix
from pansketch_collector.queries.fleet_model import Model


def quantile(fitted: FittedModel, words: Sequence[str]) -> Answer:
    """`ATTRIBUTE Q`: the value that a share Q of the readings does not exceed."""
    attribute = _number_attribute(fitted.domain, words[0])
    q = _share(words)
    estimate = fitted.quantile(attribute.name, q)
    missing = _missing(fitted, attribute)
    return Answer(estimate.value, estimate.standard_error, attribute.unit, missing=missing)


def mean(fitted: FittedModel, words: Sequence[str]) -> Answer:
    """`ATTRIBUTE`: its mean."""
    attribute = _number_attribute(fitted.domain, words[0])
    estimate = fitted.mean(attribute.name)
    missing = _missing(fitted, attribute)
    return Answer(estimate.value, estimate.standard_error, attribute.unit, missing=missing)


def cdf(fitted: FittedModel, words: Sequence[str]) -> Answer:
    """`ATTRIBUTE X`: the share of readings that are at most X, of those with a value."""
    attribute = _number_attribute(fitted.domain, words[0])
    estimate = fitted.cdf(attribute.name, _number(words[1]))
    missing = _missing(fitted, attribute)
    described = "of the readings" if missing is None else "of the readings with a value"
    return Answer(estimate.value, estimate.standard_error, described, missing=missing)


def covariance(fitted: FittedModel, words: Sequence[str]) -> Matrix:
    """`[ATTRIBUTE ...]`: the covariances of these attributes, by default of all numbers."""
    attributes = _several(fitted.domain, words)
    names = tuple(attribute.name for attribute in attributes)
    units = tuple(attribute.unit for attribute in attributes)
    missing = tuple(_missing(fitted, attribute) for attribute in attributes)
    return Matrix(names, units, fitted.covariance(names), missing)


def count(fitted: FittedModel, words: Sequence[str]) -> Answer:
    """`"ATTRIBUTE > X & ATTRIBUTE = CATEGORY"`: the readings that meet all conditions."""
    condition = " ".join(words)
    estimate, share = fitted.count(condition), fitted.share(condition)
    return Answer(estimate.value, estimate.standard_error, "readings", share.value)


def count_range(fitted: FittedModel, words: Sequence[str]) -> Answer:
    """`ATTRIBUTE LOW HIGH ...` or `ATTRIBUTE CATEGORY ...`: the readings in all ranges."""
    wanted = _ranges(fitted.domain, words)
    estimate, share = fitted.count(wanted), fitted.share(wanted)
    return Answer(estimate.value, estimate.standard_error, "readings", share.value)


@dataclass(frozen=True)
class Question:
    """A kind of question. `words`: its syntax, from `min_words` to `max_words` words (None: any
    number)."""

    ask: Callable[[FittedModel, Sequence[str]], Answer | Matrix]
    words: str
    min_words: int
    max_words: int | None


QUESTIONS = {
    "quantile": Question(quantile, "ATTRIBUTE Q", 2, 2),
    "mean": Question(mean, "ATTRIBUTE", 1, 1),
    "cdf": Question(cdf, "ATTRIBUTE X", 2, 2),
    "range": Question(count_range, "ATTRIBUTE LOW HIGH [ATTRIBUTE LOW HIGH ...]", 2, None),
    "count": Question(count, '"ATTRIBUTE > X & ATTRIBUTE = CATEGORY"', 1, None),
    "covariance": Question(covariance, "[ATTRIBUTE ...]", 0, None),
}
# The help text of the command line.
HELP = """questions:
  quantile ATTRIBUTE Q    the value that a share Q (0 to 1) of the readings does not exceed
  mean ATTRIBUTE          the mean
  cdf ATTRIBUTE X         the share of readings that are at most X
  range ATTRIBUTE LOW HIGH [ATTRIBUTE LOW HIGH ...]
                          how many readings lie in all of these ranges, and which share;
                          for an attribute with categories: range ATTRIBUTE CATEGORY
  count "ATTRIBUTE > X & ATTRIBUTE = CATEGORY"
                          how many readings meet all conditions (<, <=, >, >=, =), and which share
  covariance [ATTRIBUTE ...]
                          the covariances of these attributes, or of all that are numbers
  distinct                of a stream with a key: how many distinct keys each window had. The keys
                          of different windows cannot be matched, so there is no total over them
  change [ATTRIBUTE ...] --between A B
                          how far the means of two periods differ, and whether beyond noise; of two
                          groups of devices: --devices A,B --against C,D instead of --between
  drift [ATTRIBUTE ...] --between A B
                          which attributes are distributed otherwise in two periods, beyond noise
                          (types views and hierarchy)
A period is FROM..TO, a date, which is that day, or a moment, which is the window around it.
A sketch of type moments answers mean, cdf, count, covariance and change.

"""


def check_words(name: str, words: Sequence[str]) -> None:
    """Raises CommandError for too few or too many words, before the database is read."""
    question = QUESTIONS[name]
    if len(words) < question.min_words or (
        question.max_words is not None and len(words) > question.max_words
    ):
        raise wrong(f"write: query --stream STREAM {name} {question.words}")


def answer(model: Model, name: str, words: Sequence[str]) -> Answer | Matrix:
    """Answers a question from the model.

    Raises CommandError for an unknown attribute or category and an invalid condition, NotYet if
    noise outweighs the readings.
    """
    try:
        with model.refusing():
            return QUESTIONS[name].ask(model.fitted, words)
    except ValueError as error:
        raise wrong(str(error)) from error


def check(domain: Domain, name: str, words: Sequence[str]) -> None:
    """Raises CommandError for words that no readings could answer, as `answer` does."""
    if name == "count":
        is_of_one(domain, name, words)
    elif name == "range":
        _ranges(domain, words)
    elif name == "covariance":
        _several(domain, words)
    else:
        _number_attribute(domain, words[0])
    if name == "quantile":
        _share(words)
    if name == "cdf":
        _number(words[1])


@contextmanager
def wrong_words_first(domain: Domain, name: str, words: Sequence[str]) -> Iterator[None]:
    """The context for an answer. Without one, wrong words are its error, and not what is missing:
    it would take a user days to read of them."""
    try:
        yield
    except CommandError as error:
        if error.code == 1:
            check(domain, name, words)
        raise


def bounds_of(domain: Domain, name: str, words: Sequence[str]) -> tuple[float, float]:
    """The range of an answer that is one number, in its unit."""
    if name in ("mean", "quantile"):
        attribute = attribute_of(domain, words[0])
        return attribute.origin, attribute.highest
    return (0.0, 1.0) if name == "cdf" else (0.0, inf)


def is_of_one(domain: Domain, name: str, words: Sequence[str]) -> bool:
    """True if the question is of one attribute. Raises CommandError, as `answer` does."""
    if name == "count":
        try:
            positions = parse_predicate(" ".join(words), domain).positions
        except ValueError as error:
            raise wrong(str(error)) from error
        names = {domain.names[position] for position in positions}
    else:
        names = {attribute_of(domain, words[0]).name}
        names |= {word for word in words if word in domain.names}
    return len(names) == 1


def attribute_of(domain: Domain, name: str) -> Attribute:
    """The attribute of this name. Raises CommandError, with the names of the others."""
    if name not in domain.names:
        raise wrong(f"unknown attribute {name!r}; the stream has {', '.join(domain.names)}")
    return domain.attributes[domain.names.index(name)]


def _number_attribute(domain: Domain, name: str) -> Attribute:
    attribute = attribute_of(domain, name)
    if attribute.categories is not None:
        raise wrong(f"{name} has categories: ask `count '{name} = {attribute.categories[0]}'`")
    return attribute


def _share(words: Sequence[str]) -> float:
    q = _number(words[1])
    if not 0 <= q <= 1:
        raise wrong(f"a quantile lies between 0 and 1, as in `quantile {words[0]} 0.5`")
    return q


def _several(domain: Domain, words: Sequence[str]) -> list[Attribute]:
    """The numbers of a covariance."""
    if not domain.numbers:
        raise wrong("all attributes have categories or are cyclic, and these have no covariance")
    attributes = [_number_attribute(domain, name) for name in words or domain.numbers]
    names = [attribute.name for attribute in attributes]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise wrong(f"{name} is given twice: name each attribute once")
    return attributes


def _ranges(domain: Domain, words: Sequence[str]) -> dict[str, tuple[float, float] | str]:
    wanted: dict[str, tuple[float, float] | str] = {}
    rest = list(words)
    while rest:
        attribute = attribute_of(domain, rest.pop(0))
        if attribute.name in wanted:
            raise wrong(f"{attribute.name} is given twice in the range")
        wanted[attribute.name] = _limits(attribute, rest)
    return wanted


def _missing(fitted: FittedModel, attribute: Attribute) -> float | None:
    """The share of the readings that lack the attribute; None if none can."""
    return fitted.share({attribute.name: MISSING}).value if attribute.can_miss else None


def _limits(attribute: Attribute, rest: list[str]) -> tuple[float, float] | str:
    """Removes the words of one attribute from the front of `rest`, and returns their limits."""
    if attribute.categories is not None:
        if not rest:
            raise wrong(f"range {attribute.name}: name one of {', '.join(attribute.categories)}")
        return rest.pop(0)
    if rest[:1] == [MISSING] and attribute.can_miss:
        return rest.pop(0)
    if len(rest) < 2:
        raise wrong(f"range {attribute.name}: give LOW and HIGH")
    low, high = _number(rest.pop(0)), _number(rest.pop(0))
    if low > high and not attribute.cyclic:
        raise wrong(f"range {attribute.name}: LOW must not exceed HIGH")
    return low, high


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise wrong(f"{text!r} is not a number")
    return number
