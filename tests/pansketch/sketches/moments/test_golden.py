"""Moment sketches that must never change: a new version of the format gets a new file of vectors.

tests/vectors/moments-v3.json holds specs, readings, their positions, the integers of a map, the
features of each reading, counters, the wire bytes and the model's answers. All integers are
compared exactly, because their computation is the same on every machine.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from pansketch import Attribute, Domain, MomentsSpec, Privacy, Release
from pansketch.domain.fixed_point import positions_of
from pansketch.generators import m2m
from pansketch_audit.mechanisms.zero_noise import NoNoise

FOLDER = Path(__file__).parents[3] / "vectors"
VECTORS = json.loads((FOLDER / "moments-v3.json").read_text())


@pytest.fixture(params=VECTORS, ids=[each["name"] for each in VECTORS])
def vector(request):
    return request.param


@pytest.fixture
def spec(vector):
    form = vector["spec"]
    domain = Domain([Attribute(**attribute) for attribute in form["attributes"]])
    return MomentsSpec(domain, Privacy(**form["privacy"]), form["features"], **form["sizes"])


@pytest.fixture
def release(vector, spec, windows_of):
    windows = windows_of(vector)
    return Release(spec, windows, vector["draws"], np.array(vector["counters"], np.int64))


def test_fingerprint(vector, spec):
    assert spec.fingerprint.hex() == vector["fingerprint"]
    assert spec.nbytes == vector["nbytes"]


def test_noise_scales(vector, spec):
    assert [str(scale) for scale in spec.scales] == vector["scales"]


def test_positions_and_the_integers_of_the_map(vector, spec):
    assert positions_of(spec.domain, _readings(vector)).T.tolist() == vector["positions"]
    assert spec.map.canonical.hex() == vector["map"]


def test_features_of_each_reading(vector, spec):
    for reading, features in zip(_readings(vector), vector["features"], strict=True):
        sketch = spec.start(NoNoise())
        sketch.update_many(reading[None])
        assert sketch.release(NoNoise()).counters.tolist() == [1, *features]


def test_bytes(vector, release, has_golden_bytes):
    has_golden_bytes(vector, release)


def test_answers(vector, release):
    """Of a training whose points are written out: numpy's generators may change."""
    model = m2m(release, np.array(vector["training"], np.float64))
    for name, (value, error) in vector["answers"].items():
        found = model.count(name) if any(sign in name for sign in "<>=") else model.mean(name)
        assert found.value == pytest.approx(value, rel=1e-6)
        assert found.standard_error == pytest.approx(error, rel=1e-6)


def _readings(vector):
    return np.array(vector["readings"], np.float64)
