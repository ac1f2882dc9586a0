"""Constants: no bits, no cells, no budget; in every record, for any readings."""

import numpy as np
import pytest

from pansketch import Attribute, CellsSpec, Domain, HierarchySpec, MomentsSpec, Privacy
from pansketch.domain.cell_paths import PathEncoder
from pansketch.domain.fixed_point import positions_of
from pansketch.generators import Partition, density, kdtree, privhp
from tests.seeded_noise import noise_of_test

SITE = Attribute("site", constant=3.5)
MODEL = Attribute("model", categories=("A",))
TEMP = Attribute("temp", -40, 60)
PM25 = Attribute("pm25", 0, 1000, scale="log")
ALL = Domain([SITE, TEMP, MODEL, PM25])
PLAIN = Domain([TEMP, PM25])


def rows(count=4000, seed=0):
    generator = np.random.default_rng(seed)
    return np.column_stack([generator.normal(12, 9, count), generator.gamma(2, 40, count)])


def with_constants(plain, site=3.5, model=0.0):
    count = len(plain)
    return np.column_stack([np.full(count, site), plain[:, 0], np.full(count, model), plain[:, 1]])


def encode(domain, readings):
    return np.concatenate([part.copy() for part in PathEncoder(domain, 20).encode(readings)])


def test_constants_take_no_bit_of_a_path():
    assert (SITE.max_bits, MODEL.max_bits, SITE.varies, MODEL.varies) == (0, 0, False, False)
    assert ALL.split_order(6) == (1, 3, 1, 3, 1, 3)
    assert len(ALL.split_order(60)) == 60
    with pytest.raises(ValueError, match="60 bits"):
        ALL.split_order(61)


@pytest.mark.parametrize("value", [3.5, -7.0, 1e300, np.nan, np.inf, -np.inf])
def test_what_readings_hold_in_the_column_of_a_constant_is_ignored(value):
    plain = rows()
    expected = encode(PLAIN, plain)
    assert np.array_equal(encode(ALL, with_constants(plain, value, value)), expected)
    # The control: the other columns are not ignored.
    assert not np.array_equal(encode(ALL, with_constants(plain + 1, value)), expected)


def test_a_reading_that_is_not_finite_elsewhere_is_dropped():
    readings = with_constants(rows(10), np.nan, np.inf)
    readings[3, 1], readings[5, 3] = np.nan, np.inf
    assert len(encode(ALL, readings)) == 8


def test_a_constant_stands_at_position_0():
    positions = positions_of(ALL, with_constants(rows(50), 99.0, 7.0))
    assert not positions[[0, 2]].any()
    assert np.array_equal(positions[[1, 3]], positions_of(PLAIN, rows(50)))


@pytest.mark.parametrize(
    "make",
    [
        lambda domain: HierarchySpec(domain, Privacy(1), depth=10, k=64, width=64, rows=2),
        lambda domain: CellsSpec(domain, Privacy(1), depth=10, width=64),
    ],
    ids=["hierarchy", "cells"],
)
def test_a_sketch_with_constants_has_the_counters_of_one_without(make, no_noise):
    assert make(ALL).blocks == make(PLAIN).blocks
    assert make(ALL).fingerprint != make(PLAIN).fingerprint
    counters = []
    for domain, readings in ((ALL, with_constants(rows(), np.nan)), (PLAIN, rows())):
        sketch = make(domain).start(no_noise)
        sketch.update_many(readings)
        counters.append(sketch.release(no_noise).counters.tolist())
    assert counters[0] == counters[1]
    assert any(counters[0])


@pytest.mark.parametrize(
    ("spec", "model_of"),
    [
        (HierarchySpec(ALL, Privacy(1), depth=10), privhp),
        (HierarchySpec(ALL, Privacy(1), depth=10), lambda release: kdtree(release).partition),
        (CellsSpec(ALL, Privacy(10), depth=10), lambda release: density(release).partition),
    ],
    ids=["privhp", "kdtree", "density"],
)
def test_every_record_has_the_constants(spec, model_of):
    sketch = spec.start(noise_of_test())
    sketch.update_many(with_constants(rows()))
    model = model_of(sketch.release(noise_of_test()))
    drawn = model.sample(500, np.random.default_rng(1))
    assert set(drawn[:, 0]) == {3.5}
    assert set(drawn[:, 2]) == {0.0}
    assert len(set(drawn[:, 1])) > 400
    assert model.share({"site": (3.5, 3.5), "model": "A"}).value == pytest.approx(1)
    both, alone = model.count("temp > 10 & model = A"), model.count("temp > 10")
    assert both.value == pytest.approx(alone.value)
    assert both.standard_error == pytest.approx(alone.standard_error)  # added up in another order


def test_answers_about_a_constant_are_exact():
    model = Partition(ALL, np.zeros((1, 4)), np.ones((1, 4)), np.ones(1))
    for estimate in (model.mean("site"), model.quantile("site", 0.3)):
        assert (estimate.value, estimate.standard_error) == (3.5, 0)
    for x, share in ((3.4, 0), (3.5, 1), (9, 1)):
        assert (model.cdf("site", x).value, model.cdf("site", x).standard_error) == (share, 0)
    for text, share in (("<", 0), ("<=", 1), (">", 0), (">=", 1)):
        assert model.share(f"site {text} 3.5").value == share
    assert model.share({"site": (4, 9)}).value == 0
    assert not model.covariance(("site", "temp")).value[0].any()


def test_moments_of_a_domain_with_constants():
    sketch = MomentsSpec(ALL, Privacy(1), m=20).start(noise_of_test())
    sketch.update_many(with_constants(rows(), np.nan))
    assert sketch.release(noise_of_test()).counters.any()


def test_a_domain_of_constants_alone_is_refused():
    for attributes in ([SITE], [MODEL], [SITE, MODEL]):
        with pytest.raises(ValueError, match="needs an attribute that varies") as caught:
            Domain(attributes)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"constant": float("nan")}, "must be finite"),
        ({"constant": float("inf")}, "must be finite"),
        ({"constant": 1, "low": 0}, "no low"),
        ({"constant": 1, "high": 0}, "no low"),
        ({"constant": 1, "scale": "log"}, "no scale"),
        ({"constant": 1, "categories": ("a",)}, "no constant"),
    ],
)
def test_constants_that_make_no_sense_are_refused(wrong, text):
    with pytest.raises(ValueError, match=text):
        Attribute("x", **wrong)


def test_a_constant_is_in_the_fingerprint():
    assert SITE.describe() == {"name": "site", "constant": 3.5}
    assert MODEL.describe() == {"name": "model", "categories": ["A"]}
