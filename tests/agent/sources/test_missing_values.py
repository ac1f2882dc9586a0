"""Readings without a value, where an attribute can be missing."""

from math import isnan

import numpy as np
import pytest

from pansketch import Attribute, Domain, Privacy, View, ViewsSpec
from pansketch_agent.sources.decoders import ReadingDecoder
from pansketch_agent.sources.readings import drop
from pansketch_audit.mechanisms.zero_noise import NoNoise


def test_what_a_limiter_drops_is_absorbed_nowhere():
    """A NaN would count where an attribute can be missing."""
    domain = Domain([Attribute("temp", -40, 60, atoms=("missing",))])
    spec = ViewsSpec(domain, Privacy(1.0), (View(("temp",), (3,), 10**6),))
    rows = np.array([[np.nan], [5.0], [np.nan]])
    drop(rows, np.array([True, True, False]))
    sketch = spec.start(NoNoise())
    sketch.update_many(rows)
    assert sketch.release(NoNoise()).counters.tolist() == [0] * 7 + [1]


@pytest.mark.parametrize("written", ["{}", '{"temp": null}', '{"temp": "?"}', '{"temp": NaN}'])
def test_a_value_that_is_not_there_is_missing(written):
    decoder = ReadingDecoder(Domain([Attribute("temp", -40, 60, atoms=("missing",))]))
    rows = decoder.empty(1)
    taken = decoder.decode_line(memoryview(written.encode()), rows, 0)
    assert not taken or isnan(rows[0, 0])
    assert taken == ("NaN" not in written)  # No JSON: no reading.
