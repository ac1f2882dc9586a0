"""The density sketch's state: what a reading changes, what noise it carries, what it leaves."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from pansketch import (
    Attribute,
    CellsSpec,
    Domain,
    MergeError,
    Privacy,
    Release,
    Span,
    WindowId,
    decode,
    encode,
    merge,
    os_entropy,
)
from pansketch.domain.cell_paths import PathEncoder
from pansketch_audit.exact.readings import largest_loss
from pansketch_audit.mechanisms.mechanism import PRODUCTION
from pansketch_audit.mechanisms.subjects import Subject

UNIT = Domain([Attribute("x", low=0, high=1)])
SIZES = {"depth": 12, "width": 64, "rows": 3}
DEEP = {"depth": 28, "width": 64, "rows": 3}


@pytest.fixture
def make_cells(weather):
    def make(**changes):
        sizes = SIZES | changes
        privacy = sizes.pop("privacy", Privacy(epsilon=1.0))
        return CellsSpec(sizes.pop("domain", weather), privacy, **sizes)

    return make


def released(spec, rows, entropy):
    sketch = spec.start(entropy)
    sketch.update_many(rows)
    return sketch.release(entropy)


def paths_of(spec, rows):
    encoder = PathEncoder(spec.domain, spec.depth)
    return np.concatenate([paths.copy() for paths in encoder.encode(rows)])


def counted_one_by_one(spec, rows):
    """The counters without noise, from the definition."""
    counters = np.zeros(sum(spec.blocks), np.int64)
    counters[0] = len(rows)
    for path in paths_of(spec, rows):
        for table in spec.tables:
            cell = np.array([path >> np.uint64(spec.depth - table.bits)], np.uint64)
            for row, slot in enumerate(table.hash.table(cell)[:, 0]):
                place = table.offset + row * table.width + slot // 2
                counters[place] += -1 if slot % 2 else 1
    return counters


@pytest.mark.parametrize("sizes", [SIZES, DEEP, {"depth": 3, "width": 2, "rows": 7}])
@pytest.mark.parametrize("count", [1, 16, 17, 400])
def test_counters_follow_the_definition(make_cells, readings, no_noise, sizes, count):
    spec = make_cells(**sizes)
    rows = readings(count)
    assert (released(spec, rows, no_noise).counters == counted_one_by_one(spec, rows)).all()


@pytest.mark.parametrize("sizes", [SIZES, DEEP])
@pytest.mark.parametrize("unit", ["reading", Span(60, 4)])
def test_a_reading_costs_exactly_epsilon(make_cells, readings, no_noise, sizes, unit):
    """It changes K counters of each table by 1 and the number of readings by 1. Each change over
    its counter's scale sums to the reading's share of epsilon, as rationals."""
    spec = make_cells(**sizes, privacy=Privacy(epsilon=0.7, unit=unit))
    share = Fraction(7, 10) / (4 if isinstance(unit, Span) else 1)
    scales = np.repeat(np.array(spec.scales, object), spec.blocks)
    common = readings(50)
    before = released(spec, common, no_noise).counters
    for reading in readings(20, seed=1):
        rows = np.concatenate([common, reading[None]])
        change = released(spec, rows, no_noise).counters - before
        assert change[0] == 1
        for table in spec.tables:
            block = change[table.offset : table.offset + table.size].reshape(table.rows, -1)
            assert (np.abs(block).sum(axis=1) == 1).all()
        assert sum(abs(int(c)) / s for c, s in zip(change, scales, strict=True)) == share


def test_two_rows_lose_exactly_epsilon():
    """Production code over all tapes. The control: noise of half the scale loses twice as much."""
    privacy = Privacy(epsilon=1.0, intrusion="announced")
    spec = CellsSpec(UNIT, privacy, depth=1, width=2, rows=2)
    universe = np.array([[0.25], [0.75]])
    subject = Subject("two rows", spec, universe, lambda sketch: sketch._counters.copy())
    for view in ("terminal", "published"):
        loss = largest_loss(PRODUCTION, subject, view, 0)
        assert (loss.exact, loss.value) == (True, 1.0)
    halved = replace(spec)
    object.__setattr__(halved, "count_scale", spec.count_scale / 2)
    tables = tuple(replace(table, scale=table.scale / 2) for table in spec.tables)
    object.__setattr__(halved, "tables", tables)
    assert largest_loss(PRODUCTION, replace(subject, spec=halved), "published", 0).value == 2.0


def test_twelve_parts_merged_are_the_sketch_of_all(make_cells, readings, no_noise):
    spec, rows = make_cells(), readings(12_000)
    whole = released(spec, rows, no_noise)
    parts = merge([released(spec, part, no_noise) for part in np.array_split(rows, 12)])
    assert whole.counters.tobytes() == parts.counters.tobytes()


@pytest.mark.parametrize(
    ("depth", "bits"),
    [
        (1, [1]),
        (20, [20]),
        (21, [16, 21]),
        (24, [16, 24]),
        (25, [16, 20, 25]),
        (48, [16, 24, 32, 40, 48]),
    ],
)
def test_tables_beyond_what_can_be_enumerated_guide_a_descent(depth, bits):
    spec = CellsSpec(
        Domain([Attribute("x", low=0, high=1), Attribute("y", low=0, high=1)]),
        Privacy(epsilon=1.0),
        depth=depth,
        width=16,
    )
    assert [table.bits for table in spec.tables] == bits
    assert all(fine - coarse <= 8 for coarse, fine in pairwise(bits))
    assert spec.blocks == (1, *[48] * len(bits))
    assert spec.nbytes == 4 * sum(spec.blocks)


@pytest.mark.parametrize(("intrusion", "draws"), [("silent", 2), ("announced", 1)])
def test_noise_is_drawn_at_the_start_and_in_silent_mode_again(
    make_cells, known_noise, intrusion, draws
):
    spec = make_cells(**DEEP, privacy=Privacy(epsilon=1.0, intrusion=intrusion))
    entropy = known_noise(1)
    sketch = spec.start(entropy)
    assert [scale for scale, _ in entropy.draws] == list(spec.scales)
    release = sketch.release(entropy)
    assert [scale for scale, _ in entropy.draws] == list(spec.scales) * draws
    assert release.draws == draws
    drawn = np.concatenate([each for _, each in entropy.draws]).reshape(draws, -1)
    assert (release.counters == drawn.sum(axis=0)).all()


def test_an_announced_intrusion_draws_again(make_cells, known_noise, readings):
    spec, entropy = make_cells(), known_noise(2)
    sketch = spec.start(entropy)
    sketch.update_many(readings(5))
    sketch.rerandomise(entropy)
    assert len(entropy.draws) == 2 * len(spec.blocks)
    assert sketch.release(entropy).draws == 3


@pytest.mark.parametrize("count", [5, 3000])
def test_scratch_is_overwritten_after_use(make_cells, readings, count):
    sketch = make_cells().start(os_entropy())
    sketch.update_many(readings(count))
    counter = sketch._absorber._counter
    held = [counter._prefixes, counter._scratch, counter._tally, counter._columns, counter._signs]
    assert not any(array.any() for array in held)


def test_the_state_is_erased_at_the_release(make_cells, readings):
    sketch = make_cells().start(os_entropy())
    sketch.update_many(readings(100))
    sketch.release(os_entropy())
    assert not sketch._counters.any()


def test_a_sketch_shows_its_spec_and_never_its_state(make_cells):
    spec = make_cells()
    sketch = spec.start(os_entropy())
    assert repr(sketch) == f"LinearSketch({spec!r})"
    with pytest.raises(TypeError, match="never copied"):
        sketch.__reduce__()


def test_readings_that_are_no_numbers_are_dropped_and_wild_ones_clipped(make_cells, no_noise):
    spec = make_cells()
    wild = np.array([[np.nan, 1.0], [1.0, np.inf], [-1e9, 1e9]])
    clipped = np.array([[-40.0, 1000.0]])
    assert (
        released(spec, wild, no_noise).counters == released(spec, clipped, no_noise).counters
    ).all()


def test_every_public_field_is_in_the_fingerprint(make_cells):
    spec = make_cells()
    others = [
        make_cells(depth=13),
        make_cells(width=128),
        make_cells(rows=2),
        make_cells(hash_key=1),
        make_cells(privacy=Privacy(epsilon=2.0)),
        make_cells(privacy=Privacy(epsilon=1.0, intrusion="announced")),
        make_cells(privacy=Privacy(epsilon=1.0, unit=Span(60, 1))),
        make_cells(domain=UNIT),
    ]
    assert len({each.fingerprint for each in [spec, *others]}) == len(others) + 1
    assert make_cells().fingerprint == spec.fingerprint
    assert spec.for_window(7) is spec
    assert spec.additive


def test_different_hashing_does_not_merge(make_cells, readings):
    a, b = (released(make_cells(hash_key=key), readings(5), os_entropy()) for key in (0, 1))
    with pytest.raises(MergeError, match="different specs"):
        merge([a, b])


def test_sizes_on_the_wire_are_known_beforehand(make_cells, readings):
    for spec in (make_cells(), make_cells(**DEEP), make_cells(width=4096, rows=5)):
        for count in (0, 200_000):
            data = encode(released(spec, readings(count), os_entropy()))
            assert len(data) <= spec.max_release_nbytes
        assert len(encode(released(spec, readings(0), os_entropy()))) <= 1.1 * spec.release_nbytes
        assert decode(data, spec).counters[0] > 190_000


def test_a_receiver_s_limit_lets_counters_of_any_bits_pass(make_cells):
    """As noise that wraps gives them."""
    spec = make_cells(width=4096, rows=5)
    counters = np.random.default_rng(1).integers(-(2**31), 2**31, sum(spec.blocks))
    window = WindowId("d" * 255, "s" * 255, 2**62, 0, 60)
    whole = encode(Release(spec, (window,), spec.guarantee.draws, counters))
    assert spec.nbytes < len(whole) <= spec.max_release_nbytes


def test_a_digest_is_as_long_as_the_masks_that_are_bound_to_it_need(make_cells):
    """256 bits, of which a collision costs 2**128 steps; the fingerprint only finds mistakes."""
    specs = make_cells(), make_cells(hash_key=1)
    assert [len(spec.digest) for spec in specs] == [32, 32]
    assert len({spec.digest for spec in specs}) == 2


@pytest.mark.parametrize(
    ("sizes", "line"),
    [
        ({"depth": 0}, "depth must lie between 1 and 48, not 0"),
        ({"depth": 49}, "depth must lie between 1 and 48, not 49"),
        ({"depth": 31, "domain": UNIT}, "depth 31 is more than the 30 bits"),
        ({"depth": True}, "depth must be a whole number, not bool"),
        ({"width": 3000}, "width must be a power of two, not 3000"),
        ({"width": 1}, "width must lie between 2 and"),
        ({"rows": 17}, "rows must lie between 1 and 16, not 17"),
        ({"rows": 2.0}, "rows must be a whole number, not float"),
        ({"hash_key": -1}, "hash_key must lie between 0 and"),
        ({"privacy": Privacy(epsilon=1.0, unit="key")}, "counts readings, not keys"),
    ],
)
def test_sizes_that_cannot_be_are_refused(make_cells, sizes, line):
    with pytest.raises(ValueError, match=line):
        make_cells(**sizes)


def test_readings_of_another_shape_are_refused(make_cells):
    sketch = make_cells().start(os_entropy())
    for shape in ((3,), (3, 1), (1, 3, 2)):
        with pytest.raises(ValueError, match="readings must have shape"):
            sketch.update_many(np.zeros(shape))
