"""Streams of keys: what a good configuration becomes, and one line for every wrong one."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pansketch import DistinctSpec, HierarchySpec, Privacy
from pansketch_fleet.config.loader import ConfigError, describe, load_agent, load_collector
from pansketch_fleet.sections.sketches.sketch import FOR_KEYS, FOR_READINGS, KINDS
from pansketch_fleet.settings.device_spec import window_index
from pansketch_fleet.settings.profiles import every, load_profile

# Line numbers in the tests are those of this text.
KEYED = """\
fleet: site
mqtt: {url: "mqtt://broker.example"}
agent: {device: gate-7, profile: pi-zero-2w}
streams:
  doors:
    source: {type: replay, path: air.csv}
    window: 1h
    key: badge_id
    privacy:
      epsilon: 2
      unit: key
    sketches:
      - type: distinct
        expected_keys: 5000
        memory: 512B
        release: bitmap
"""
SKETCHES = KEYED[KEYED.index("    sketches:") :]
ONE = "sketches[0]"
DOORS = "streams.doors"


@pytest.fixture
def keyed() -> str:
    return KEYED


@pytest.fixture
def refused(load_text):
    """The ConfigError of KEYED with one piece of its text replaced."""

    def of(old: str, new: str) -> ConfigError:
        assert KEYED.count(old) == 1
        with pytest.raises(ConfigError) as caught:
            load_text(KEYED.replace(old, new))
        assert "\n" not in str(caught.value)
        assert ";" in caught.value.problem, "every refusal says what to do"
        return caught.value

    return of


def test_a_key_instead_of_attributes(load_text, keyed):
    (stream,) = load_text(keyed).streams
    assert (stream.key, stream.names) == ("badge_id", ("badge_id",))
    spec = stream.spec
    assert isinstance(spec, DistinctSpec)
    assert spec.privacy == Privacy(2, unit="key", intrusion="silent")
    assert (spec.expected_keys, spec.universe, spec.memory) == (5000, None, 512)
    assert (spec.variant, spec.release) == ("ppds", "bitmap")


def test_readings_have_a_domain_and_no_key(load_text, valid):
    (stream,) = load_text(valid).streams
    assert stream.names == ("pm25", "temp")
    assert stream.domain == stream.spec.domain


def test_what_is_left_out_has_defaults(load_text, keyed):
    text = keyed.replace("      unit: key\n", "").replace(SKETCHES, "")
    text += "    sketches: [{type: distinct, universe: 65536}]\n"
    spec = load_text(text).streams[0].spec
    assert (spec.universe, spec.expected_keys, spec.memory) == (65536, None, 4096)
    assert (spec.variant, spec.release, spec.privacy.unit) == ("ppds", "count", "key")


@pytest.mark.parametrize("variant", ["ppds", "optbern", "dwork"])
def test_variants_of_an_enumerated_universe(load_text, keyed, variant):
    sketch = f"    sketches: [{{type: distinct, universe: 4096, variant: {variant}}}]\n"
    assert load_text(keyed.replace(SKETCHES, sketch)).streams[0].spec.variant == variant


@pytest.mark.parametrize("name", ["007", "no", "1e3", "'null'"])
def test_the_name_of_a_key_is_taken_as_written(load_text, keyed, name):
    assert load_text(keyed.replace("badge_id", name)).streams[0].key == name.strip("'")


def test_sizes_of_a_hierarchy_may_stand_in_sketches(load_text, valid):
    one = load_text(valid.replace("    views", "    sketch: {k: 64, rows: 2}\n    views"))
    listed = "    sketches: [{type: hierarchy, k: 64, rows: 2}]\n    views"
    other = load_text(valid.replace("    views", listed))
    assert isinstance(other.streams[0].spec, HierarchySpec)
    assert one.streams[0].spec == other.streams[0].spec
    bare = load_text(valid.replace("    views", "    sketches: [{type: hierarchy}]\n    views"))
    assert bare.streams[0].spec == load_text(valid).streams[0].spec


def test_every_device_class_has_the_same_sketch_of_keys(load_text, keyed):
    """Or their bitmaps would have no union."""
    found = set()
    for profile in every():
        config = load_text(keyed.replace("pi-zero-2w", profile.name))
        found.add(config.streams[0].spec.fingerprint)
        assert list(config.specs(config.streams[0])) == [config.streams[0].spec.fingerprint]
    assert len(found) == 1


def test_devices_agree_on_a_window_and_windows_differ(load_text, keyed):
    (stream,) = load_text(keyed).streams
    hour = stream.window_seconds
    assert window_index(7 * hour, hour) == window_index(7 * hour + hour // 10, hour) == 7
    specs = [stream.spec.for_window(index) for index in (7, 7, 8)]
    assert specs[0].fingerprint == specs[1].fingerprint != specs[2].fingerprint
    other = load_text(keyed.replace("fleet: site", "fleet: mine")).streams[0].spec
    assert other.for_window(7).fingerprint != specs[0].fingerprint


def test_the_collector_sees_the_same_stream(load_text, keyed):
    agent, collector = (load_text(keyed, program).streams[0] for program in ("agent", "collector"))
    assert agent == collector


def test_print_config_shows_all_of_it(load_text, keyed):
    described = describe(load_text(keyed))
    shown = {s.path: (s.value_text, s.origin.rpartition(":")[2]) for s in described}
    assert len(shown) == len(described)
    assert shown[f"{DOORS}.key"] == ("badge_id", "8")
    assert shown[f"{DOORS}.privacy.unit"] == ("key", "11")
    assert shown[f"{DOORS}.{ONE}.type"] == ("distinct", "13")
    assert shown[f"{DOORS}.{ONE}.memory"] == ("512B", "15")
    assert shown[f"{DOORS}.{ONE}.variant"] == ("ppds", "default")
    assert shown[f"{DOORS}.{ONE}.tracked"] == ("4096", "derived")
    assert shown[f"{DOORS}.privacy.epsilon.state"] == ("1", "derived")
    assert shown[f"{DOORS}.privacy.epsilon.output"] == ("1", "derived")


def test_without_a_guess_any_number_of_keys_is_counted(load_text, keyed):
    text = keyed.replace("        expected_keys: 5000\n", "")
    config = load_text(text)
    spec = config.streams[0].spec
    assert (spec.expected_keys, spec.universe, len(spec.levels)) == (None, None, 16)
    shown = {each.path: (each.value_text, each.origin) for each in describe(config)}
    assert shown[f"{DOORS}.{ONE}.levels"] == ("16", "derived")
    assert shown[f"{DOORS}.{ONE}.tracked"] == ("4096", "derived")
    assert f"{DOORS}.{ONE}.level" not in shown
    assert f"{DOORS}.{ONE}.expected_keys" not in shown


SECOND = "        release: bitmap\n      - type: distinct\n        expected_keys: 5\n"
CASES = [
    # attributes, key, views
    ("    key: badge_id\n", "", 5, "", "has neither attributes nor a key; add attributes"),
    ("key: badge_id", "key: ''", 8, ".key", "is no name; write 1 to 64 characters"),
    ("key: badge_id", "key: " + "b" * 65, 8, ".key", "is no name"),
    ("key: badge_id", "key: time", 8, ".key", "'time' is when an event was; name what holds"),
    ("key: badge_id", "key: [a, b]", 8, ".key", "is a list; write text"),
    ("key: badge_id", "kye: badge_id", 8, ".kye", "unknown key; did you mean key?"),
    (
        "key: badge_id",
        "attributes: {x: {low: 0, high: 1}}\n    key: badge_id",
        9,
        ".key",
        "does not go with attributes; give the key a stream of its own",
    ),
    ("key: badge_id", "key: badge_id\n    views: auto", 9, ".views", "does not go with a key"),
    (
        "{type: replay, path: air.csv}",
        "{type: system}",
        6,
        ".source.type",
        "is system, and sensors bear no keys; use replay",
    ),
    # units and caps
    ("unit: key", "unit: reading", 11, ".privacy.unit", "'reading' is refused: this stream"),
    ("unit: key", "unit: {span: 10m, max_readings: 9}", 11, ".privacy.unit", "a span is refused"),
    ("unit: key", "unit: keys", 11, ".privacy.unit", "write key, or leave it out"),
    ("epsilon: 2", "epsilon: 0", 10, ".privacy.epsilon", "epsilon must lie between"),
    ("epsilon: 2", "epsilon: 0.000001", 10, ".privacy.epsilon", "too small to be shared"),
    ("unit: key", "daily_cap: 1.5", 11, ".privacy.daily_cap", "write 2 or more"),
    # the list of sketches
    (SKETCHES, "", 8, ".key", "has no sketch; add sketches: [{type: distinct"),
    (SKETCHES, "    sketches:\n", 8, ".key", "has no sketch; add sketches:"),
    (SKETCHES, "    sketch: {k: 64}\n", 12, ".sketch", "has the sizes of a hierarchy; write"),
    (SKETCHES, "    sketches: []\n", 12, ".sketches", "is empty; use one of views"),
    (SKETCHES, "    sketches: {type: distinct}\n", 12, ".sketches", "write a list"),
    (SKETCHES, "    sketches: [distinct]\n", 12, ".sketches[0]", "write keys with values"),
    ("        release: bitmap\n", SECOND, 17, ".sketches[1]", "a stream with a key has one; add"),
    (SKETCHES, f"    sketch: {{k: 1}}\n{SKETCHES}", 12, ".sketch", "does not go with sketches"),
    ("- type: distinct", "- memory: 1KiB", 15, f".{ONE}.memory", "is repeated"),
    ("- type: distinct\n", "- variant: ppds\n", 13, f".{ONE}.type", "is missing; use one of"),
    ("type: distinct", "type: distnct", 13, f".{ONE}.type", "did you mean distinct?"),
    ("type: distinct", "type: [distinct]", 13, f".{ONE}.type", "is no kind of sketch"),
    ("type: distinct", "type: hierarchy", 13, f".{ONE}.type", "a key; use distinct"),
    # sizes
    ("memory: 512B", "memroy: 512B", 15, f".{ONE}.memroy", "did you mean memory?"),
    ("memory: 512B", "memory: 512", 15, f".{ONE}.memory", "'512' has no unit; use B, KiB"),
    ("memory: 512B", "memory: 4KB", 15, f".{ONE}.memory", "write 4KiB"),
    ("memory: 512B", "memory: 0B", 15, f".{ONE}.memory", "is nothing; write a positive size"),
    ("memory: 512B", "memory: 1GiB", 15, f".{ONE}.memory", "memory must lie between"),
    ("expected_keys: 5000", "expected_keys: 0", 14, f".{ONE}.expected_keys", "must lie between"),
    ("expected_keys: 5000", "expected_keys: -1", 14, f".{ONE}.expected_keys", "must lie between"),
    ("expected_keys: 5000", "expected_keys: many", 14, f".{ONE}.expected_keys", "whole number"),
    ("expected_keys: 5000", "universe: 0", 14, f".{ONE}.universe", "must lie between"),
    ("memory: 512B", "universe: 9", 15, f".{ONE}.universe", "does not go with expected_keys"),
    ("memory: 512B", "variant: pdps", 15, f".{ONE}.variant", "did you mean ppds?"),
    ("memory: 512B", "variant: dwork", 15, f".{ONE}.variant", "write universe, or variant: ppds"),
    ("release: bitmap", "release: sums", 16, f".{ONE}.release", "use one of count, bitmap"),
]


@pytest.mark.parametrize(("old", "new", "line", "where", "says"), CASES)
def test_bad_input_is_refused_where_it_stands(refused, old, new, line, where, says):
    error = refused(old, new)
    assert (error.line, error.where) == (line, DOORS + where)
    assert says in error.problem


def test_dwork_s_variant_has_a_highest_epsilon(load_text, keyed):
    sketch = "    sketches: [{type: distinct, universe: 4096, variant: dwork, release: bitmap}]\n"
    text = keyed.replace(SKETCHES, sketch)
    assert load_text(text.replace("epsilon: 2", "epsilon: 3")).streams
    with pytest.raises(ConfigError, match=r"dwork cannot keep .* only up to 1.59: use") as caught:
        load_text(text.replace("epsilon: 2", "epsilon: 4"))
    assert (caught.value.line, caught.value.where) == (12, f"{DOORS}.{ONE}.variant")


def test_two_streams_of_keys_share_the_memory_of_the_profile(load_text, keyed):
    # 64 KiB of state take expected keys for half a million slots.
    big = (
        keyed.replace("512B", "40KiB").replace("5000", "200000").replace("pi-zero-2w", "pi-zero-w")
    )
    second = big[big.index("  doors:") :].replace("  doors:", "  lockers:")
    assert load_text(big).streams[0].spec.nbytes == 40 * 1024
    with pytest.raises(ConfigError) as caught:
        load_text(big + second)
    assert (caught.value.line, caught.value.where) == (25, f"streams.lockers.{ONE}")
    assert "its state together with the streams before it takes 81920 bytes" in str(caught.value)
    assert "allows 64KiB; lower memory, or take a profile with" in str(caught.value)


def test_every_kind_of_sketch_is_for_readings_or_for_keys():
    assert sorted(KINDS) == sorted([*FOR_READINGS, *FOR_KEYS])


def test_plans_are_equal_when_they_state_the_same_and_can_be_looked_up(load_text, keyed, valid):
    for text in (keyed, valid):
        one, other = (load_text(text).streams[0].plan for _ in range(2))
        assert one == other
        assert hash(one) == hash(other)
        assert one.spec(load_profile("pi-5")) == other.spec(load_profile("pi-5"))
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.hash_key = 1


def test_the_repository_s_streams_of_keys():
    config = load_collector(Path(__file__).parents[4] / "config.yaml", {})
    streams = {stream.name: stream for stream in config.streams}
    assert (streams["doors"].key, streams["doors"].spec.release) == ("badge_id", "bitmap")
    assert (streams["lockers"].key, streams["lockers"].spec.release) == ("card_id", "count")


SPOILT = ["null", "[]", "{}", "-1", "0", "1e9", "9" * 40, ".inf", "true", "''", "- ", "\n", ": "]
NAMES = ["universe", "expected_keys", "hierarchy", "optbern", "dwork", "count", "key", "reading"]
WORDS = st.sampled_from(SPOILT + NAMES)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=st.integers(0, len(KEYED)), length=st.sampled_from([0, 1, 4, 9]), new=WORDS)
def test_a_good_file_with_a_wound_is_a_configuration_or_one_line(tmp_path, place, length, new):
    (tmp_path / "air.csv").touch()
    path = tmp_path / "config.yaml"
    path.write_text(KEYED[:place] + new + KEYED[place + length :])
    refusal = None
    try:
        assert load_agent(path, {}).streams
    except ConfigError as error:
        refusal = str(error)
    assert refusal is None or (refusal.isprintable() and refusal.startswith(str(path)))
