"""Views that must never change: a new version of the format gets a new file of vectors.

tests/vectors/views-v3.json holds specs, with atoms and without, readings, their positions, the
cells of each reading, counters, the wire bytes and what the model answers.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from pansketch import Attribute, Domain, Privacy, Release, View, ViewsSpec
from pansketch.domain.fixed_point import PositionEncoder
from pansketch.generators import pairwise
from pansketch_audit.mechanisms.zero_noise import NoNoise

FOLDER = Path(__file__).parents[2] / "vectors"
VECTORS = json.loads((FOLDER / "views-v3.json").read_text())


def spec_of(form):
    domain = Domain([Attribute(**attribute) for attribute in form["attributes"]])
    views = tuple(View(tuple(n), tuple(b), micro) for n, b, micro in form["views"])
    return ViewsSpec(domain, Privacy(**form["privacy"]), views)


def readings_of(vector):
    """A missing value is null."""
    return np.array(vector["readings"], np.float64)


@pytest.fixture(params=VECTORS, ids=[each["name"] for each in VECTORS])
def vector(request):
    return request.param


@pytest.fixture
def spec(vector):
    return spec_of(vector["spec"])


@pytest.fixture
def release(vector, spec, windows_of):
    counters = np.array(vector["counters"], np.int64)
    return Release(spec, windows_of(vector), vector["draws"], counters)


def test_fingerprint(vector, spec):
    assert spec.fingerprint.hex() == vector["fingerprint"]
    assert spec.nbytes == vector["nbytes"]


def test_positions_and_cells_of_each_reading(vector, spec):
    rows = readings_of(vector)
    (positions,) = (p.copy() for p in PositionEncoder(spec.domain, len(rows)).encode(rows))
    assert positions.T.tolist() == vector["positions"]
    for reading, cells in zip(rows, vector["cells"], strict=True):
        sketch = spec.start(NoNoise())
        sketch.update_many(reading[None])
        assert np.flatnonzero(sketch.release(NoNoise()).counters).tolist() == cells


def test_bytes(vector, release, has_golden_bytes):
    has_golden_bytes(vector, release)


def test_answers(vector, release):
    model = pairwise(release)
    for name, value in vector["answers"].items():
        found = model.count(name) if any(sign in name for sign in "<>=") else model.mean(name)
        assert found.value == pytest.approx(value, rel=1e-6)
