"""Coupled runs of sketches: what the product shows, and that each comparison can fail."""

from fractions import Fraction

import numpy as np
import pytest

from pansketch import Attribute, DistinctSpec, Domain, Privacy, View, ViewsSpec, os_entropy
from pansketch.domain import MISSING
from pansketch.domain.clipping import AtomEncoder
from pansketch_audit.coupling.coupled_runs import Exposure, couple
from pansketch_audit.coupling.hostile import FAMILIES, hostile_readings, random_specs
from pansketch_audit.coupling.scripted_noise import ScriptedNoise
from pansketch_audit.coupling.sketch_runs import (
    SIZES,
    audited,
    key_loss,
    reading_cases,
    window_problems,
)

SPECS = list(random_specs(5, 2 * FAMILIES))[FAMILIES:]


@pytest.mark.parametrize(
    ("name", "spec"), SPECS, ids=lambda each: each if type(each) is str else ""
)
def test_the_product_hides_every_unit(name, spec):
    found = audited(spec, 7, thorough=False)
    assert found.problems == ()
    assert found.loss <= found.allowed
    # The angles of a few Fourier frequencies do not all meet their worst value.
    assert "rff" in name or found.loss == found.allowed


def test_every_size_class_of_batches_is_run_with_hostile_readings_and_gaps():
    domain = Domain([Attribute("x", low=0, high=1, atoms=(0.0, MISSING))])
    views = (View(("x",), (4,), 1_000_000),)
    spec = ViewsSpec(domain, Privacy(1.0), views)
    cases = list(reading_cases(spec, np.random.default_rng(1), thorough=True))
    rows = [step.rows for case in cases for step in case if not isinstance(step, str)]
    assert {len(each) for each in rows} == set(SIZES)
    assert {len(each) for each in rows if np.isnan(each).any()} == set(SIZES)
    values = np.concatenate(rows).ravel()
    assert {np.inf, -np.inf, 1.7976931348623157e308, 0.0} <= set(values.tolist())
    assert len({len(each) for each in rows if (np.abs(each) > 1e300).any()}) >= 3


def test_hostile_readings_hold_each_value_alone_and_together():
    domain = Domain([Attribute("x", low=-1, high=1), Attribute("c", categories=("a", "b"))])
    rows = hostile_readings(domain)
    for value in (-1.0, 1.0, np.nextafter(1.0, 2), 5e-324, np.inf):
        assert (rows[:, 0] == value).any()
    assert {0.0, 1.0, 2.0, 0.5} <= set(rows[:, 1].tolist())
    assert np.isnan(rows).all(axis=1).any()


@pytest.mark.parametrize(
    "scale", [Fraction(1, 10), Fraction(7, 3), Fraction(1000), Fraction(2**40)]
)
def test_the_production_sampler_draws_the_values_of_a_script(scale):
    """Across the sampler's blocks of 4,096."""
    first, second = (ScriptedNoise(seed) for seed in (1, 1))
    counters = np.zeros((2, 9000), np.int64)
    first.add_discrete_laplace(scale, counters[0])
    second.shifts = {0: np.arange(9000)}
    second.add_discrete_laplace(scale, counters[1])
    assert (counters[1] - counters[0]).tolist() == list(range(9000))
    assert first.faults == second.faults == []
    assert len(set(counters[0].tolist())) > 1


def test_a_sampler_that_leaves_a_counter_out_is_a_fault(monkeypatch):
    exact = type(os_entropy())
    add = exact.add_discrete_laplace
    monkeypatch.setattr(exact, "add_discrete_laplace", lambda *a: add(*a[:2], a[2][:-1]))
    noise = ScriptedNoise(3)
    noise.add_discrete_laplace(Fraction(50), np.zeros(4098, np.int32))
    assert any("not the draw of its own" in fault for fault in noise.faults)


def two_counters(change):
    """A mechanism of two noisy counters, of which a unit adds 1 to the first."""

    def play(with_unit, noises, everything):
        counters = np.zeros(2, np.int64)
        noises["s"].add_discrete_laplace(Fraction(2), counters)
        counters[0] += with_unit
        seen = {"memory": counters.tobytes()} | change(with_unit, counters)
        return [Exposure({("s", 0): counters}, seen, {"s": noises["s"].calls})]

    return couple(play, lambda shifts: {"s": ScriptedNoise(1, shifts.get("s", {}))})


def test_the_loss_is_the_sum_of_shifts_over_scales():
    found = two_counters(lambda with_unit, counters: {})
    assert (found.loss, found.shifted, found.hidden) == (Fraction(1, 2), 1, True)


def test_what_no_noise_hides_is_named():
    found = two_counters(lambda with_unit, counters: {"log": with_unit})
    assert found.differing == ("log",)

    def shared(with_unit, counters):
        counters[1] = counters[0]
        return {}

    assert not two_counters(shared).hidden


def test_a_key_spends_epsilon_for_its_bit_and_for_the_release():
    spec = DistinctSpec(Privacy(2.0, "key"), universe=64, output_share=Fraction(1, 4))
    assert key_loss(spec) == 2
    dwork = DistinctSpec(Privacy(1.0, "key", "announced"), universe=64, variant="dwork")
    assert float(key_loss(dwork)) == pytest.approx(np.log(2))


@pytest.mark.parametrize("seed", range(1, 11))
def test_every_random_spec_is_one_that_the_library_takes(seed):
    """As many as the full audit draws; a refused one would end it."""
    made = [spec for _, spec in random_specs(seed, 160)]
    assert len({spec.fingerprint for spec in made}) > 150  # Small ones may be alike.


@pytest.mark.parametrize("seed", [1, 5])
def test_a_window_with_slots_of_its_own_is_no_problem(seed):
    """Also where the keys of a small universe fill all slots."""
    specs = [spec for _, spec in random_specs(seed, 160) if isinstance(spec, DistinctSpec)]
    assert any(spec.universe == 300 for spec in specs)
    assert [problem for spec in specs for problem in window_problems(spec)] == []


ATOMS = ViewsSpec(
    Domain([Attribute("a", low=0, high=1, atoms=(0.0, MISSING))]),
    Privacy(1.0),
    (View(("a",), (3,), 1_000_000),),
)


def test_the_first_reading_of_a_spec_leaves_nothing_behind(monkeypatch):
    """A table that is made when it is first needed shows that a reading came."""
    assert audited(ATOMS, 1).problems == ()
    apply = AtomEncoder.apply

    def apply_late(self, units, factors):
        self.late = True
        apply(self, units, factors)

    monkeypatch.setattr(AtomEncoder, "apply", apply_late)
    assert audited(ATOMS, 1).problems[0].startswith("memory")


@pytest.mark.parametrize("variant", ["ppds", "optbern"])
def test_an_announced_count_is_hidden_by_its_bits(variant):
    spec = DistinctSpec(Privacy(0.5, "key", "announced"), universe=300, variant=variant)
    assert audited(spec, 1).problems == ()
    assert audited(spec, 2).problems == ()
