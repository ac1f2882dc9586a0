"""Circles: readings wrap in both encoders, ranges go past the end, means are directions."""

import numpy as np
import pytest

from pansketch import Attribute, CellsSpec, Domain, HierarchySpec, MomentsSpec, Privacy
from pansketch.domain.cell_paths import PathEncoder
from pansketch.domain.fixed_point import positions_of
from pansketch.generators import Partition, privhp
from pansketch.generators.significance import student
from tests.seeded_noise import noise_of_test

WIND = Attribute("wd", 0, 360, cyclic=True)
HOUR = Attribute("hour", 0, 24, step=1, cyclic=True)
TEMP = Attribute("temp", -40, 60)
SHIFTED = Attribute("around", -180, 180, cyclic=True)


def paths_of(domain, depth, rows):
    return np.concatenate([part.copy() for part in PathEncoder(domain, depth).encode(rows)])


def arcs(shares, attribute=WIND, replicate=tuple):
    """A model of one attribute in cells of equal length."""
    edges = np.linspace(0, 1, len(shares) + 1)[:, None]
    return Partition(Domain([attribute]), edges[:-1], edges[1:], np.array(shares, float), replicate)


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (360.0, 0.0),
        (361.5, 1.5),
        (-1.5, 358.5),
        (-360.0, 0.0),
        (720.0, 0.0),
        (36e8 + 90, 90.0),
        (-0.0, 0.0),
        (1e300, 1e300 % 360),
    ],
)
def test_values_beyond_the_ends_wrap_in_both_encoders(value, same):
    domain = Domain([WIND])
    rows = np.array([[value], [same]])
    first, second = paths_of(domain, 20, rows)
    assert first == second
    first, second = positions_of(domain, rows)[0]
    assert first == second
    assert WIND.to_unit(value) == WIND.to_unit(same)
    # The control: without the circle they are clipped to an end.
    if value > 360:
        line = Domain([Attribute("wd", 0, 360)])
        first, second = paths_of(line, 20, rows)
        assert first != second


def test_what_is_hardly_below_the_low_end_is_in_the_last_cell_and_never_at_the_high_end():
    domain = Domain([WIND])
    tiny = np.array([[-1e-13], [-1e-17], [-5e-324]])
    assert set(paths_of(domain, 20, tiny)) == {2**20 - 1}
    assert set(positions_of(domain, tiny)[0]) == {2**16 - 1}
    assert all(359 / 360 < WIND.to_unit(float(value)) < 1 for value in tiny[:, 0])
    assert (-1e-17) % 360.0 == 360.0  # The surprise that this is about.


def test_a_circle_may_begin_anywhere():
    rows = np.array([[-180.0], [180.0], [540.0], [179.9], [-180.1]])
    paths = paths_of(Domain([SHIFTED]), 16, rows)
    assert paths.tolist() == [0, 0, 0, 65517, 65517]  # floor(359.9 / 360 * 2**16)


def test_readings_that_are_not_finite_are_dropped_from_circles_too():
    rows = np.array([[np.nan, 1.0], [np.inf, 1.0], [370.0, 1.0], [10.0, 1.0]])
    paths = paths_of(Domain([WIND, TEMP]), 20, rows)
    assert len(paths) == 2
    assert paths[0] == paths[1]


def test_only_a_circle_is_in_the_fingerprint():
    def of(**changes):
        domain = Domain([Attribute("x", 0, 360, **changes)])
        return [
            make(domain).fingerprint
            for make in (
                lambda domain: HierarchySpec(domain, Privacy(1), depth=8),
                lambda domain: CellsSpec(domain, Privacy(1), depth=8),
                lambda domain: MomentsSpec(domain, Privacy(1)),
            )
        ]

    assert of() == of(cyclic=False) == of(step=0.1)
    assert not set(of()) & set(of(cyclic=True))
    assert Attribute("x", 0, 360).describe() == {"name": "x", "low": 0.0, "high": 360.0}


@pytest.mark.parametrize(
    ("low", "high", "share"),
    [
        (350, 10, 20 / 360),
        (-10, 10, 20 / 360),
        (350, 370, 20 / 360),
        (350, 360, 10 / 360),
        (0, 360, 1),
        (10, 370, 1),
        (-1e6, 1e6, 1),
        (90, 180, 0.25),
        (180, 90, 0.75),
        (450, 540, 0.25),
        (10, 10, 0),
    ],
)
def test_ranges_may_go_past_the_end(low, high, share):
    model = arcs([1] * 8)
    assert model.share({"wd": (low, high)}).value == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize(
    ("low", "high", "hours"),
    [
        (22, 2, [22, 23, 0, 1, 2]),
        (23, 24, [23, 0]),
        (24, 24, [0]),
        (-1, 1, [23, 0, 1]),
        (10, 9, range(24)),
        (10.5, 9.5, [*range(10), *range(11, 24)]),
        (0, 24, range(24)),
        (22.5, 1.9, [23, 0, 1]),
        (3.2, 3.8, []),
    ],
)
def test_ranges_of_steps_hold_both_their_ends(low, high, hours):
    shares = np.random.default_rng(1).random(24)
    model = arcs(shares, HOUR)
    expected = shares[list(hours)].sum() / shares.sum()
    assert model.share({"hour": (low, high)}).value == pytest.approx(expected, abs=1e-12)


