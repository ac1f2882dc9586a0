"""A spec of every family of sketches, for the contract that all of them keep."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from pansketch import (
    Attribute,
    CellsSpec,
    DistinctSpec,
    Domain,
    HierarchySpec,
    MomentsSpec,
    Privacy,
    Spec,
    View,
    ViewsSpec,
    WindowId,
    os_entropy,
)

DOMAIN = Domain([Attribute("x", low=0, high=1), Attribute("y", low=0, high=9, scale="log")])


@dataclass(frozen=True)
class Family:
    """`draw(count, seed)`: input of `spec`'s sketches. `other`: another spec of the family.

    `state`: the attribute with the secret state. `linear`: whether the sum of two releases is what
    one sketch of all their readings would have released, but for the noise.
    """

    spec: Spec
    other: Spec
    draw: Callable
    state: str = "_counters"
    linear: bool = True


def uniform(count, seed=0):
    return np.random.default_rng(seed).random((count, 2)) * [1, 9]


def numbers(count, seed=0):
    return np.random.default_rng(seed).integers(0, 100, count)


def hierarchy(epsilon, intrusion):
    privacy = Privacy(epsilon=epsilon, intrusion=intrusion)
    return HierarchySpec(DOMAIN, privacy, depth=6, k=4, width=8, rows=2)


def cells(epsilon, intrusion, depth):
    privacy = Privacy(epsilon=epsilon, intrusion=intrusion)
    return CellsSpec(DOMAIN, privacy, depth=depth, width=8, rows=2)


def moments(epsilon, intrusion, features):
    privacy = Privacy(epsilon=epsilon, intrusion=intrusion)
    return MomentsSpec(DOMAIN, privacy, features, m=6, rows=3, width=5, bins=6)


def views(epsilon, intrusion):
    privacy = Privacy(epsilon=epsilon, intrusion=intrusion)
    share = privacy.epsilon_micro // 4
    pair = View(("x", "y"), (2, 3), privacy.epsilon_micro - 2 * share)
    return ViewsSpec(DOMAIN, privacy, (View(("x",), (4,), share), pair, View(("y",), (1,), share)))


def distinct(epsilon, intrusion, **sizes):
    privacy = Privacy(epsilon=epsilon, unit="key", intrusion=intrusion)
    return DistinctSpec(privacy, memory=8, **sizes)


KEYED = {
    "hashed-count": {"expected_keys": 200},
    "hashed-bitmap": {"expected_keys": 40, "release": "bitmap"},
    "levels-count": {},
    "levels-bitmap": {"release": "bitmap"},
    "sampled-count": {"universe": 100, "turnstile": True},
    "sampled-bitmap": {"universe": 100, "release": "bitmap", "variant": "dwork"},
}
FAMILIES = {
    f"hierarchy-{intrusion}": Family(hierarchy(1.0, intrusion), hierarchy(2.0, intrusion), uniform)
    for intrusion in ("silent", "announced")
} | {
    f"distinct-{name}-{intrusion}": Family(
        distinct(1.0, intrusion, **sizes),
        distinct(1.5, intrusion, **sizes),
        numbers,
        state="_bits",
        linear=False,
    )
    for name, sizes in KEYED.items()
    for intrusion in ("silent", "announced")
}
FAMILIES |= {
    f"moments-{features}-{intrusion}": Family(
        moments(1.0, intrusion, features), moments(2.0, intrusion, features), uniform
    )
    for features in ("rff", "race", "hist")
    for intrusion in ("silent", "announced")
}
FAMILIES |= {
    f"cells-depth-{depth}-{intrusion}": Family(
        cells(1.0, intrusion, depth), cells(2.0, intrusion, depth), uniform
    )
    for depth in (6, 24)
    for intrusion in ("silent", "announced")
}
FAMILIES |= {
    f"views-{intrusion}": Family(views(1.0, intrusion), views(2.0, intrusion), uniform)
    for intrusion in ("silent", "announced")
}
ADDITIVE = {name: family for name, family in FAMILIES.items() if family.spec.additive}


def families(chosen):
    return pytest.fixture(params=chosen.values(), ids=chosen.keys())(lambda request: request.param)


def released(spec, rows, entropy, window):
    sketch = spec.start(entropy)
    sketch.update_many(rows)
    return sketch.release(entropy, window)


def some_release(family, sequence=1, device="dev"):
    window = WindowId(device, "s", sequence, 0, 60)
    return released(family.spec, family.draw(30), os_entropy(), window)
