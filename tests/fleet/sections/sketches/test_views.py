"""Several views of a stream: which there are, what is planned, what is shown, what is refused."""

import pytest

from pansketch import HierarchySpec, ViewsSpec
from pansketch.planning import Expected
from pansketch_fleet.config.loader import ConfigError, describe
from pansketch_fleet.config.sketch_summary import choices, errors_text, sizes_text
from pansketch_fleet.settings.profiles import every, load_profile

# Line numbers in the tests are those of this text.
TEXT = """\
fleet: meadow
mqtt: {url: "mqtt://broker"}
agent: {device: post-7, profile: pi-zero-2w}
streams:
  air:
    source: {type: stdin}
    window: 1d
    privacy: {epsilon: 4}
    attributes:
      temp: {low: -40, high: 60}
      pm25: {low: 0, high: 1000, scale: log}
      wind: {categories: [N, E, S, W]}
      rain: {low: 0, high: 50}
      site: {constant: 3}
"""
VIEWS = "    views: [[temp], [temp, pm25], [wind, rain, temp]]\n"
MORE = "    expect: {readings: 86400, devices: 50, windows: 7}\n"


def stream_of(load_text, more="", **options):
    (stream,) = load_text(TEXT + more, **options).streams
    return stream


def test_three_varying_attributes_or_more_have_views(load_text):
    stream = stream_of(load_text)
    assert isinstance(stream.spec, ViewsSpec)
    assert {name for view in stream.spec.views for name in view.names} == {
        "temp",
        "pm25",
        "wind",
        "rain",
    }
    assert len(stream.spec.views) == 4 + 6
    assert stream_of(load_text, "    views: auto\n").spec == stream.spec


def test_one_view_or_stated_sizes_of_a_hierarchy_make_a_hierarchy(load_text):
    for more in ("    views: [[temp, pm25, rain]]\n", "    sketch: {k: 64}\n"):
        assert isinstance(stream_of(load_text, more).spec, HierarchySpec)


def test_several_views_are_those_that_are_listed(load_text):
    stream = stream_of(load_text, VIEWS)
    sets = [view.names for view in stream.spec.views]
    assert sets == [("temp",), ("temp", "pm25"), ("wind", "rain", "temp")]
    assert stream.domain.names == ("temp", "pm25", "wind", "rain")


def test_sizes_and_memory_can_be_stated(load_text):
    more = "    sketches: [{type: views, pair_bits: 2, single_bits: 5, memory: 2KiB}]\n"
    spec = stream_of(load_text, more).spec
    assert spec.nbytes <= 2048
    shapes = {view.shape for view in spec.views if "wind" not in view.names}
    assert shapes == {(32,), (4, 4)}


def test_a_stated_memory_bounds_a_hierarchy(load_text):
    one = "    views: [[temp, pm25]]\n    expect: {readings: 1000000000}\n"
    small = stream_of(load_text, one + "    sketch: {memory: 2KiB}\n").spec
    assert small.nbytes <= 2048 < stream_of(load_text, one).spec.nbytes


def test_expectations_are_stated_or_follow_from_window_source_and_span(load_text):
    assert stream_of(load_text).expected == Expected(1440, 10, 30, (1, 1))
    assert stream_of(load_text, MORE).expected == Expected(86_400, 50, 7)

    def expected(*changes):
        text = TEXT
        for old, new in changes:
            assert text.count(old) == 1
            text = text.replace(old, new)
        (stream,) = load_text(text).streams
        return stream.expected

    assert expected(("type: stdin", "type: system, interval: 10s")).readings == 8640
    assert expected(("window: 1d", "window: 60d")) == Expected(86_400, 10, 1, (1, 1))
    assert expected(("window: 1d", "window: 30s")).readings == 1
    span = "epsilon: 4, unit: {span: 1h, max_readings: 5}"
    assert expected(("epsilon: 4", span)).readings == 24 * 5


def test_agent_and_collector_come_to_the_same_plan_for_every_profile(load_text):
    for more in ("", VIEWS, MORE, "    views: [[temp, pm25]]\n"):
        there = load_text(TEXT + more, program="collector")
        known = there.specs(there.streams[0])
        for profile in every():
            here = load_text((TEXT + more).replace("pi-zero-2w", profile.name)).streams[0]
            assert known[here.spec.fingerprint] == here.spec