def test_wrapped_ends_are_decimal_numbers():
    model = arcs([1] * 64, Attribute("wd", 0, 360, step=0.1, cyclic=True))
    assert 370.1 % 360 != 10.1
    for low, high in ((370.1, 380.1), (10.1, 20.1), (-349.9, -339.9)):
        found = model.count({"wd": (low, high)})
        assert found == model.count({"wd": (10.1, 20.1)})


def test_samples_of_wrapped_ranges_agree_with_their_counts():
    """Systematic sampling leaves less than eight records of chance to the boxes that are cut."""
    model = arcs(np.arange(1, 9), HOUR)
    drawn = model.sample(24_000, np.random.default_rng(2))[:, 0]
    assert drawn.min() == 0
    assert drawn.max() == 23
    held = (drawn >= 21) | (drawn <= 2)
    assert held.sum() == pytest.approx(24_000 * model.share({"hour": (21, 2)}).value, abs=8)
    wrong = (drawn > 21) | (drawn < 2)
    assert wrong.sum() != pytest.approx(24_000 * model.share({"hour": (21, 2)}).value, abs=8)


def test_comparisons_in_text_are_about_values_between_the_ends():
    model = arcs([1] * 8)
    assert model.share("wd > 270").value == pytest.approx(0.25)
    assert model.share("wd >= 360").value == 0
    assert model.share("wd < 360").value == 1
    assert model.share("wd > 350 & wd < 10").value == 0


@pytest.mark.parametrize("attribute", [WIND, SHIFTED, Attribute("s", 0, 360, step=5, cyclic=True)])
@pytest.mark.parametrize("centre", [0, 5, 90, 181, 357])
def test_the_mean_of_a_circle_is_a_direction(attribute, centre):
    """72 arcs around a centre, against the vectors of their middles, or of their points."""
    at = (np.arange(72) if attribute.step else np.arange(72) + 0.5) * 5 + attribute.low
    shares = np.exp(3 * np.cos(np.radians(at - centre)))
    expected = np.degrees(np.angle(np.sum(shares * np.exp(1j * np.radians(at)))))
    found = arcs(shares, attribute).mean(attribute.name)
    apart = (found.value - expected + 180) % 360 - 180
    assert apart == pytest.approx(0, abs=1e-9)
    assert attribute.low <= found.value < attribute.high
    assert found.standard_error < 5
    # The control: the mean of the numbers is far from where most of them are.
    if centre == 0 and attribute.low == 0:
        assert abs(shares @ at / shares.sum() - 180) < 15


def test_the_error_of_a_direction_goes_round_the_shorter_way():
    """Replicates on both sides of the end are near to each other."""
    degrees = np.arange(360) + 0.5

    def near(centre):
        return arcs(np.exp(50 * np.cos(np.radians(degrees - centre))))

    shares = near(0.5).mass
    model = arcs(shares, replicate=lambda: [near(359), near(2)] * 6)
    assert model.mean("wd").value == pytest.approx(0.5, abs=0.01)
    wanted = 1.5 * student(12)
    assert model.mean("wd").standard_error == pytest.approx(wanted, abs=0.1)


def test_an_unknown_direction_is_reported_as_such():
    found = arcs([1] * 12, replicate=lambda: [arcs([1, 1, 1, 1] * 3), arcs([2, 1, 1] * 4)])
    assert found.mean("wd").standard_error == pytest.approx(360 / np.sqrt(12))
    opposite = arcs([1, 0, 1, 0])
    assert opposite.mean("wd").standard_error == pytest.approx(360 / np.sqrt(12))
    assert arcs([100, 0, 0, 0]).mean("wd").standard_error < 40


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda m: m.quantile("wd", 0.5), "wd is cyclic and begins nowhere"),
        (lambda m: m.cdf("wd", 5), "wd is cyclic and begins nowhere"),
        (lambda m: m.covariance(("wd",)), "wd is cyclic and begins nowhere"),
        (lambda m: m.covariance(), "without an attribute that is a number"),
        (lambda m: m.count({"wd": (float("nan"), 5)}), "must be finite"),
        (lambda m: m.count({"wd": (5, float("inf"))}), "must be finite"),
    ],
)
def test_what_a_circle_does_not_have_is_refused_in_one_line(ask, text):
    with pytest.raises(ValueError, match=text) as caught:
        ask(arcs([1, 2, 3, 4]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"low": 0, "high": 24, "cyclic": True, "scale": "log"}, "only a linear scale"),
        ({"categories": ("a", "b"), "cyclic": True}, "no circle"),
        ({"constant": 1, "cyclic": True}, "no circle"),
    ],
)
def test_circles_that_make_no_sense_are_refused(wrong, text):
    with pytest.raises(ValueError, match=text):
        Attribute("x", **wrong)


def test_a_release_knows_the_direction_that_crosses_the_end():
    """From readings to the mean, with real noise. The error of 40 releases was at most 2.5 standard
    errors, so the probability of more than ten is far below 1e-6."""
    degrees = np.random.default_rng(3).normal(2, 15, 20_000)
    spec = HierarchySpec(Domain([WIND]), Privacy(1), depth=8, k=256)
    sketch = spec.start(noise_of_test())
    sketch.update_many(degrees[:, None])
    found = privhp(sketch.release(noise_of_test())).mean("wd")
    expected = np.degrees(np.angle(np.mean(np.exp(1j * np.radians(degrees)))))
    apart = (found.value - expected + 180) % 360 - 180
    assert abs(apart) < 10 * found.standard_error
    assert found.standard_error < 3
