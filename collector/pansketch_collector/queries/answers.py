"""Answers as lines and as JSON, with their basis."""

import json
from dataclasses import dataclass
from math import floor, isfinite, log10

import numpy as np

from pansketch import Guarantee
from pansketch.generators import Estimates
from pansketch_collector.queries.basis import Basis, EpochShare, omissions_object
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import utc_text

SHOWN_DIGITS = 2  # of a standard error; the value is shown to the same decimal


@dataclass(frozen=True)
class Answer:
    """A value with its standard error, both in `unit`.

    `share`: for counts, of all readings. `missing`: the share of readings without a value, if the
    attribute can be missing.
    """

    value: float
    standard_error: float
    unit: str
    share: float | None = None
    missing: float | None = None


@dataclass(frozen=True)
class Matrix:
    """A value with its standard error for each pair of attributes, in the product of their units.

    `missing`: of each attribute, see `Answer`.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    estimates: Estimates
    missing: tuple[float | None, ...] = ()


def as_line(answer: Answer | Matrix, model: Basis) -> str:
    """`12.31 degC ± 0.12 (standard error), 600 releases of 12 devices, epsilon 1 per ...`

    A matrix is a table and a line.
    """
    if isinstance(answer, Matrix):
        return f"{_table(answer)}\n{source(model)}"
    digits = decimals_of(answer.standard_error)
    unit = f" {answer.unit}" if answer.unit else ""
    share = "" if answer.share is None else f", {100 * answer.share:.3g} % of the readings"
    if answer.missing is not None:
        share += f", missing in {100 * answer.missing:.3g} % of the readings"
    return (
        f"{shown(answer.value, digits)}{unit} ± {shown(answer.standard_error, digits)}"
        f" (standard error){share}, {source(model)}"
    )


def source(model: Basis) -> str:
    """The basis of an answer, with the privacy guarantee of its releases."""
    releases, devices = model.windows, model.devices
    left = f", left_out: {model.left_out}" if model.left_out else ""
    return (
        f"{_groups(model)}{releases} release{'s' * (releases != 1)} of "
        f"{devices} device{'s' * (devices != 1)}, {_guarantees(model)}{_keepers(model)}{left}"
    )


def _keepers(model: Basis) -> str:
    return "" if model.answered is None else f", {model.answered}"


def breakdown(groups: int) -> int:
    """The maximum number of groups with arbitrary answers that leaves the median between the
    others."""
    return (groups - 1) // 2


def _groups(model: Basis) -> str:
    if not model.groups:
        return ""
    return (
        f"median of {model.groups} groups of devices (holds while hostile devices are in at most "
        f"{breakdown(model.groups)} of them), "
    )


def _guarantees(model: Basis) -> str:
    """The guarantee, of several epochs each one's with its number of releases.

    Also the epsilon spent in other streams of the source.
    """
    together = "" if model.shared is None else f", {model.shared}"
    if len(model.parts) < 2:
        return _guarantee(model.guarantee) + together
    each = (
        f"{part.releases} of settings {_since(part)}: {_guarantee(part.guarantee)}"
        for part in model.parts
    )
    return "; ".join(each) + together


def _guarantee(guarantee: Guarantee) -> str:
    how = "blinded" if guarantee.answer_micro else guarantee.intrusion
    return f"epsilon {guarantee.epsilon:g} per {guarantee.unit} ({how})"


def _since(part: EpochShare) -> str:
    return "not served yet" if part.since is None else f"served since {utc_text(part.since)}"


def as_json(answer: Answer | Matrix, model: Basis) -> str:
    """`as_object` on one line."""
    return json.dumps(as_object(answer, model), ensure_ascii=False)


def as_object(answer: Answer | Matrix, model: Basis) -> dict[str, object]:
    """The figures and their basis; unknown ones are None."""
    return (_matrix(answer) if isinstance(answer, Matrix) else _number(answer)) | basis(model)


def basis(model: Basis) -> dict[str, object]:
    """The basis of figures; `windows` has the first start and the last end."""
    start, end = model.span
    return {
        "generator": model.generator,
        **_robust(model),
        "releases": model.windows,
        "devices": model.devices,
        **_answered(model),
        "windows": {"from": utc_text(start), "to": utc_text(end)},
        "guarantee": str(model.guarantee),
        "shared": None if model.shared is None else model.shared.as_object(),
        "epochs": [
            {
                "releases": part.releases,
                "served_since": None if part.since is None else utc_text(part.since),
                "guarantee": str(part.guarantee),
            }
            for part in model.parts
        ],
        **omissions_object(model.left),
    }


def _robust(model: Basis) -> dict[str, object]:
    if not model.groups:
        return {}
    return {"robust": {"groups": model.groups, "breakdown": breakdown(model.groups)}}


def _answered(model: Basis) -> dict[str, object]:
    found = model.answered
    if found is None:
        return {}
    return {
        "answers": {
            "questions": found.questions,
            "keepers": found.keepers,
            "levels": list(found.levels),
            "excluded_windows": found.excluded,
            "sentence": str(found),
        }
    }


def decimals_of(error: float) -> int | None:
    """The decimals that show SHOWN_DIGITS digits of a standard error; None for an invalid one."""
    if not isfinite(error) or error <= 0:
        return None
    return min(max(0, SHOWN_DIGITS - 1 - floor(log10(error))), 12)


def shown(number: float, decimals: int | None) -> str:
    """A number with so many decimals; None: with six digits."""
    return f"{number:.6g}" if decimals is None else f"{number:.{decimals}f}"


def _table(matrix: Matrix) -> str:
    """Attributes with their units above and beside the estimates, in columns."""
    labels = [
        f"{name} ({unit})" if unit else name
        for name, unit in zip(matrix.names, matrix.units, strict=True)
    ]
    values, errors = matrix.estimates.value, matrix.estimates.standard_error
    rows = [
        [label, *map(_pair, line, error)]
        for label, line, error in zip(labels, values.tolist(), errors.tolist(), strict=True)
    ]
    return "\n".join(aligned(["covariance", *labels], rows, labels))


def _pair(value: float, error: float) -> str:
    digits = decimals_of(error)
    return f"{shown(value, digits)} ± {shown(error, digits)}"


def _number(answer: Answer) -> dict[str, object]:
    found: dict[str, object] = {
        "value": known(answer.value),
        "standard_error": known(answer.standard_error),
        "unit": answer.unit,
    }
    if answer.share is not None:
        found["share"] = known(answer.share)
    if answer.missing is not None:
        found["missing"] = known(answer.missing)
    return found


def _matrix(answer: Matrix) -> dict[str, object]:
    arrays = {
        "value": answer.estimates.value,
        "standard_error": answer.estimates.standard_error,
    }
    return {
        "attributes": list(answer.names),
        "units": list(answer.units),
        **_missing(answer),
        **{
            name: [[known(x) for x in line] for line in np.asarray(array).tolist()]
            for name, array in arrays.items()
        },
    }


def _missing(answer: Matrix) -> dict[str, object]:
    if all(share is None for share in answer.missing):
        return {}
    return {"missing": [None if share is None else known(share) for share in answer.missing]}


def known(number: float) -> float | None:
    """None for NaN, which JSON lacks."""
    return number if isfinite(number) else None
