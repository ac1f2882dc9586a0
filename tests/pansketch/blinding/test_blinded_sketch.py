"""Sketches with masks: what is counted comes out exactly, and nothing of it shows before."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pansketch import Privacy, SketchClosed, os_entropy
from pansketch.blinding import SodiumMasks, start
from pansketch.blinding.masks import MAX_EPOCHS
from pansketch_collector.validation import accepted_specs
from pansketch_fleet.config import blinded_summary
from tests.pansketch.blinding.fleet import (
    BLINDED,
    FLEET,
    SMALL,
    SPECS,
    QuietKeys,
    begun,
    counted,
    fleet_of,
    keepers,
    label,
    masked,
    opened,
    public,
)
from tests.pansketch.sketches.families import FAMILIES, uniform

ALPHA = 1e-7


@pytest.fixture(params=SPECS.values(), ids=SPECS)
def spec(request):
    return request.param


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("epochs", [2, 3, 6])
def test_masks_cancel_exactly(spec, count, epochs):
    found, rows = keepers(count), uniform(50)
    released = masked(spec, found, rows, epochs=epochs)
    assert (len(released.epochs), len(released.keepers)) == (epochs, count)
    assert (released.counters != counted(spec, rows)).any()
    unblinded = opened(spec, found, [released])
    assert (unblinded.counters == counted(spec, rows)).all()
    assert (unblinded.draws, unblinded.windows) == (count, (label(),))


def test_devices_add_up(spec):
    found = keepers()
    releases, rows = fleet_of(spec, found)
    unblinded = opened(spec, found, releases)
    assert (unblinded.counters == counted(spec, rows)).all()
    assert [window.device for window in unblinded.windows] == ["dev-0", "dev-1", "dev-2"]


def test_readings_are_absorbed_in_any_batches(spec):
    found, rows, rng = keepers(), uniform(60), QuietKeys()
    sketch = begun(spec, found, rng=rng)
    for part in (rows[:1], rows[1:4], rows[4:4], rows[4:]):
        sketch.update_many(part)
    unblinded = opened(spec, found, [sketch.release(rng)])
    assert (unblinded.counters == counted(spec, rows)).all()


def test_counters_that_wrap_lose_nothing():
    """Masks are uniform, so sums pass both ends of the range of an int32 all the time."""
    found, rows = keepers(), uniform(300)
    crossed = 0
    for _ in range(20):
        sketch = begun(SMALL, found)
        before = sketch._counters.copy()
        sketch._counters[:] = np.iinfo(np.int32).max - 1
        sketch.update_many(rows)
        crossed += int((sketch._counters < 0).sum())
        change = sketch._counters - (np.iinfo(np.int32).max - 1)
        assert (change == counted(SMALL, rows)).all()
        assert before.dtype == np.int32
    assert crossed


def uniform_bytes(counters):
    """The p-value of a chi-square test of all bytes: below ALPHA with that chance if uniform."""
    return stats.chisquare(np.bincount(counters.view(np.uint8).ravel(), minlength=256)).pvalue


def test_snapshots_and_releases_are_uniform():
    """Each of three p-values is below 1e-6 with a chance of 1e-6. The control: local counters."""
    found, rows = keepers(), uniform(200)
    seen = {"snapshot": [], "later": [], "release": []}
    for _ in range(60):
        sketch = begun(SMALL, found)
        sketch.update_many(rows)
        seen["snapshot"].append(sketch._counters.copy())
        sketch.begin_epoch(QuietKeys())
        seen["later"].append(sketch._counters - seen["snapshot"][-1])
        last = sketch._counters.copy()
        seen["release"].append(sketch.release(QuietKeys()).counters - last)
    for differences in seen.values():
        assert uniform_bytes(np.array(differences)) > ALPHA
    local = replace(SMALL, privacy=Privacy(epsilon=1.0)).start(os_entropy())
    assert uniform_bytes(local._counters) < ALPHA, "the control"


def test_nothing_is_released_twice():
    sketch = begun(SMALL, keepers())
    sketch.release(QuietKeys())
    assert not sketch._counters.any()
    for late in (sketch.release, sketch.begin_epoch, sketch.rerandomise):
        with pytest.raises(SketchClosed):
            late(QuietKeys())
    with pytest.raises(SketchClosed):
        sketch.update_many(uniform(1))


def test_a_release_that_fails_is_not_tried_again():
    class Broken(QuietKeys):
        def fill_words(self, words):
            raise OSError("no randomness")

    sketch = begun(SMALL, keepers())
    with pytest.raises(OSError, match="no randomness"):
        sketch.release(Broken())
    with pytest.raises(SketchClosed):
        sketch.release(QuietKeys())


def test_an_epoch_that_fails_leaves_a_sketch_that_counts_on(spec):
    class Broken(QuietKeys):
        def fill_words(self, words):
            raise OSError("no randomness")

    found, rows = keepers(), uniform(20)
    sketch = begun(spec, found)
    with pytest.raises(OSError, match="no randomness"):
        sketch.begin_epoch(Broken())
    sketch.update_many(rows)
    unblinded = opened(spec, found, [sketch.release(QuietKeys())])
    assert (unblinded.counters == counted(spec, rows)).all()


def test_an_announced_intrusion_is_an_epoch():
    found, rows, rng = keepers(), uniform(9), QuietKeys()
    sketch = begun(SMALL, found, rng=rng)
    sketch.update_many(rows)
    before = sketch._counters.copy()
    sketch.rerandomise(rng)
    assert (sketch._counters != before).any()
    released = sketch.release(rng)
    assert len(released.epochs) == len(set(released.epochs)) == 3
    assert (opened(SMALL, found, [released]).counters == counted(SMALL, rows)).all()


def test_a_window_has_a_bounded_number_of_epochs(monkeypatch):
    monkeypatch.setattr("pansketch.blinding.masks.MAX_EPOCHS", 3)
    found = keepers()
    sketch = begun(SMALL, found)
    sketch.begin_epoch(QuietKeys())
    for _ in range(2):
        with pytest.raises(ValueError, match="3 epochs at most"):
            sketch.begin_epoch(QuietKeys())
    sketch.update_many(uniform(9))
    released = sketch.release(QuietKeys())  # The last one is left for it.
    assert (opened(SMALL, found, [released]).counters == counted(SMALL, uniform(9))).all()
    assert MAX_EPOCHS > 1440, "one a minute of a day"


def test_devices_configurations_and_the_collector_agree_how_many_epochs_a_window_has():
    assert MAX_EPOCHS == blinded_summary.MAX_EPOCHS == accepted_specs.MAX_EPOCHS


def test_a_sketch_is_not_copied_and_shows_its_spec_only():
    sketch = begun(SMALL, keepers())
    assert repr(sketch) == f"BlindedSketch({SMALL!r})"
    for copier in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="secret"):
            copier(sketch)


def test_a_blinded_spec_has_no_local_sketch_and_a_local_one_no_masks(spec):
    with pytest.raises(ValueError, match=r"pansketch\.blinding\.start"):
        spec.start(os_entropy())
    local = replace(spec, privacy=Privacy(epsilon=1.0))
    for other in (local, FAMILIES["distinct-hashed-count-silent"].spec):
        with pytest.raises(ValueError, match="not blinded"):
            start(other, QuietKeys(), FLEET, label(), public(keepers()))
    assert local.fingerprint != spec.fingerprint


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda keys: keys[:1], "2 to 16"),
        (lambda keys: keys * 20, "2 to 16"),
        (lambda keys: (keys[0], keys[0]), "given twice"),
        (lambda keys: (keys[0], keys[1][:31]), "32 bytes"),
        (lambda keys: (keys[0], bytes(32)), "low order"),
    ],
)
def test_keepers_that_hide_nothing_are_refused(change, text):
    with pytest.raises(ValueError, match=text):
        start(SMALL, QuietKeys(), FLEET, label(), change(public(keepers())))


def test_the_state_has_the_size_that_the_spec_states(spec):
    sketch = begun(spec, keepers())
    assert sketch._counters.nbytes == spec.nbytes == spec.release_nbytes


def test_local_noise_lies_under_the_masks(known_noise):
    """Two draws of an eighth of the scale: one at the start, one at the release."""

    class Known(QuietKeys):
        def __init__(self):
            super().__init__()
            self.tape = known_noise(1)

        def add_discrete_laplace(self, scale, counters):
            self.tape.add_discrete_laplace(scale, counters)

    weak = replace(SMALL, privacy=replace(BLINDED, local_epsilon=8.0))
    found, rows, rng = keepers(), uniform(30), Known()
    released = masked(weak, found, rows, rng=rng)
    drawn = [scale for scale, _ in rng.tape.draws]
    assert drawn == [scale / 8 for scale in weak.scales] * 2
    noise = np.concatenate([values for _, values in rng.tape.draws]).reshape(2, -1).sum(axis=0)
    unblinded = opened(weak, found, [released])
    assert (unblinded.counters == counted(weak, rows) + noise).all()
    assert unblinded.noise == 2 + 2 / 64
    assert weak.fingerprint != SMALL.fingerprint


def test_masks_of_one_object_serve_many_sketches():
    found, by = keepers(), SodiumMasks()
    releases = []
    for sequence in (1, 2):
        sketch = start(SMALL, QuietKeys(), FLEET, label(sequence=sequence), public(found), by)
        sketch.update_many(uniform(5))
        releases.append(sketch.release(QuietKeys()))
    assert (opened(SMALL, found, releases).counters == 2 * counted(SMALL, uniform(5))).all()
