"""Bytes and answers that must never change: a new version of the format gets a new file of vectors.

tests/vectors/hierarchy-v3.json holds specs, readings, their cell paths, hashed columns, counters,
the wire bytes and what the generator answers. All integers are compared exactly.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from pansketch import Attribute, Domain, HierarchySpec, Privacy, Release, WireError, decode
from pansketch.domain.cell_paths import PathEncoder
from pansketch.generators import privhp

FOLDER = Path(__file__).parents[2] / "vectors"
VECTORS = json.loads((FOLDER / "hierarchy-v3.json").read_text())


@pytest.fixture(params=VECTORS, ids=[each["name"] for each in VECTORS])
def vector(request):
    return request.param


@pytest.fixture
def spec(vector):
    return build_spec(vector["spec"])


def build_spec(form):
    domain = Domain([Attribute(**attribute) for attribute in form["attributes"]])
    return HierarchySpec(domain, Privacy(**form["privacy"]), **form["sizes"])


@pytest.fixture
def release(vector, spec, windows_of):
    windows = windows_of(vector)
    return Release(spec, windows, vector["draws"], np.array(vector["counters"], np.int64))


def test_fingerprint(vector, spec):
    assert spec.fingerprint.hex() == vector["fingerprint"]
    assert spec.nbytes == vector["nbytes"]


def test_sizes_that_nobody_chose_never_change():
    """Devices and collectors of different versions must agree on them."""
    spec = HierarchySpec(Domain([Attribute("x", low=0, high=1)]), Privacy(epsilon=1.0))
    assert spec.fingerprint.hex() == "f9728233a6877307"


def test_noise_scales(vector, spec):
    assert [str(level.scale) for level in spec.levels] == vector["scales"]


def test_paths_and_columns(vector, spec):
    encoder = PathEncoder(spec.domain, spec.depth)
    paths = np.concatenate([p.copy() for p in encoder.encode(np.array(vector["readings"], float))])
    assert paths.tolist() == vector["paths"]
    columns = spec.sketched_levels[-1].hash.table(paths)
    assert columns.tolist() == vector["columns"]


def test_bytes(vector, release, has_golden_bytes):
    has_golden_bytes(vector, release)


def test_answers(vector, release):
    model = privhp(release)
    for name, (mean, median) in vector["answers"].items():
        assert model.mean(name).value == pytest.approx(mean, rel=1e-9)
        assert model.quantile(name, 0.5).value == pytest.approx(median, rel=1e-9)


@pytest.mark.parametrize("version", [0, 1, 2, 4, 255])
def test_another_version_is_refused_by_name(vector, spec, version):
    data = bytearray.fromhex(vector["bytes"])
    data[4] = version
    with pytest.raises(WireError, match=f"wire format {version} .*, only 3") as caught:
        decode(bytes(data), spec)
    assert caught.value.reason == "version"


def test_another_spec_is_refused_by_fingerprint(vector):
    other = build_spec({**vector["spec"], "privacy": {"epsilon": 0.123}})
    with pytest.raises(WireError) as caught:
        decode(bytes.fromhex(vector["bytes"]), other)
    assert caught.value.reason == "fingerprint"
