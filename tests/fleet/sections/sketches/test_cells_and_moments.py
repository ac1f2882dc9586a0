"""Sketches of cells and of moments: what a good configuration becomes, one line for a wrong one."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pansketch import CellsSpec, MomentsSpec, Privacy, Span
from pansketch_fleet.config.loader import ConfigError, describe, load_agent
from pansketch_fleet.sections.sketches.moments import SIZES
from pansketch_fleet.settings.profiles import every

# Line numbers in the tests are those of this text.
READINGS = """\
fleet: site
mqtt: {url: "mqtt://broker.example"}
agent: {device: post-7, profile: pi-zero-2w}
streams:
  air:
    source: {type: replay, path: air.csv}
    window: 1h
    privacy: {epsilon: 2}
    attributes:
      temp: {low: -40, high: 60}
      wind: {categories: [N, NO, E]}
    sketches:
      - type: cells
        depth: 14
        rows: 5
"""
CELLS = READINGS[READINGS.index("        depth") :]
MOMENTS = """\
    sketches:
      - type: moments
        features: race
        rows: 40
        sigma: 0.25
        count_share: 0.1
"""
AIR, ONE = "streams.air", "sketches[0]"


def moments(sizes=MOMENTS):
    return READINGS[: READINGS.index("    sketches:")] + sizes


def spec_of(load_text, sketch):
    return load_text(moments(f"    sketches: [{{{sketch}}}]\n")).streams[0].spec


def test_cells_have_the_sizes_that_are_stated_and_defaults_for_the_rest(load_text):
    (stream,) = load_text(READINGS).streams
    spec = stream.spec
    assert isinstance(spec, CellsSpec)
    assert spec.privacy == Privacy(2, unit="reading", intrusion="silent")
    assert (spec.depth, spec.width, spec.rows) == (14, 2048, 5)
    assert stream.domain == spec.domain
    bare = spec_of(load_text, "type: cells")
    assert (bare.depth, bare.width, bare.rows) == (12, 2048, 3)


def test_a_depth_that_is_left_out_shrinks_to_what_the_attributes_have(load_text):
    few = moments("    sketches: [{type: cells}]\n").replace(
        "      temp: {low: -40, high: 60}\n", ""
    )
    assert load_text(few).streams[0].spec.depth == 2
    with pytest.raises(ConfigError, match="depth 3 is more than the 2 bits") as caught:
        load_text(few.replace("type: cells", "type: cells, depth: 3"))
    assert caught.value.where == f"{AIR}.{ONE}.depth"


def test_moments_have_the_sizes_of_their_features(load_text):
    spec = load_text(moments()).streams[0].spec
    assert isinstance(spec, MomentsSpec)
    assert (spec.features, spec.rows, spec.width) == ("race", 40, 80)
    assert (spec.sigma, spec.count_share) == (0.25, 0.1)
    plain = spec_of(load_text, "type: moments")
    assert (plain.features, plain.m, plain.sigma, plain.count_share) == ("rff", 200, 1.0, 0.02)
    hist = spec_of(load_text, "type: moments, features: hist, bins: 10")
    assert (hist.features, hist.bins) == ("hist", 10)


def test_what_is_not_stated_is_the_library_s_own_default(load_text):
    domain = load_text(READINGS).streams[0].domain
    own = CellsSpec(domain, Privacy(2, unit="reading"))
    assert (own.depth, own.width, own.rows) == (12, 2048, 3)
    for features, sizes in SIZES.items():
        spec = MomentsSpec(domain, Privacy(2, unit="reading"), features=features)
        assert {name: getattr(spec, name) for name in sizes} == dict(sizes)


@pytest.mark.parametrize(
    "sketch", ["type: cells", *(f"type: moments, features: {name}" for name in SIZES)]
)
def test_every_device_class_has_room_for_the_same_sketch(load_text, sketch):
    found = set()
    for profile in every():
        text = moments(f"    sketches: [{{{sketch}}}]\n").replace("pi-zero-2w", profile.name)
        config = load_text(text)  # refuses a state beyond the profile's memory
        found.add(config.streams[0].spec.fingerprint)
        assert list(config.specs(config.streams[0])) == [config.streams[0].spec.fingerprint]
    assert len(found) == 1


@pytest.mark.parametrize("text", [READINGS, moments()])
def test_fleets_and_streams_hash_differently_and_programs_agree(load_text, text):
    agent, collector = (load_text(text, program).streams[0] for program in ("agent", "collector"))
    assert agent == collector
    assert hash(agent.plan) == hash(collector.plan)
    for old, new in (("fleet: site", "fleet: mine"), ("  air:\n", "  sea:\n")):
        other = load_text(text.replace(old, new)).streams[0].spec
        assert other.fingerprint != agent.spec.fingerprint


@pytest.mark.parametrize("text", [READINGS, moments()])
def test_a_span_is_a_unit_of_these_too(load_text, text):
    spec = load_text(text.replace("epsilon: 2", "epsilon: 2, unit: {span: 10m, max_readings: 4}"))
    guarantee = spec.streams[0].spec.guarantee
    assert guarantee.unit == Span(600, 4)
    assert (guarantee.epsilon_micro, guarantee.reading_micro) == (2_000_000, 500_000)


def shown(config):
    described = describe(config)
    found = {s.path: (s.value_text, s.origin.rpartition(":")[2]) for s in described}
    assert len(found) == len(described)
    return {key.removeprefix(f"{AIR}.{ONE}."): value for key, value in found.items()}


def test_print_config_shows_sizes_and_bytes(load_text):
    found = shown(load_text(READINGS))
    assert found["type"] == ("cells", "13")
    assert (found["depth"], found["width"]) == (("14", "14"), ("2048", "default"))
    assert found["state_bytes"] == (str(4 * (1 + 5 * 2048)), "derived")
    assert found["release_bytes"][0].startswith("about ")
    found = shown(load_text(moments()))
    assert found["features"] == ("race", "14")
    assert (found["sigma"], found["width"]) == (("0.25", "16"), ("80", "default"))
    assert found["state_bytes"] == (str(8 * (1 + 40 * 80)), "derived")
    assert "bins" not in found


CASES = [
    ("depth: 14", "dept: 14", 14, "dept", "unknown key; did you mean depth?"),
    ("depth: 14", "depth: 0", 14, "depth", "depth must lie between 1 and 48, not 0; correct it or"),
    ("depth: 14", "depth: 1.5", 14, "depth", "write a whole number"),
    ("depth: 14", "depth: 40", 14, "depth", "depth 40 is more than the 32 bits of the attributes"),
    ("depth: 14", "width: 1000", 14, "width", "width must be a power of two, not 1000"),
    ("rows: 5", "rows: 17", 15, "rows", "rows must lie between 1 and 16"),
    ("rows: 5", "k: 5", 15, "k", "unknown key; use one of depth, width, rows"),
    ("type: cells", "type: cell", 13, "type", "'cell' is no kind of sketch; did you mean cells?"),
    ("type: cells", "type: moment", 13, "type", "did you mean moments?"),
    ("depth: 14", "width: 65536", 13, "", "lower width or rows, or take a profile with more"),
]


@pytest.mark.parametrize(("old", "new", "line", "key", "says"), CASES)
def test_bad_cells_are_refused_where_they_stand(load_text, old, new, line, key, says):
    check(load_text, READINGS.replace(old, new), line, key, says)


MOMENT_CASES = [
    ("features: race", "features: rfff", 14, "features", "did you mean rff?"),
    ("features: race", "features: [rff]", 14, "features", "is a list; write text"),
    ("features: race", "features: hist", 15, "rows", "does not go with features hist, which have"),
    (
        "features: race",
        "bins: 10",
        14,
        "bins",
        "does not go with features rff, which have m, sigma",
    ),
    ("sigma: 0.25", "sigm: 1", 16, "sigm", "did you mean sigma?"),
    ("sigma: 0.25", "sigma: wide", 16, "sigma", "write a number"),
    ("sigma: 0.25", "sigma: 0", 16, "sigma", "sigma must lie between 0.015625 and 64, not 0"),
    ("sigma: 0.25", "sigma: .nan", 16, "sigma", "is not finite; write a finite number"),
    ("count_share: 0.1", "count_share: 1", 17, "count_share", "count_share must lie between"),
    ("rows: 40", "rows: 0", 15, "rows", "rows must lie between 1 and 1024"),
    ("rows: 40", "rows: many", 15, "rows", "is text; write a whole number"),
    ("rows: 40", "rows: 1000", 13, "", "lower rows or width, or take a profile with more sketch"),
]


@pytest.mark.parametrize(("old", "new", "line", "key", "says"), MOMENT_CASES)
def test_bad_moments_are_refused_where_they_stand(load_text, old, new, line, key, says):
    check(load_text, moments().replace(old, new), line, key, says)


def check(load_text, text, line, key, says):
    assert text not in (READINGS, moments())
    with pytest.raises(ConfigError) as caught:
        load_text(text)
    error = caught.value
    where = f"{AIR}.{ONE}.{key}" if key else f"{AIR}.{ONE}"
    assert (error.line, error.where) == (line, where)
    assert says in error.problem
    assert "\n" not in str(error)
    assert ";" in error.problem


@pytest.mark.parametrize("kind", ["cells", "moments"])
def test_a_stream_of_keys_has_neither(load_text, kind):
    i, j = READINGS.index("    attributes:"), READINGS.index("    sketches:")
    text = f"{READINGS[:i]}    key: badge\n{READINGS[j:].replace('type: cells', f'type: {kind}')}"
    with pytest.raises(ConfigError, match=f"{kind} is made of readings, .* a key; use distinct"):
        load_text(text)


def test_an_epsilon_too_small_for_its_sums_is_refused_at_epsilon(load_text):
    """Noise of 64-bit counters has an end; that of cells is far below it."""
    unit = "epsilon: 0.001, unit: {span: 10m, max_readings: 1000}"
    text = moments("    sketches: [{type: moments}]\n").replace("epsilon: 2", unit)
    with pytest.raises(ConfigError, match="epsilon is too small for so many features") as caught:
        load_text(text)
    assert caught.value.where == f"{AIR}.privacy.epsilon"
    assert caught.value.problem.endswith("; raise epsilon, or lower m")
    assert load_text(READINGS.replace("epsilon: 2", unit)).streams


SPOILT = ["null", "[]", "{}", "-1", "0", "1e9", "9" * 40, ".inf", ".nan", "true", "''", "- ", "\n"]
NAMES = ["cells", "moments", "hist", "rff", "race", "depth", "sigma", "bins", "count_share", "rows"]


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.sampled_from([READINGS, moments()]),
    place=st.integers(len(READINGS) // 2, len(READINGS)),
    length=st.sampled_from([0, 1, 4, 9]),
    new=st.sampled_from(SPOILT + NAMES),
)
def test_a_wound_leaves_a_configuration_or_one_line(tmp_path, text, place, length, new):
    (tmp_path / "air.csv").touch()
    path = tmp_path / "config.yaml"
    path.write_text(text[:place] + new + text[place + length :])
    refusal = None
    try:
        assert load_agent(path, {}).streams
    except ConfigError as error:
        refusal = str(error)
    assert refusal is None or (refusal.isprintable() and refusal.startswith(str(path)))
