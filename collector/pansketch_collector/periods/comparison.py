"""`query change` and `query drift`: two periods of a stream, or two groups of its devices.

Both decide with one level for all attributes together (Holm). Some attributes may have unchanged
readings. The probability to report a difference of any of them is at most LEVEL.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, hypot, isfinite, sqrt

from pansketch import Attribute, Domain, Estimate
from pansketch.generators import TooFewReadings, holm, margin_drift
from pansketch_collector.errors import wrong
from pansketch_collector.periods.series_report import estimate_object, with_error
from pansketch_collector.queries import answers, questions
from pansketch_collector.queries.fleet_model import Merged, Model, NotYet, merged, model_of, not_yet
from pansketch_collector.queries.generator_registry import CHANGE, GeneratorChoice
from pansketch_collector.queries.selection import check_devices
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.config.loader import Config
from pansketch_fleet.settings.settings import ReadingStream
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import utc_text

LEVEL = 0.01
CLASSES = (0.001, 0.01, 0.05)  # of p-values, as a person reads them
OF_CATEGORIES = "of the readings"


@dataclass(frozen=True)
class AttributeChange:
    """One attribute in two periods, or groups of devices. `first`, `second`: its means, for
    `change`.

    `size`: their difference, or how far the distribution moved; `p_value`: of no change.
    `from_noise`: of `drift`, the average size by noise alone. `refusal` holds the reason of a
    missing result.
    """

    attribute: str
    unit: str
    size: Estimate | None = None
    p_value: float | None = None
    first: Estimate | None = None
    second: Estimate | None = None
    from_noise: float | None = None
    refusal: str = ""


@dataclass(frozen=True)
class PeriodComparison:
    """All attributes, the names of those that differ beyond noise, and the releases of the two
    periods or groups."""

    question: str
    differences: tuple[AttributeChange, ...]
    beyond: frozenset[str]
    periods: tuple[Merged, Merged]


def compare(
    reader: Reader,
    config: Config,
    periods: tuple[Selection, Selection],
    choice: GeneratorChoice,
    question: str,
    names: Sequence[str] = (),
) -> PeriodComparison:
    """Compare two selections of a stream that share no release, by default in all attributes.

    Raises CommandError: for an unknown attribute, one that has no mean, one without releases, and
    one whose readings noise outweighs for all attributes.
    """
    stream = next(s for s in config.streams if s.name == periods[0].stream)
    assert isinstance(stream, ReadingStream), "check_answers refuses streams of keys"
    wanted = _attributes(stream.domain, question, names)
    for each in periods:
        check_devices(reader, each)
    epochs = reader.epochs(stream.name)
    first, second = (merged(reader, config, each, choice, epochs) for each in periods)
    found, refusals = [], []
    models = [model_of(each, choice) for each in (first, second) if question == CHANGE]
    for attribute in wanted:
        try:
            if question == CHANGE:
                found.append(_change(attribute, models))
            else:
                found.append(_drift(attribute, first, second))
        except NotYet as refusal:
            refusals.append(refusal)
            found.append(AttributeChange(attribute.name, attribute.unit, refusal=str(refusal)))
    if len(refusals) == len(found):
        raise refusals[0]
    p_values = {each.attribute: each.p_value for each in found if each.p_value is not None}
    return PeriodComparison(question, tuple(found), holm(p_values, LEVEL), (first, second))


def _attributes(domain: Domain, question: str, names: Sequence[str]) -> list[Attribute]:
    free = [each for each in domain.attributes if each.constant is None]
    if question == CHANGE:
        free = [each for each in free if each.categories is None]
    if not names:
        if not free:
            raise wrong(f"no attribute of the stream can be asked for its {question}")
        return free
    found = [questions.attribute_of(domain, name) for name in dict.fromkeys(names)]
    for each in found:
        if each not in free:
            kind = "is constant" if each.constant is not None else "has categories and no mean"
            raise wrong(f"{each.name} {kind}: leave it out")
    return found


def _change(attribute: Attribute, models: Sequence[Model]) -> AttributeChange:
    means = []
    for model in models:
        answer = questions.answer(model, "mean", [attribute.name])
        assert isinstance(answer, answers.Answer), "a mean is one number"
        means.append(Estimate(answer.value, answer.standard_error))
    one, other = means
    apart = other.value - one.value
    if attribute.cyclic:
        half = attribute.extent / 2
        apart = (apart + half) % attribute.extent - half
    size = Estimate(apart, hypot(one.standard_error, other.standard_error))
    p_value = erfc(abs(size.value) / size.standard_error / sqrt(2)) if size.standard_error else None
    return AttributeChange(attribute.name, attribute.unit, size, p_value, one, other)


def _drift(attribute: Attribute, first: Merged, second: Merged) -> AttributeChange:
    unit = attribute.unit if attribute.categories is None else OF_CATEGORIES
    devices = min(first.devices, second.devices)
    try:
        found = margin_drift(first.releases, second.releases, attribute.name)
    except TooFewReadings as error:
        raise not_yet(error, devices, first.expected_readings) from error
    except ValueError as error:
        return AttributeChange(attribute.name, unit, refusal=str(error))
    size = Estimate(found.distance, found.standard_error)
    return AttributeChange(attribute.name, unit, size, found.p_value, from_noise=found.from_noise)


def as_table(found: PeriodComparison) -> str:
    """An aligned table, the rule of decision, and the releases of each period."""
    change = found.question == CHANGE
    header = ["attribute", *(["first", "second"] if change else []), "change", "unit", "p", ""]
    rows = [
        [
            each.attribute,
            *([with_error(each.first), with_error(each.second)] if change else []),
            with_error(each.size),
            each.unit,
            p_class(each.p_value),
            _verdict(found, each),
        ]
        for each in found.differences
    ]
    told = {"first", "second", "change", "p"}
    refused = [f"note: {e.attribute}: {e.refusal}" for e in found.differences if e.refusal]
    return "\n".join(
        [*aligned(header, rows, told), *refused, _rule(found), *_rests_on(found.periods)]
    )


def _verdict(found: PeriodComparison, each: AttributeChange) -> str:
    if each.refusal:
        return "not known"
    return "changed" if each.attribute in found.beyond else "within noise"


def p_class(p_value: float | None) -> str:
    """`< 0.001`, `< 0.01`, `< 0.05` or `0.05 or more`."""
    if p_value is None or not isfinite(p_value):
        return "-"
    return next((f"< {each:g}" for each in CLASSES if p_value < each), f"{CLASSES[-1]:g} or more")


def _rule(found: PeriodComparison) -> str:
    of = "two-sided, " if found.question == CHANGE else ""
    return (
        f"changed: beyond noise at a level of {LEVEL:g} for all attributes together "
        f"({of}Holm's correction)"
    )


def _rests_on(periods: Sequence[Merged]) -> list[str]:
    lines = []
    for name, period in zip(("first", "second"), periods, strict=True):
        start, end = period.span
        lines.append(f"{name}: {utc_text(start)} to {utc_text(end)}, {answers.source(period)}")
    return lines


def as_json(found: PeriodComparison) -> str:
    """`as_object` on one line."""
    return json.dumps(as_object(found), ensure_ascii=False)


def as_object(found: PeriodComparison) -> dict[str, object]:
    """All attributes and what the periods rest on; what is not known is None."""
    return {
        "level": LEVEL,
        "correction": "Holm",
        "attributes": [_object(found, each) for each in found.differences],
        "periods": [answers.basis(period) for period in found.periods],
    }


def _object(found: PeriodComparison, each: AttributeChange) -> dict[str, object]:
    means = {"first": estimate_object(each.first), "second": estimate_object(each.second)}
    noise = {"from_noise": _known(each.from_noise)}
    return {
        "attribute": each.attribute,
        "unit": each.unit,
        "change": estimate_object(each.size),
        **(means if found.question == CHANGE else noise),
        "p_value": _known(each.p_value),
        "beyond_noise": None if each.refusal else each.attribute in found.beyond,
        **({"refused": each.refusal} if each.refusal else {}),
    }


def _known(number: float | None) -> float | None:
    return None if number is None else answers.known(number)
