"""Linear sketches: specs, states and the counters that they share."""

from pansketch.sketches.counter_bounds import MAX_INTRUSIONS, CounterBounds
from pansketch.sketches.distinct.keys import Keys
from pansketch.sketches.distinct.variants import Form, Variant
from pansketch.sketches.linear_counters import LinearSpec
from pansketch.sketches.moments.sketch import Features

__all__ = [
    "MAX_INTRUSIONS",
    "CounterBounds",
    "Features",
    "Form",
    "Keys",
    "LinearSpec",
    "Variant",
]
