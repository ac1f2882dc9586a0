"""Questions of one attribute are answered from its own table, without records."""

from importlib import import_module

import numpy as np
import pytest

from pansketch import Attribute, Domain, Privacy, View, ViewsSpec, WindowId, os_entropy
from pansketch.generators import found_atoms, learned_domain, pairwise
from pansketch.generators.pairwise.marginals import margin_of
from pansketch.generators.pairwise.multiresolution import Resolution

DOMAIN = Domain([Attribute("x", low=0, high=10), Attribute("y", low=-1, high=1)])
_x = 10 * np.random.default_rng(1).beta(2, 3, 20_000)
ROWS = np.column_stack([_x, 0.7 * np.sin(_x)])


def test_questions_of_one_attribute_make_no_records(monkeypatch):
    spec = ViewsSpec(DOMAIN, Privacy(1), (View(("x", "y"), (4, 4), 1_000_000),))
    sketch = spec.start(os_entropy())
    sketch.update_many(ROWS)
    release = sketch.release(os_entropy(), WindowId("one", "s", 1))
    # Two models of one release: one without records, one with them.
    model, whole = pairwise(release), pairwise(release).boxes

    def asked(model):
        return (
            model.readings,
            model.mean("x"),
            model.quantile("x", 0.5),
            model.cdf("x", 3.0),
            model.count("x > 1 & x < 3"),
            model.share({"x": (1, 3)}),
        )

    expected = asked(whole)

    def made(*_):
        raise AssertionError("records are made")

    # The package's attribute `pairwise` is the function.
    monkeypatch.setattr(import_module("pansketch.generators.pairwise.particles"), "joint_of", made)
    model.check(())
    model.check([0])
    for found, other in zip(asked(model), expected, strict=True):
        assert abs(found.value - other.value) <= 0.5 * other.standard_error
    assert learned_domain(model).names == DOMAIN.names
    assert found_atoms(model) == ()
    for ask in (
        lambda: model.count("x > 1 & y > 1"),
        lambda: model.covariance(("x", "y")),
        lambda: model.sample(1, np.random.default_rng(0)),
    ):
        with pytest.raises(AssertionError, match="records are made"):
            ask()


def test_the_number_of_readings_is_that_of_a_margin():
    """Also of none: noise alone, whose total is not positive in every second release."""
    spec, none = ViewsSpec(DOMAIN, Privacy(1), (View(("x", "y"), (4, 4), 1_000_000),)), 0
    for number in range(8):
        sketch = spec.start(os_entropy())
        sketch.update_many(ROWS[: number % 2])
        model = pairwise(sketch.release(os_entropy(), WindowId("one", "s", 1)))
        alone = model.alone(0).readings
        assert model.readings.value == pytest.approx(alone.value)
        assert model.readings.standard_error == pytest.approx(alone.standard_error)
        assert model.total == model.readings.value >= 0
        none += model.total == 0
    assert none < 8


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("clipped", "stays"), [(400.0, True), (60.0, False)])
def test_readings_at_a_bound_stay_if_they_stand_out_whatever_noise_is_behind(
    turned, clipped, stays
):
    """Noise of 64 cells outweighs the sum of 400 readings and of these, and not the 400. A number
    that the noise of its own cell explains is a tail."""
    counts = np.full(128, -2.0)
    counts[0], counts[64] = clipped, 3000.0
    if turned:
        counts = counts[::-1].copy()
    alone = Resolution(7, counts, np.full(128, 1 / 50.0**2))
    no_total = Resolution(0, np.zeros(1), np.zeros(1))
    found = margin_of(Attribute("x", 0, 1), [no_total, alone])
    assert found is not None
    at_bound = found.counts[-1 if turned else 0]
    assert at_bound == pytest.approx(clipped, rel=0.2) if stays else at_bound < 1
