"""`query`: one question to the fleet's generator, answered with its standard error."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10

from collector.failure import wrong
from collector.model import Model
from collector.selection import iso
from pansketch import Attribute, Domain, Partition

SHOWN_DIGITS = 2  # of a standard error; the value is shown to the same decimal


@dataclass(frozen=True)
class Answer:
    """A value with its standard error, both in `unit`; `share` for counts: part of all readings."""

    value: float
    standard_error: float
    unit: str
    share: float | None = None


def quantile(partition: Partition, words: Sequence[str]) -> Answer:
    """`ATTRIBUTE Q`: the value that a share Q of the readings does not exceed."""
    attribute = _number_attribute(partition.domain, words[0])
    q = _number(words[1])
    if not 0 <= q <= 1:
        raise wrong(f"a quantile lies between 0 and 1, as in `quantile {words[0]} 0.5`")
    estimate = partition.quantile(attribute.name, q)
    return Answer(estimate.value, estimate.standard_error, attribute.unit)


def mean(partition: Partition, words: Sequence[str]) -> Answer:
    """`ATTRIBUTE`: its mean."""
    attribute = _number_attribute(partition.domain, words[0])
    estimate = partition.mean(attribute.name)
    return Answer(estimate.value, estimate.standard_error, attribute.unit)


def cdf(partition: Partition, words: Sequence[str]) -> Answer:
    """`ATTRIBUTE X`: the share of readings that are at most X."""
    attribute = _number_attribute(partition.domain, words[0])
    estimate = partition.cdf(attribute.name, _number(words[1]))
    return Answer(estimate.value, estimate.standard_error, "of the readings")


def count_range(partition: Partition, words: Sequence[str]) -> Answer:
    """`ATTRIBUTE LOW HIGH ...` or `ATTRIBUTE CATEGORY ...`: readings with all of that."""
    wanted: dict[str, tuple[float, float] | str] = {}
    rest = list(words)
    while rest:
        attribute = _attribute(partition.domain, rest.pop(0))
        if attribute.name in wanted:
            raise wrong(f"{attribute.name} is given twice in the range")
        wanted[attribute.name] = _limits(attribute, rest)
    estimate, share = partition.count(wanted), partition.share(wanted)
    return Answer(estimate.value, estimate.standard_error, "readings", share.value)


@dataclass(frozen=True)
class Question:
    """What can be asked: `words` as a person writes them, `count` of them (None: two or more)."""

    ask: Callable[[Partition, Sequence[str]], Answer]
    words: str
    count: int | None


QUESTIONS = {
    "quantile": Question(quantile, "ATTRIBUTE Q", 2),
    "mean": Question(mean, "ATTRIBUTE", 1),
    "cdf": Question(cdf, "ATTRIBUTE X", 2),
    "range": Question(count_range, "ATTRIBUTE LOW HIGH [ATTRIBUTE LOW HIGH ...]", None),
}


def check_words(name: str, words: Sequence[str]) -> None:
    """Raises CommandError for too few or too many words, before anything is read or grown."""
    question = QUESTIONS[name]
    fits = len(words) >= 2 if question.count is None else len(words) == question.count
    if not fits:
        raise wrong(f"write: query --stream STREAM {name} {question.words}")


def answer(model: Model, name: str, words: Sequence[str]) -> Answer:
    """Asks the model. Raises CommandError for an attribute or category it cannot have."""
    try:
        return QUESTIONS[name].ask(model.partition, words)
    except ValueError as error:
        raise wrong(str(error)) from error


def as_line(answer: Answer, model: Model) -> str:
    """`12.31 degC ± 0.12 (standard error), 600 releases of 12 devices, epsilon 1 per ...`"""
    digits = _decimals(answer.standard_error)
    unit = f" {answer.unit}" if answer.unit else ""
    share = "" if answer.share is None else f", {100 * answer.share:.3g} % of the readings"
    return (
        f"{_shown(answer.value, digits)}{unit} ± {_shown(answer.standard_error, digits)}"
        f" (standard error){share}, {source(model)}"
    )


def source(model: Model) -> str:
    """What an answer rests on, and what was promised to every unit in it."""
    releases, devices = len(model.windows), len(model.devices)
    promise = model.guarantee
    return (
        f"{releases} release{'s' * (releases != 1)} of {devices} device{'s' * (devices != 1)}, "
        f"epsilon {promise.epsilon:g} per {promise.unit} ({promise.intrusion})"
    )


def as_json(answer: Answer, model: Model) -> str:
    """One object on one line; `windows` tells the first start and the last end."""
    start, end = model.span
    found: dict[str, object] = {
        "value": answer.value,
        "standard_error": answer.standard_error,
        "unit": answer.unit,
        "releases": len(model.windows),
        "devices": len(model.devices),
        "windows": {"from": iso(start), "to": iso(end)},
        "guarantee": str(model.guarantee),
    }
    if answer.share is not None:
        found["share"] = answer.share
    # NaN is no JSON: an unknown error is null.
    clean = {k: v if not isinstance(v, float) or isfinite(v) else None for k, v in found.items()}
    return json.dumps(clean, ensure_ascii=False)


def _attribute(domain: Domain, name: str) -> Attribute:
    if name not in domain.names:
        raise wrong(f"unknown attribute {name!r}; the stream has {', '.join(domain.names)}")
    return domain.attributes[domain.names.index(name)]


def _number_attribute(domain: Domain, name: str) -> Attribute:
    attribute = _attribute(domain, name)
    if attribute.categories is not None:
        raise wrong(f"{name} has categories: ask `range {name} {attribute.categories[0]}`")
    return attribute


def _limits(attribute: Attribute, rest: list[str]) -> tuple[float, float] | str:
    """Takes the words that belong to one attribute off the front of `rest`."""
    if attribute.categories is not None:
        if not rest:
            raise wrong(f"range {attribute.name}: name one of {', '.join(attribute.categories)}")
        return rest.pop(0)
    if len(rest) < 2:
        raise wrong(f"range {attribute.name}: give LOW and HIGH")
    low, high = _number(rest.pop(0)), _number(rest.pop(0))
    if low > high:
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


def _decimals(error: float) -> int | None:
    if not isfinite(error) or error <= 0:
        return None
    return min(max(0, SHOWN_DIGITS - 1 - floor(log10(error))), 12)


def _shown(number: float, decimals: int | None) -> str:
    return f"{number:.6g}" if decimals is None else f"{number:.{decimals}f}"
