"""Readings are a sample of a density: errors hold how their number in a part of a cell varies.

With little noise nothing else is left of an error. All randomness is seeded, and thirty streams of
one density are asked, so that the share of truths within two errors tells.
"""

import numpy as np
import pytest

from benchmarks.error_bars.short_streams import exact, noisy
from pansketch import Attribute, Domain, HierarchySpec, Privacy, View, ViewsSpec
from pansketch.generators import Partition, pairwise, privhp
from pansketch.generators.pairwise.higher_order_error import _sampled
from pansketch.generators.pairwise.margin import margin
from pansketch.generators.partition.box_overlap import Cells

MANY, STREAMS = 4000, 30
LINE = Domain([Attribute("x", 0, 100)])
PLANE = Domain([Attribute("x", 0, 100), Attribute("y", 0, 100)])
CORNERS = (88.2, 89.1), (87.1, 88.6), (10.2, 10.9), (89.7, 87.5), (9.3, 11.9), (88.9, 86.4)
SPECS = {
    "views": (ViewsSpec(LINE, Privacy(50.0), (View(("x",), (6,), 50_000_000),)), 0.9),
    "hierarchy": (HierarchySpec(LINE, Privacy(50.0), depth=6, k=64, width=64), 0.9),
}


@pytest.mark.parametrize("family", SPECS)
def test_answers_of_little_noise_cover_the_readings_that_are_drawn(family):
    spec, least = SPECS[family]
    drawn, within = np.random.default_rng(1), []
    for _ in range(STREAMS):
        rows = np.clip(drawn.normal(50, 15, (MANY, 1)), 0, 100)
        release = noisy(exact(spec, rows), 1, drawn)
        model = margin(release, "x") if family == "views" else privhp(release)
        for found, real in (
            *((model.cdf("x", x), np.mean(rows <= x)) for x in (33.7, 47.9, 52.5, 61.1)),
            *((model.quantile("x", q), np.quantile(rows, q)) for q in (0.1, 0.5, 0.85)),
            (model.mean("x"), rows.mean()),
        ):
            within.append(abs(found.value - real) <= 2 * found.standard_error)
    assert np.mean(within) >= least


def test_the_variance_of_a_part_is_binomial():
    """A cell of an even density is cut at a quarter. Its neighbours are as dense, so that no
    unevenness adds to the error."""
    edges = np.arange(9)[:, None] / 8
    even = Partition(LINE, edges[:-1], edges[1:], np.full(8, 100.0), cells={0: Cells(3)})
    found = even.count({"x": (0, 28.125)})
    assert found.value == pytest.approx(225)
    assert found.standard_error == pytest.approx(np.sqrt(100 * 0.25 * 0.75))
    many = Partition(LINE, edges[:-1], edges[1:], np.full(8, 1e6), cells={0: Cells(3)})
    share = many.share({"x": (0, 28.125)})  # The control: of many readings it is nothing.
    assert share.standard_error < 0.0002
    assert even.count({"x": (0, 50)}).standard_error == 0


def test_a_number_in_two_bins_varies_as_a_hypergeometric_one():
    """Of 60 readings in a row of cells a third is inside, and 20 are in the other bin."""
    held = np.array([[20.0, 40.0], [7.0, 9.0]])
    one, other = np.array([[1 / 3, 1 / 3], [0, 0]]), np.array([[1.0, 0.0], [1.0, 0.0]])
    assert _sampled(held, one, other) == pytest.approx(60 * (1 / 3) * (2 / 3) * (1 / 3) * (2 / 3))
    drawn = np.random.default_rng(2).hypergeometric(20, 40, 20, 20_000)
    assert drawn.var() * 59 / 60 == pytest.approx(_sampled(held, one, other), rel=0.05)
    assert _sampled(held, np.round(one), other) == 0


def test_counts_of_two_attributes_with_little_noise():
    """Clusters have no dependence inside, although the two together are strongly dependent."""
    views = (View(("x",), (7,), 12_500_000), View(("y",), (7,), 12_500_000))
    spec = ViewsSpec(PLANE, Privacy(50.0), (*views, View(("x", "y"), (5, 5), 25_000_000)))
    drawn, within = np.random.default_rng(3), []
    for _ in range(3):
        centres = np.where(drawn.random((MANY, 1)) < 0.5, 10, 88)
        rows = centres + 1.5 * drawn.normal(size=(MANY, 2))
        model = pairwise(noisy(exact(spec, rows), 1, drawn), particles=1 << 12)
        for x, y in CORNERS:
            found = model.count(f"x > {x} & y <= {y}")
            real = np.sum((rows[:, 0] > x) & (rows[:, 1] <= y))
            within.append(abs(found.value - real) <= 2 * found.standard_error)
    assert np.mean(within) >= 0.9
