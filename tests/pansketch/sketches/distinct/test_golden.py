"""Distinct counters, their bytes and their answers, which must never change.

tests/vectors/distinct-v3.json holds the words of texts. For some specs it holds the derived fields,
the fingerprints of windows, the slots of keys, counters, the wire bytes and the answers.
distinct-levels-v3.json holds the same of specs without a guess of the number of keys. Integers are
compared exactly.
"""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from pansketch import DistinctSpec, NoEstimate, Privacy, Release, hash_keys
from pansketch.sketches.distinct.slots import HashedSlots, LevelSlots, PermutedSlots

FOLDER = Path(__file__).parents[3] / "vectors"
VECTORS = json.loads((FOLDER / "distinct-v3.json").read_text())
LEVELS = json.loads((FOLDER / "distinct-levels-v3.json").read_text())
SPECS = VECTORS["specs"] + LEVELS["specs"]


@pytest.fixture(params=SPECS, ids=[each["name"] for each in SPECS])
def vector(request):
    return request.param


@pytest.fixture
def spec(vector):
    form = dict(vector["spec"])
    share = form.pop("output_share", None)
    return DistinctSpec(
        Privacy(**form.pop("privacy"), unit="key"),
        output_share=share and Fraction(share),
        **form,
    )


@pytest.fixture
def release(vector, spec, windows_of):
    windows = windows_of(vector)
    return Release(spec, windows, vector["draws"], np.array(vector["counters"], np.int64))


def test_words_of_texts():
    texts, words = VECTORS["texts"], VECTORS["words"]
    assert hash_keys(texts).tolist() == words
    assert hash_keys([text.encode() for text in texts]).tolist() == words


def test_what_a_spec_derives(vector, spec):
    promise = spec.guarantee
    assert [spec.tracked, spec.level, spec.slots, spec.nbytes] == vector["sizes"]
    assert list(spec.levels) == vector.get("levels", [])
    assert [promise.state_micro, promise.release_micro] == vector["epsilons"]
    thresholds = [chance.first_bits(64) for chance in spec.chances]
    assert thresholds == vector["chances"]


def test_fingerprints(vector, spec):
    assert spec.fingerprint.hex() == vector["fingerprint"]
    for index, fingerprint in vector["fingerprints_of_windows"].items():
        assert spec.for_window(int(index)).fingerprint.hex() == fingerprint


def _slots(spec):
    if spec.levels:
        return LevelSlots(spec.hash_key, spec.levels)
    if spec.universe is None:
        return HashedSlots(spec.hash_key, spec.tracked, spec.level)
    return PermutedSlots(spec.hash_key, spec.universe)


def test_slots_of_keys(vector, spec):
    words = np.array(vector["keys"], np.uint64)
    _slots(spec).place(words)
    assert words.tolist() == vector["slots"]


def test_bytes(vector, release, has_golden_bytes):
    has_golden_bytes(vector, release)


def test_answers(vector, spec, release):
    if vector["distinct"] is None:
        with pytest.raises(NoEstimate):
            release.distinct()
        return
    answer = release.distinct()
    assert [answer.value, answer.standard_error] == pytest.approx(vector["distinct"], rel=1e-9)
    if spec.universe is not None:
        density = release.density()
        assert [density.value, density.standard_error] == pytest.approx(vector["density"], rel=1e-9)
