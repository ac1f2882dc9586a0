"""Models over domains whose bounds differ, brought onto one domain, so that they can be added.

Post-processing of released integers, as all generators are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from pansketch.domain.atoms import Atom
from pansketch.domain.attribute import Attribute
from pansketch.domain.domain import Domain, FloatArray
from pansketch.generators.model import OfCells
from pansketch.generators.partition.partition import Partition
from pansketch.generators.significance import Fits

NARROWEST = 2.0**-50  # A box of the old domain must not vanish between two floats of the new one.


def common_domain(domains: Sequence[Domain]) -> Domain:
    """The domain that holds all of these: bounds as wide as the widest, the rest as in the first.

    Scales may differ where one is learned. The first learned one is used, because it follows the
    readings inside a box best. Atoms may have been declared between two of them. Then earlier
    readings of such a value are spread in its cell, and earlier ones without a value were not
    counted.

    Args:
        domains: one or more.

    Returns:
        A domain with the attributes of the first, in its order.

    Raises:
        ValueError: attributes, units, categories, constants, circles or other scales differ; the
            text names them. An even spread in one of them is not even in the other.
    """
    first, *others = domains
    attributes = {each.name: each for each in first.attributes}
    for domain in others:
        if set(domain.names) != set(attributes):
            odd = sorted(set(domain.names).symmetric_difference(attributes))
            raise ValueError(f"other attributes: {', '.join(odd)}")
        for each in domain.attributes:
            attributes[each.name] = _widened(attributes[each.name], each)
    return Domain([attributes[name] for name in first.names])


def _widened(one: Attribute, other: Attribute) -> Attribute:
    """The attribute with the bounds of both. Raises ValueError."""
    if one == other:
        return one
    learned = [each for each in (one, other) if each.knots]
    given = ("scale", "resolution") if not learned else ()
    if one.atoms and other.atoms and one.atoms != other.atoms:
        raise ValueError(f"other atoms of {one.name}")
    if one.categories is not None and one.categories == other.categories:
        return one if one.atoms else other
    for name in ("unit", "categories", "constant", "cyclic", *given):
        if getattr(one, name) != getattr(other, name):
            raise ValueError(f"another {name} of {one.name}")
    if (one.low, one.high) != (other.low, other.high) and one.cyclic:
        raise ValueError(f"another circle of {one.name}")
    if one.low != other.low and one.scale == "log" and not learned:
        raise ValueError(f"another beginning of the logarithmic scale of {one.name}")
    assert one.low is not None
    assert one.high is not None
    assert other.low is not None
    assert other.high is not None
    step = one.step if one.step == other.step else None
    low, high = min(one.low, other.low), max(one.high, other.high)
    best = learned[0] if learned else one
    knots = (low, *best.knots[1:-1], high) if learned else ()
    atoms = one.atoms or other.atoms
    found = replace(best, low=low, high=high, step=step, knots=knots, atoms=atoms)
    if any(each.atoms and _kinds(each) != _kinds(found) for each in (one, other)):
        raise ValueError(f"an atom of {one.name} is inside other bounds and not inside its own")
    return found


def _kinds(attribute: Attribute) -> list[Atom | None]:
    return [each.atom for each in attribute.placed.sections] if attribute.placed else []


def rebased(model: Partition, domain: Domain) -> Partition:
    """A model in a wider domain: masses and errors stay, questions use the new domain's bounds.

    Args:
        model: of one group of devices.
        domain: as `common_domain` returned it for the model's domain and others.

    Returns:
        The same boxes of the same readings in the new domain.
    """
    if model.domain == domain:
        return model
    indices = [model.domain.index(name) for name in domain.names]  # by the new column, the old one

    def moved(edges: FloatArray) -> FloatArray:
        columns = [
            _moved(model.domain.attributes[old], domain.attributes[new], edges[:, old])
            for new, old in enumerate(indices)
        ]
        return np.stack(columns, axis=1)

    def unresolved(inside: Mapping[int, FloatArray]) -> FloatArray:
        return model.unresolved({indices[axis]: share for axis, share in inside.items()})

    def ends_of(old: int, function: OfCells) -> OfCells:
        one, other = model.domain.attributes[old], domain.attributes[indices.index(old)]
        return lambda low, high: function(_moved(one, other, low), _moved(one, other, high))

    def hidden(pair: tuple[int, int], first: OfCells, second: OfCells, most: float) -> float:
        assert model.hidden is not None
        (one, left), (two, right) = sorted(
            (
                (indices[axis], function)
                for axis, function in zip(pair, (first, second), strict=True)
            ),
            key=lambda item: item[0],
        )
        return model.hidden((one, two), ends_of(one, left), ends_of(two, right), most)

    low, high = moved(model.low), moved(model.high)
    return Partition(
        domain,
        low,
        np.maximum(high, low + NARROWEST),
        model.mass,
        lambda: [rebased(each, domain) for each in model.replicates],
        unresolved,
        None if model.noise is None else model.noise.of(model.domain.attributes).at(indices),
        None if model.hidden is None else hidden,
        # Cells of a wider domain are others.
        {
            new: model.cells[old]
            for new, old in enumerate(indices)
            if old in model.cells and model.domain.attributes[old] == domain.attributes[new]
        },
        model.fits,
        None if model.shown is None else (moved(model.shown[0]), moved(model.shown[1])),
    )


def _moved(old: Attribute, new: Attribute, edges: FloatArray) -> FloatArray:
    """Convert positions in the unit interval of one attribute to those in that of a wider one."""
    if old == new:
        return edges
    if old.categories is not None:  # Only one of them can be missing.
        return np.asarray(edges * (old.extent / new.extent))
    found = new.scaling.positions(old.scaling.values(edges))
    if old.lattice is not None and new.lattice is not None:
        # The last cell holds the point `high`, which an interval up to its place would leave out.
        after = float(new.lattice.positions(np.array([old.lattice.last + 1.0]))[0])
        found = np.where(edges >= old.scaling.top, after, found)
    if old.placed is not None and new.placed is not None:
        # Atoms have sections of the same length, in the same order.
        held = old.placed.section_of(edges)
        inside = edges - old.placed.starts[held]
        atom = old.placed.is_atom[held] | (inside == 0)
        found = np.where(atom, new.placed.starts[held] + inside, found)
        found[edges >= 1.0] = 1.0
    return np.asarray(np.clip(found, 0.0, 1.0))


def _together(fits: Sequence[Fits]) -> Fits:
    """Of models whose replicates are combined by their numbers."""
    alike, fewer, rough = zip(*fits, strict=True)
    return Fits(
        alike[0] if len(set(alike)) == 1 else 0,
        max(fewer) if all(fewer) else 0.0,
        rough[0] if len(set(rough)) == 1 else 0,
    )


def _shown(model: Partition) -> tuple[FloatArray, FloatArray]:
    return (model.low, model.high) if model.shown is None else model.shown


def combine(models: Sequence[Partition]) -> Partition:
    """One model of several groups of devices, whose sketches differ: their masses add.

    Args:
        models: over domains that `common_domain` joins.

    Returns:
        A model over the joined domain with the boxes of all of them; their errors are independent.

    Raises:
        ValueError: there are no models, or their domains cannot be joined.
    """
    if not models:
        raise ValueError("nothing to combine: no model was given")
    domain = common_domain([model.domain for model in models])
    models = [rebased(model, domain) for model in models]
    if len(models) == 1:
        return models[0]

    noises = [model.noise for model in models if model.noise is not None]

    def replicate() -> list[Partition]:
        return [combine(each) for each in zip(*(m.replicates for m in models), strict=True)]

    def unresolved(inside: Mapping[int, FloatArray]) -> FloatArray:
        found, start = np.zeros(1), 0
        for model in models:
            end = start + len(model.mass)
            part = {axis: fractions[:, start:end] for axis, fractions in inside.items()}
            found, start = found + model.unresolved(part), end
        return found

    def hidden(pair: tuple[int, int], first: OfCells, second: OfCells, most: float) -> float:
        return sum(m.hidden(pair, first, second, most) for m in models if m.hidden is not None)

    return Partition(
        domain,
        np.concatenate([model.low for model in models]),
        np.concatenate([model.high for model in models]),
        np.concatenate([model.mass for model in models]),
        replicate,
        unresolved,
        reduce(add, noises) if len(noises) == len(models) else None,
        hidden if any(model.hidden is not None for model in models) else None,
        fits=_together([model.fits for model in models]),
        shown=(
            np.concatenate([_shown(model)[0] for model in models]),
            np.concatenate([_shown(model)[1] for model in models]),
        ),
    )
