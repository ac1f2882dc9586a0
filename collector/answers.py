"""Answers as lines for people and as JSON for programs, with what they rest on."""

import json
from dataclasses import dataclass
from math import floor, isfinite, log10

import numpy as np

from collector.model import Model
from collector.selection import iso
from pansketch import Estimates

SHOWN_DIGITS = 2  # of a standard error; the value is shown to the same decimal


@dataclass(frozen=True)
class Answer:
    """A value with its standard error, both in `unit`; `share` for counts: part of all readings."""

    value: float
    standard_error: float
    unit: str
    share: float | None = None


@dataclass(frozen=True)
class Matrix:
    """A value with its standard error for each pair of attributes, in the product of their
    units."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    estimates: Estimates


def as_line(answer: Answer | Matrix, model: Model) -> str:
    """`12.31 degC ± 0.12 (standard error), 600 releases of 12 devices, epsilon 1 per ...`; a table
    and a line for a matrix."""
    if isinstance(answer, Matrix):
        return f"{_table(answer)}\n{source(model)}"
    digits = decimals_of(answer.standard_error)
    unit = f" {answer.unit}" if answer.unit else ""
    share = "" if answer.share is None else f", {100 * answer.share:.3g} % of the readings"
    return (
        f"{shown(answer.value, digits)}{unit} ± {shown(answer.standard_error, digits)}"
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


def as_json(answer: Answer | Matrix, model: Model) -> str:
    """`as_object` on one line."""
    return json.dumps(as_object(answer, model), ensure_ascii=False)


def as_object(answer: Answer | Matrix, model: Model) -> dict[str, object]:
    """The figures, and what they rest on; what is not known is None."""
    return (_matrix(answer) if isinstance(answer, Matrix) else _number(answer)) | basis(model)


def basis(model: Model) -> dict[str, object]:
    """What figures rest on; `windows` tells the first start and the last end."""
    start, end = model.span
    return {
        "generator": model.generator,
        "releases": len(model.windows),
        "devices": len(model.devices),
        "windows": {"from": iso(start), "to": iso(end)},
        "guarantee": str(model.guarantee),
    }


def decimals_of(error: float) -> int | None:
    """Decimals that show SHOWN_DIGITS digits of a standard error; None when it is none."""
    if not isfinite(error) or error <= 0:
        return None
    return min(max(0, SHOWN_DIGITS - 1 - floor(log10(error))), 12)


def shown(number: float, decimals: int | None) -> str:
    """A number to as many decimals; None: to six digits."""
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
    rows.insert(0, ["covariance", *labels])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([first.ljust(widths[0]), *map(str.rjust, rest, widths[1:])])
        for first, *rest in rows
    )


def _pair(value: float, error: float) -> str:
    digits = decimals_of(error)
    return f"{shown(value, digits)} ± {shown(error, digits)}"


def _number(answer: Answer) -> dict[str, object]:
    found: dict[str, object] = {
        "value": known(answer.value),
        "standard_error": known(answer.standard_error),
        "unit": answer.unit,
    }
    return found if answer.share is None else found | {"share": known(answer.share)}


def _matrix(answer: Matrix) -> dict[str, object]:
    arrays = {
        "value": answer.estimates.value,
        "standard_error": answer.estimates.standard_error,
    }
    return {
        "attributes": list(answer.names),
        "units": list(answer.units),
        **{
            name: [[known(x) for x in line] for line in np.asarray(array).tolist()]
            for name, array in arrays.items()
        },
    }


def known(number: float) -> float | None:
    """NaN is no JSON: what is not known is null."""
    return number if isfinite(number) else None
