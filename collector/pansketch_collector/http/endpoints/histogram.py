"""Histograms of one attribute and densities of two: shares of bins, each with its error."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pansketch import Attribute
from pansketch.domain import MISSING
from pansketch.generators import FittedModel
from pansketch_collector.errors import wrong
from pansketch_collector.queries.answers import known
from pansketch_collector.queries.fleet_model import Model
from pansketch_collector.queries.questions import attribute_of

IN_CONDITIONS = "&<>="  # operators of conditions: a category must not contain one


def histogram(model: Model, names: list[str], bins: int) -> dict[str, object]:
    """Shares of the bins of one attribute, or of two: [bins of the first][of the second].

    Bins have equal widths in the attribute's scale, or are its categories. Raises CommandError for
    an unknown attribute, or one without bins.
    """
    axes = [_attribute(model.fitted, name) for name in names]
    if len(axes) == 2 and axes[0] == axes[1]:
        raise wrong(f"{names[0]} is given twice: a density has two attributes")
    conditions = [_conditions(attribute, bins) for attribute in axes]
    fitted = model.fitted
    try:
        with model.refusing():
            found = fitted.bin_shares(conditions)
    except ValueError as error:
        raise wrong(str(error)) from error
    return {
        "axes": [_axis(fitted, attribute, bins) for attribute in axes],
        "share": _nested(found.value),
        "standard_error": _nested(found.standard_error),
    }


def _attribute(fitted: FittedModel, name: str) -> Attribute:
    attribute = attribute_of(fitted.domain, name)
    if attribute.constant is not None:
        raise wrong(f"{name} is constant, and has no bins")
    for category in attribute.categories or ():
        if set(category) & set(IN_CONDITIONS):
            raise wrong(f"the category {category!r} of {name} holds one of {IN_CONDITIONS}")
    return attribute


def _edges(attribute: Attribute, bins: int) -> list[float]:
    values = replace(attribute, atoms=())
    return list(map(float, values.from_unit(np.linspace(0.0, 1.0, bins + 1))))


def _conditions(attribute: Attribute, bins: int) -> list[str]:
    """A condition for each bin. The last bin includes the highest value."""
    name = attribute.name
    if attribute.categories is not None:
        return [f"{name} = {category}" for category in _names(attribute)]
    edges = _edges(attribute, bins)
    inner = [f"{name} < {edge!r}" for edge in edges[1:-1]] + [f"{name} <= {edges[-1]!r}"]
    return [f"{name} >= {low!r} & {end}" for low, end in zip(edges[:-1], inner, strict=True)]


def _names(attribute: Attribute) -> list[str]:
    """The categories, and `missing` if it is an atom."""
    return [*(attribute.categories or ()), *([MISSING] if attribute.can_miss else [])]


def _axis(fitted: FittedModel, attribute: Attribute, bins: int) -> dict[str, object]:
    """The bins of an attribute, and the share at each of its atoms.

    A bin includes the readings of an atom inside it.
    """
    found: dict[str, object] = {"attribute": attribute.name, "unit": attribute.unit}
    if attribute.categories is not None:
        return found | {"categories": _names(attribute)}
    atoms = [
        {
            "value": atom,
            "share": known(estimate.value),
            "standard_error": known(estimate.standard_error),
        }
        for atom in attribute.atoms
        for estimate in [fitted.share(f"{attribute.name} = {atom}")]
    ]
    edges = {"edges": _edges(attribute, bins)}
    return found | edges | ({"atoms": atoms} if atoms else {})


def _nested(values: npt.NDArray[np.float64]) -> list[object]:
    if values.ndim == 1:
        return [known(value) for value in values.tolist()]
    return [_nested(row) for row in values]
