"""Views serve readings in a small part of loose bounds, and cells that a learned scale cut."""

import numpy as np
import pytest

from pansketch import Attribute, Domain, Privacy
from pansketch.planning import Expected, NoPlan, plan_views, selection, view_planner
from pansketch.planning.selection import Case, Shape
from pansketch.planning.view_errors import Layout, ViewSizes
from pansketch.planning.view_plan import StatedViews

NAMES = ("a", "b", "c", "d")
MEMORY = 1 << 17
HOUR = Expected(2000, devices=10)
PARTS = 64


def numbers(knots=()):
    scale = {"scale": "learned", "knots": knots} if knots else {}
    first = Attribute(NAMES[0], low=0, high=1, **scale)
    return Domain([first, *(Attribute(name, low=0, high=1) for name in NAMES[1:])])


def learned(parts=PARTS):
    """Most parts are in a tenth of the bounds, and the last ones are wide."""
    crowded = np.linspace(0.0, 0.1, parts - 2)
    return (*crowded.tolist(), 0.4, 0.7, 1.0)


def alone(plan, name=NAMES[0]):
    """Bits of the view of one attribute."""
    return plan.shapes[plan.sets.index((name,))][0]


def displaced(plan):
    """W1, in standard deviations, of readings in a hundredth of the bounds in the cells of a plan,
    without noise."""
    layout = Layout(Domain(numbers().attributes[:1]), [(NAMES[0],)])
    sizes = ViewSizes([[float(1 << plan.single_bits)]], [np.full(1, 0.01)])
    return float(layout.errors(sizes, [Case(Shape(6), 1, HOUR.total)]).marginal[0])


def test_readings_in_a_hundredth_of_their_bounds_are_in_several_cells(monkeypatch):
    """Without cells of their own they would be even in a cell as wide as all of them. The control
    is a planner that knows no range below a twelfth of the bounds."""
    plan = plan_views(numbers(), Privacy(1.0), MEMORY, HOUR)
    assert displaced(plan) < 0.3
    known = tuple(shape for shape in selection.NEAR if shape.narrow < 4)
    monkeypatch.setattr(view_planner, "NEAR", known)
    view_planner._predicted.cache_clear()
    other = plan_views(numbers(), Privacy(1.0), MEMORY, HOUR)
    view_planner._predicted.cache_clear()
    assert not displaced(other) < 0.3


def test_a_heavy_tail_makes_a_displacement_small_in_deviations():
    """The range of most readings is as narrow, so a pair is no better known."""
    layout = Layout(numbers(), [(name,) for name in NAMES])
    sizes = ViewSizes([[256.0]] * 4, [np.full(1, 0.01)] * 4)
    plain, heavy = (
        layout.errors(sizes, [Case(shape, 1, HOUR.total)]) for shape in (Shape(7), Shape(7, tail=2))
    )
    assert heavy.marginal[0] < plain.marginal[0] / 3
    assert heavy.pair[0] == plain.pair[0]


def test_no_crowd_asks_for_more_than_512_cells():
    """A twelfth of the bounds does, which is the control."""
    layout = Layout(numbers(), [(name,) for name in NAMES])

    def hidden(cells, narrow):
        sizes = ViewSizes([[cells]] * 4, [np.full(1, 0.01)] * 4)
        return float(layout.errors(sizes, [Case(Shape(narrow), 1, HOUR.total)]).marginal[0])

    assert hidden(256.0, 6) > 2 * hidden(512.0, 6)
    assert hidden(512.0, 6) == pytest.approx(hidden(1024.0, 6), rel=1e-3)
    assert hidden(512.0, 2) != pytest.approx(hidden(1024.0, 2), rel=1e-3)


def test_every_part_of_a_learned_scale_has_a_cell():
    """In 16 cells the readings below 0.4 would be spread up to 1. The control has no knots."""
    privacy, few = Privacy(1.0), Expected(200, devices=10)
    for stated in (StatedViews(), StatedViews(single_bits=4)):
        plan = plan_views(numbers(learned()), privacy, MEMORY, few, None, stated)
        assert 1 << alone(plan) >= PARTS
        assert alone(plan) > plan.single_bits or stated.single_bits is None
    control = plan_views(numbers(), privacy, MEMORY, few, None, StatedViews(single_bits=4))
    assert 1 << alone(control) < PARTS


def test_atoms_take_none_of_the_cells_of_a_learned_scale():
    attribute = Attribute("a", low=0, high=1, scale="learned", knots=learned(), atoms=(0,))
    plan = plan_views(
        Domain([attribute, *numbers().attributes[1:]]), Privacy(1.0), MEMORY, Expected(200, 10)
    )
    values = attribute.placed.values_share
    assert values < 1
    assert (1 << alone(plan)) * values >= PARTS


def test_a_small_memory_is_reason_enough_for_wider_cells():
    knots = learned(1024)
    assert 1 << alone(plan_views(numbers(knots), Privacy(1.0), MEMORY, HOUR)) == 1024
    assert 1 << alone(plan_views(numbers(knots), Privacy(1.0), 2048, HOUR)) < 1024
    with pytest.raises(NoPlan):
        plan_views(numbers(knots), Privacy(1.0), 16, HOUR)
