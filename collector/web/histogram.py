"""Histograms of one attribute and densities of two: shares of bins, each with its error."""

from itertools import product

import numpy as np
import numpy.typing as npt

from collector.answers import known
from collector.failure import wrong
from collector.generators import Fitted, domain_of
from collector.model import Model
from collector.query import attribute_of
from pansketch import Attribute, Partition
from pansketch.generators.box_shares import overlap
from pansketch.generators.predicate import parse

IN_CONDITIONS = "&<>="  # have a meaning there, so a category that holds one cannot be asked for
Floats = npt.NDArray[np.float64]


def histogram(model: Model, names: list[str], bins: int) -> dict[str, object]:
    """Shares of the bins of one attribute, or of the bins of two: [bins of the first][of the
    second]. Bins are equally wide in the attribute's scale, or its categories.

    Raises CommandError for an attribute that there is not, or that has no bins.
    """
    axes = [_attribute(model.fitted, name) for name in names]
    if len(axes) == 2 and axes[0] == axes[1]:
        raise wrong(f"{names[0]} is given twice: a density has two attributes")
    conditions = [_conditions(attribute, bins) for attribute in axes]
    try:
        found = _estimates(model.fitted, conditions)
    except ValueError as error:
        raise wrong(str(error)) from error
    shape = tuple(map(len, conditions))
    return {
        "axes": [_axis(attribute, bins) for attribute in axes],
        "share": _nested([known(value) for value, _ in found], shape),
        "standard_error": _nested([known(error) for _, error in found], shape),
    }


def _estimates(fitted: Fitted, conditions: list[list[str]]) -> list[tuple[float, float]]:
    """A share and its error for each bin, the last axis running fastest."""
    if isinstance(fitted, Partition):
        found = partition_shares(fitted, conditions)
        return list(zip(*(each.ravel().tolist() for each in found), strict=True))
    shares = [fitted.share(" & ".join(each)) for each in product(*conditions)]
    return [(each.value, each.standard_error) for each in shares]


def partition_shares(model: Partition, conditions: list[list[str]]) -> tuple[Floats, Floats]:
    """`Partition.share` of every bin at once, and its standard errors: a box lies in few bins, so
    all of them cost little more than one does."""
    inside = _inside(model, conditions)
    value = _shares(model, inside)
    squares, models = np.zeros_like(value), 0
    for other in model.replicates:
        if other.total > 0:
            same = np.array_equal(other.low, model.low) and np.array_equal(other.high, model.high)
            around = inside if same else _inside(other, conditions)
            squares += (_shares(other, around) - value) ** 2
            models += 1
    doubt, unresolved = _doubt(model, inside), _unresolved(model, inside)
    return value, np.sqrt(squares / max(models, 1) + (doubt**2 + unresolved**2) / model.total**2)


def _inside(model: Partition, conditions: list[list[str]]) -> dict[int, Floats]:
    """For each axis, by the place of its attribute, the fraction of every box in each of its bins:
    float64[bins, n]."""
    found = {}
    for texts in conditions:
        bins = [parse(text, model.domain).intervals(model.domain) for text in texts]
        (place,) = bins[0]
        ends = model.domain.attributes[place].intervals(model.low[:, place], model.high[:, place])
        low, high = (end[:, None] for end in ends)
        found[place] = np.stack([overlap(low, high, {0: each[place]}) for each in bins])
    return found


def _shares(model: Partition, inside: dict[int, Floats]) -> Floats:
    first, *rest = inside.values()
    weighted = first * (model.mass / model.total)
    if not rest:
        return np.asarray(weighted.sum(axis=1))
    return np.asarray(weighted @ rest[0].T)


def _unresolved(model: Partition, inside: dict[int, Floats]) -> Floats:
    """As many errors as bins, or one for all of them."""
    found = model.unresolved(inside)
    in_order = list(inside) == sorted(inside)
    return found if in_order else found.T


def _doubt(model: Partition, inside: dict[int, Floats]) -> Floats:
    """Readings of boxes that a bin cuts, bin by bin, as `Partition` counts them."""
    first, *rest = inside.values()
    rows = []
    for fractions in first:
        boxes = np.flatnonzero(fractions)
        part = fractions[boxes] * rest[0][:, boxes] if rest else fractions[None, boxes]
        rows.append(np.sqrt(np.clip(part * (1 - part), 0, None) / 3) @ model.mass[boxes])
    return np.stack(rows) if rest else np.concatenate(rows)


def _attribute(fitted: Fitted, name: str) -> Attribute:
    attribute = attribute_of(domain_of(fitted), name)
    if attribute.constant is not None:
        raise wrong(f"{name} is constant, and has no bins")
    for category in attribute.categories or ():
        if set(category) & set(IN_CONDITIONS):
            raise wrong(f"the category {category!r} of {name} holds one of {IN_CONDITIONS}")
    return attribute


def _edges(attribute: Attribute, bins: int) -> list[float]:
    return list(map(float, attribute.from_unit(np.linspace(0.0, 1.0, bins + 1))))


def _conditions(attribute: Attribute, bins: int) -> list[str]:
    """One for each bin. The highest value belongs to the last one."""
    name = attribute.name
    if attribute.categories is not None:
        return [f"{name} = {category}" for category in attribute.categories]
    edges = _edges(attribute, bins)
    inner = [f"{name} < {edge!r}" for edge in edges[1:-1]] + [f"{name} <= {edges[-1]!r}"]
    return [f"{name} >= {low!r} & {end}" for low, end in zip(edges[:-1], inner, strict=True)]


def _axis(attribute: Attribute, bins: int) -> dict[str, object]:
    found: dict[str, object] = {"attribute": attribute.name, "unit": attribute.unit}
    if attribute.categories is not None:
        return found | {"categories": list(attribute.categories)}
    return found | {"edges": _edges(attribute, bins)}


def _nested(flat: list[float | None], shape: tuple[int, ...]) -> list[object]:
    if len(shape) == 1:
        return list(flat)
    width = shape[1]
    return [flat[start : start + width] for start in range(0, len(flat), width)]
