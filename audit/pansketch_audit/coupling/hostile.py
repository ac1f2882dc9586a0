"""Readings and specs that are drawn for the audit: ordinary ones, and extreme ones."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from math import isinf, isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch import (
    Attribute,
    CellsSpec,
    DistinctSpec,
    Domain,
    HierarchySpec,
    MomentsSpec,
    Privacy,
    Span,
    Spec,
    View,
    ViewsSpec,
)
from pansketch.domain import MISSING

Floats = npt.NDArray[np.float64]
FAMILIES = 8
MAX_DWORK_EPSILON = 1.5  # The state of this variant has no larger one.
HUGE, TINY = 1.7976931348623157e308, 5e-324


def hostile_readings(domain: Domain) -> Floats:
    """float64[n, d]: each extreme in all attributes at once, and in one beside ordinary ones."""
    most = max(len(values_of(attribute)) for attribute in domain.attributes)
    together = np.array(
        [
            [np.resize(values_of(each), most)[place] for each in domain.attributes]
            for place in range(most)
        ]
    )
    ordinary = ordinary_readings(domain, most, np.random.default_rng(1))
    alone = ordinary.copy()
    for place in range(most):
        column = place % domain.dimension
        alone[place, column] = together[place, column]
    return np.concatenate([together, alone, ordinary])


def values_of(attribute: Attribute) -> Floats:
    """Every value of an attribute that code may treat in its own way."""
    extremes = [HUGE, -HUGE, np.inf, -np.inf, np.nan, TINY, -TINY, -0.0, 0.0, -1.0]
    if attribute.categories is not None:
        count = len(attribute.categories)
        return np.array([*extremes, *range(count), count, 0.5], np.float64)
    bounds = [attribute.origin, attribute.highest]
    beside = [np.nextafter(bound, way) for bound in bounds for way in (-np.inf, np.inf)]
    middle = [sum(bounds) / 2, 2 * bounds[1] - bounds[0] + 1]
    return np.array([*extremes, *bounds, *beside, *middle, *attribute.numeric_atoms], np.float64)


def ordinary_readings(domain: Domain, count: int, rng: np.random.Generator) -> Floats:
    """float64[count, d] within the bounds, and a little beyond."""
    columns = []
    for attribute in domain.attributes:
        if attribute.categories is not None:
            columns.append(rng.integers(0, len(attribute.categories), count).astype(np.float64))
            continue
        low, high = attribute.origin, attribute.highest
        column = rng.uniform(low, high, count) + (high - low) * rng.normal(0, 0.1, count)
        for atom in attribute.numeric_atoms:
            column[rng.random(count) < 0.1] = atom
        columns.append(column)
    return np.column_stack(columns)


def printed(domain: Domain, rows: Floats) -> bytes:
    """Readings as a program prints them: one JSON object a line."""
    names = [json.dumps(each) for each in domain.names]
    lines = (
        ", ".join(
            f"{name}: {_value(attribute, value)}"
            for name, attribute, value in zip(names, domain.attributes, row, strict=True)
        )
        for row in rows.tolist()
    )
    return "".join(f"{{{line}}}\n" for line in lines).encode()


def printed_keys(name: str, rows: npt.NDArray[np.uint64]) -> bytes:
    """Keys, the same."""
    return "".join(f"{{{json.dumps(name)}: {key}}}\n" for key in rows.tolist()).encode()


def _value(attribute: Attribute, value: float) -> str:
    """JSON has no NaN and no infinity: `null`, and a number that no float holds."""
    if isnan(value):
        return "null"
    if attribute.categories is not None:
        named = value.is_integer() and 0 <= value < len(attribute.categories)
        return json.dumps(attribute.categories[int(value)] if named else "none of them")
    return f"{'-' * (value < 0)}1e400" if isinf(value) else repr(value)


def random_specs(seed: int, count: int) -> Iterator[tuple[str, Spec]]:
    """Specs of every family in turn, with random sizes, domains, units and modes. The first of each
    family is large enough for every block of the code."""
    rng = np.random.default_rng(seed)
    makers: list[tuple[str, Callable[..., Spec]]] = [
        ("hierarchy", _hierarchy),
        ("guided cells", partial(_cells, deep=True)),
        ("views", _views),
        ("moments, rff", partial(_moments, features="rff")),
        ("distinct", _distinct),
        ("moments, race", partial(_moments, features="race")),
        ("moments, hist", partial(_moments, features="hist")),
        ("cells", partial(_cells, deep=False)),
    ]
    for number in range(count):
        name, make = makers[number % len(makers)]
        spec = make(rng, large=number < len(makers))
        yield f"{name} {number // len(makers) + 1}", spec


def _privacy(rng: np.random.Generator, large: bool, key: bool = False) -> Privacy:
    epsilon = round(float(rng.choice([0.25, 0.5, 1, 2, 4])), 3)
    intrusion: Any = "silent" if large or rng.random() < 0.6 else "announced"
    if key:
        return Privacy(epsilon, "key", intrusion)
    span = not large and rng.random() < 0.4
    return Privacy(epsilon, Span(600, int(rng.integers(2, 6))) if span else "reading", intrusion)


def _domain(rng: np.random.Generator, least: int, atoms: bool = False) -> Domain:
    kinds: list[dict[str, Any]] = [
        {"low": -40, "high": 60},
        {"low": 0, "high": 1000, "scale": "log"},
        {"low": 0, "high": 360, "cyclic": True},
        {"categories": ("a", "b", "c", "d", "e")},
        {"low": -1e6, "high": 1e-3},
    ]
    if atoms:
        kinds += [
            {"low": 0, "high": 100, "atoms": (0.0, MISSING)},
            {"categories": ("x", "y"), "atoms": (MISSING,)},
        ]
    chosen = rng.permutation(len(kinds))[: int(rng.integers(least, 4))]
    return Domain([Attribute(f"a{n}", **kinds[kind]) for n, kind in enumerate(chosen)])


def _wide_domain() -> Domain:
    return Domain([Attribute("a0", low=-40, high=60), Attribute("a1", low=0, high=9, scale="log")])


def _hierarchy(rng: np.random.Generator, large: bool) -> Spec:
    domain = _wide_domain() if large else _domain(rng, 2)
    # Levels below the eighth bit, exact ones of more than 4,096 cells, and sketched ones.
    k = 1 << 13 if large else 1 << int(rng.integers(0, 8))
    depth = 20 if large else int(rng.integers(1, 13))
    while not _splits(domain, depth):
        depth -= 1
    return HierarchySpec(
        domain,
        _privacy(rng, large),
        depth=depth,
        k=k,
        width=1 << int(rng.integers(1, 9)),
        rows=int(rng.integers(1, 4)),
        fanout=2 if large else int(rng.choice([2, 4, 8])),
        hash_key=int(rng.integers(1 << 60)),
    )


def _splits(domain: Domain, depth: int) -> bool:
    try:
        domain.split_order(depth)
    except ValueError:
        return False
    return True


def _cells(rng: np.random.Generator, large: bool, deep: bool) -> Spec:
    depth = int(rng.integers(21, 40)) if deep else int(rng.integers(1, 20))
    width = 1 << (13 if large else int(rng.integers(1, 9)))
    rows, key = int(rng.integers(1, 4)), int(rng.integers(1 << 60))
    return CellsSpec(_wide_domain(), _privacy(rng, large), depth, width, rows, key)


def _views(rng: np.random.Generator, large: bool) -> Spec:
    """Two views of the same size among them: they must not share their noise."""
    domain, privacy = _wide_domain() if large else _domain(rng, 2, atoms=True), _privacy(rng, large)
    least = [max(1, each.least_bits) for each in domain.attributes]
    names = [each.name for each in domain.attributes]
    shapes: list[tuple[tuple[str, ...], tuple[int, ...]]] = [
        ((name,), (bits,)) for name, bits in zip(names, least, strict=True)
    ]
    shapes.append(((names[0], names[1]), (least[0], least[1])))
    if large:
        shapes = [(("a0",), (5,)), (("a1",), (5,)), (("a0", "a1"), (7, 6)), (("a1",), (12,))]
    whole = privacy.epsilon_micro
    if isinstance(privacy.unit, Span):
        whole //= privacy.unit.max_readings
    parts = [whole // len(shapes)] * len(shapes)
    parts[0] += whole - sum(parts)
    views = [View(n, b, part) for (n, b), part in zip(shapes, parts, strict=True)]
    return ViewsSpec(domain, privacy, tuple(views))


def _moments(rng: np.random.Generator, large: bool, features: Any) -> Spec:
    sizes = {
        "rff": {"m": 200 if large else 2 * int(rng.integers(1, 9))},
        "race": {"rows": 64 if large else int(rng.integers(1, 9)), "width": 80},
        "hist": {"bins": 2100 if large else int(rng.integers(2, 20))},
    }[features]
    domain = _wide_domain() if large else _domain(rng, 1)
    key = int(rng.integers(1 << 60))
    return MomentsSpec(domain, _privacy(rng, large), features, **sizes, hash_key=key)


def _distinct(rng: np.random.Generator, large: bool) -> Spec:
    privacy = _privacy(rng, large, key=True)
    shapes: list[dict[str, Any]] = [
        {"expected_keys": 40_000, "memory": 10_000},
        {"universe": 300},
        {"expected_keys": 100, "release": "bitmap"},
        {"memory": 512},
        {"universe": 5000, "memory": 64, "variant": "optbern"},
    ]
    if privacy.epsilon <= MAX_DWORK_EPSILON:  # All of it may be the state's.
        shapes.append({"universe": 40, "variant": "dwork", "release": "bitmap"})
    shape = shapes[0 if large else int(rng.integers(1, len(shapes)))]
    return DistinctSpec(privacy, **shape, hash_key=int(rng.integers(1 << 60)))