# The specs of each class of device; after a change, old and new releases do not add up.
GOLDEN = {
    "gateway-x86": ("f2bb895ca3294a4b", "f275e4b111eb9f0c"),
    "generic-linux": ("f2bb895ca3294a4b", "777f82fa16029a04"),
    "pi-3b": ("f2bb895ca3294a4b", "777f82fa16029a04"),
    "pi-4b": ("f2bb895ca3294a4b", "a12eb05eca1ac440"),
    "pi-5": ("f2bb895ca3294a4b", "c81bea7272c50b92"),
    "pi-zero-2w": ("f2bb895ca3294a4b", "ad14d559b8230395"),
    "pi-zero-w": ("c1593db081e77b64", "3159561774d64540"),
}


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_golden_plans_of_every_profile(load_text, name):
    """Many readings, so that what a class can hold decides: views, and one view."""
    many, profile = "    expect: {readings: 100000000}\n", load_profile(name)
    found = []
    for more in (many, many + "    views: [[temp, pm25]]\n"):
        spec = stream_of(load_text, more).plan.spec(profile)
        assert spec.nbytes <= profile.sketch_memory_bytes // 2
        found.append(spec.fingerprint.hex())
    assert tuple(found) == GOLDEN[name]


def test_settings_show_every_view_what_is_expected_and_where_it_comes_from(load_text):
    found = {s.path: (s.value_text, s.origin) for s in describe(load_text(TEXT))}
    planned = "planned for pi-zero-2w"
    assert found["streams.air.views"] == ("auto", "default")
    assert found["streams.air.sketch.views[0]"][1] == planned
    assert found["streams.air.sketch.views[0]"][0].startswith("temp in ")
    assert "streams.air.sketch.views[9]" in found
    assert found["streams.air.sketch.pair_bits"][1] == planned
    assert found["streams.air.sketch.memory"] == ("128KiB", "profile pi-zero-2w")
    assert found["streams.air.expect.readings"] == ("1440", "derived")
    assert found["streams.air.expect.devices"] == ("10", "default")


def test_settings_show_stated_views_and_sizes_at_their_lines(load_text):
    config = load_text(TEXT + VIEWS + "    sketch: {pair_bits: 2}\n" + MORE)
    found = {s.path: (s.value_text, s.origin) for s in describe(config)}
    file = config.document.file
    listed = "[[temp], [temp, pm25], [wind, rain, temp]]"
    assert found["streams.air.views"] == (listed, f"{file}:15")
    assert found["streams.air.sketch.pair_bits"] == ("2", f"{file}:16")
    assert found["streams.air.expect.windows"] == ("7", f"{file}:17")


def test_sizes_and_errors_in_words(load_text):
    more = "    sketches: [{type: views, pair_bits: 3, single_bits: 5, single_share: 40}]\n"
    stream = stream_of(load_text, more)
    words = sizes_text(stream.spec)
    assert words.startswith("10 views: 3 attributes in 32 cells (30 % of epsilon), ")
    assert "1 attribute in 4 cells (10 % of epsilon)" in words
    assert "3 pairs in 8 x 8 (30 % of epsilon)" in words
    assert "in no view" not in words
    few = stream_of(load_text, "    views: [[temp], [pm25], [rain, wind]]\n").spec
    assert sizes_text(few).endswith("; 5 of 6 pairs in no view")
    chosen, *others = choices(stream, load_profile("pi-zero-2w"))
    assert chosen.label == "chosen"
    assert "total variation of a pair" in errors_text(chosen.errors)
    assert {"half of epsilon", "twice epsilon", "4 x the memory"} <= {c.label for c in others}
    hierarchy = stream_of(load_text, "    views: [[temp, wind]]\n    sketch: {depth: 6}\n").spec
    assert sizes_text(hierarchy) == "hierarchy of 3 levels: temp in 16, wind in 4"


@pytest.mark.parametrize(
    ("more", "where", "says"),
    [
        ("    views: [[temp], [tmp]]\n", "views[1][0]", "did you mean temp?"),
        ("    views: [[temp, rain], [rain, temp]]\n", "views[1]", "is repeated"),
        ("    views: [[temp], [site], [rain]]\n", "views[1]", "has constants only; "),
        ("    views: []\n", "views", "names no view"),
        ("    views: [[temp], []]\n", "views[1]", "names no attribute"),
        ("    views: all\n", "views", "is not a view; write auto"),
        ("    sketch: {memory: 64B}\n    views: [[temp], [rain]]\n", "sketch.memory", "they need "),
        ("    sketch: {memory: 64B}\n    views: [[temp]]\n", "sketch.memory", "the coarsest takes"),
        ("    sketches: [{type: views, memory: 0B}]\n", "sketches[0].memory", "is nothing"),
        ("    sketches: [{type: views, memory: x}]\n", "sketches[0].memory", "is not a size"),
        ("    sketches: [{type: views, pair_bits: 13}]\n", "sketches[0].pair_bits", "1 and 12"),
        ("    sketches: [{type: views, bits: 3}]\n", "sketches[0].bits", "did you mean "),
        (VIEWS + "    sketches: [{type: cells}]\n", "views", "cells keeps one; use type views"),
        ("    expect: {readings: 0}\n", "expect.readings", "must lie between 1 and"),
        ("    expect: {reading: 1}\n", "expect.reading", "did you mean readings?"),
        ("    expect: {windows: many}\n", "expect.windows", "write a whole number"),
    ],
)
def test_what_cannot_be_is_refused_at_its_key(load_text, more, where, says):
    with pytest.raises(ConfigError) as caught:
        load_text(TEXT + more)
    assert caught.value.where == f"streams.air.{where}"
    assert says in caught.value.problem
    assert ";" in caught.value.problem
    assert "\n" not in str(caught.value)


