"""Density sketches: bytes and answers that must never change (see
pansketch/sketches/test_golden_hierarchy.py).

tests/vectors/cells-v3.json holds specs, noise scales, readings, their cell paths and slots,
counters, the wire bytes, and the heavy cells that are found. Integers are compared exactly.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from pansketch import Attribute, CellsSpec, Domain, Privacy, Release, WireError, decode
from pansketch.domain.cell_paths import PathEncoder
from pansketch.generators import density

FOLDER = Path(__file__).parents[2] / "vectors"
VECTORS = json.loads((FOLDER / "cells-v3.json").read_text())


@pytest.fixture(params=VECTORS, ids=[each["name"] for each in VECTORS])
def vector(request):
    return request.param


@pytest.fixture
def spec(vector):
    return build_spec(vector["spec"])


@pytest.fixture
def release(vector, spec, windows_of):
    windows = windows_of(vector)
    return Release(spec, windows, vector["draws"], np.array(vector["counters"], np.int64))


def build_spec(form):
    domain = Domain([Attribute(**attribute) for attribute in form["attributes"]])
    return CellsSpec(domain, Privacy(**form["privacy"]), **form["sizes"])


def test_fingerprint_and_sizes(vector, spec):
    assert spec.fingerprint.hex() == vector["fingerprint"]
    assert spec.nbytes == vector["nbytes"]
    assert list(spec.blocks) == vector["blocks"]
    assert [str(scale) for scale in spec.scales] == vector["scales"]


def test_paths_and_slots(vector, spec):
    encoder = PathEncoder(spec.domain, spec.depth)
    readings = np.array(vector["readings"], float)
    paths = np.concatenate([found.copy() for found in encoder.encode(readings)])
    assert paths.tolist() == vector["paths"]
    slots = [t.hash.table(paths >> np.uint64(spec.depth - t.bits)).tolist() for t in spec.tables]
    assert slots == vector["slots"]


def test_bytes(vector, release, has_golden_bytes):
    has_golden_bytes(vector, release)


@pytest.mark.parametrize("way", ["fitted", "published"])
def test_answers(vector, release, way):
    expected = vector["answers"][way]
    model = density(release, cells=vector["cells"], as_published=way == "published")
    assert model.paths.tolist() == expected["cells"]
    assert model.capture_ratio == pytest.approx(expected["capture_ratio"], rel=1e-9)
    for name, mean in expected["means"].items():
        assert model.partition.mean(name).value == pytest.approx(mean, rel=1e-9)


def test_another_hash_key_is_refused_by_fingerprint(vector):
    form = vector["spec"]
    other = build_spec(form | {"sizes": form["sizes"] | {"hash_key": 1}})
    with pytest.raises(WireError) as caught:
        decode(bytes.fromhex(vector["bytes"]), other)
    assert caught.value.reason == "fingerprint"