def test_more_views_than_epsilon_has_parts_for_are_refused_at_epsilon(load_text):
    with pytest.raises(ConfigError) as caught:
        load_text(TEXT.replace("epsilon: 4", "epsilon: 0.000002") + VIEWS)
    assert (caught.value.line, caught.value.where) == (8, "streams.air.privacy.epsilon")
    assert caught.value.problem.startswith("epsilon has parts for 2 views at most, not 3; raise")


def test_expectations_do_not_go_with_a_key(load_text):
    head = TEXT[: TEXT.index("    privacy")]
    keyed = "    key: badge\n    privacy: {epsilon: 2, unit: key}\n    expect: {devices: 3}\n"
    with pytest.raises(ConfigError, match="unknown key; did you mean devices_per_key") as caught:
        load_text(f"{head}{keyed}    sketches: [{{type: distinct, expected_keys: 10}}]\n")
    assert caught.value.where == "streams.air.expect.devices"


def test_two_streams_of_views_fit_every_profile(load_text):
    """A stream may take half of the memory, independently of others: see memory_budget.py."""
    many = TEXT.replace("  air:\n", "  air:\n    expect: {readings: 100000000}\n")
    second = many[many.index("  air:") :].replace("air", "soil").replace("stdin", "system")
    for profile in every():
        config = load_text((many + second).replace("pi-zero-2w", profile.name))
        assert sum(s.spec.nbytes for s in config.streams) <= profile.sketch_memory_bytes


ASK = "    expect: {ask: [pm25, temp]}\n"


def test_means_that_are_asked_have_views_of_their_own(load_text):
    plain, asked = stream_of(load_text), stream_of(load_text, ASK)
    assert asked.expected.means == ("pm25", "temp")
    assert [view.names for view in asked.spec.views[len(plain.spec.views) :]] == [
        ("pm25",),
        ("temp",),
    ]
    shown = {each.path: each for each in describe(load_text(TEXT + ASK))}
    assert shown["streams.air.expect.ask"].value_text == "[pm25, temp]"
    assert shown["streams.air.expect.ask"].origin.endswith(":15")


def test_means_that_are_asked_join_one_stated_view(load_text):
    """It would have a hierarchy else, which has no views."""
    stream = stream_of(load_text, "    views: [[temp, pm25, rain]]\n" + ASK)
    assert [view.names for view in stream.spec.views] == [
        ("temp", "pm25", "rain"),
        ("pm25",),
        ("temp",),
    ]


@pytest.mark.parametrize(
    ("ask", "where", "says"),
    [
        ("[]", "ask", "is empty; name an attribute, or remove it"),
        ("[temp, temp]", r"ask\[1\]", "names temp twice; remove one"),
        ("[tmep]", r"ask\[0\]", "'tmep' is no attribute; did you mean temp"),
        ("[wind]", r"ask\[0\]", "wind has no mean: it is not a number; remove it"),
        ("[temp, site]", r"ask\[1\]", "site has no mean: it is not a number"),
        ("temp", "ask", ""),
    ],
)
def test_means_that_cannot_be_asked_are_refused(load_text, ask, where, says):
    with pytest.raises(ConfigError, match=rf":15: streams\.air\.expect\.{where}: .*{says}"):
        stream_of(load_text, f"    expect: {{ask: {ask}}}\n")


@pytest.mark.parametrize(
    "sketch", ["sketch: {k: 64}", "sketch: {type: cells}", "sketch: {type: moments}"]
)
def test_other_sketches_have_no_means_of_their_own(load_text, sketch):
    with pytest.raises(
        ConfigError, match=r":16: streams\.air\.expect\.ask: goes with .* type views"
    ):
        stream_of(load_text, f"    {sketch}\n{ASK}")
