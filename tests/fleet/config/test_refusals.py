"""Every bad configuration is refused by a single-line error, at its line and key, with a fix."""

import re

import pytest

from pansketch_fleet.config.loader import ConfigError

WIND = "categories: [N, NO, E, off]"
TEMP = "temp: {low: -40, high: 60, unit: degC}"
VIEW = "views: [[pm25, temp]]"
WINDOW = "window: 10m"
URL = " mqtt://broker.example:1884"
KNOWN_PROFILES = "gateway-x86, generic-linux, pi-3b, pi-4b, pi-5, pi-zero-2w, pi-zero-w"

# (replaced text, its replacement, line, key, words of the error)
UNIT, PRIVACY = "unit: reading", "streams.air.privacy."
MOST = PRIVACY + "unit.max_readings"


def spans(max_readings: str, span: str = "10m") -> str:
    return f"unit: {{span: {span}, max_readings: {max_readings}}}"


CASES = [
    # unknown keys, at every depth
    ("fleet: meadow", "flete: meadow", 1, "flete", "unknown key; did you mean fleet?"),
    (WINDOW, "windwo: 10m", 12, "streams.air.windwo", "unknown key; did you mean window?"),
    (
        "epsilon: 0.5",
        "epsilno: 0.5",
        14,
        "streams.air.privacy.epsilno",
        "unknown key; did you mean epsilon?",
    ),
    (
        "unit: degC",
        "untis: degC",
        18,
        "streams.air.attributes.temp.untis",
        "unknown key; did you mean unit?",
    ),
    (VIEW, "sketch: {fan: 4}", 22, "streams.air.sketch.fan", "did you mean fanout?"),
    (
        "profile: pi-zero-2w",
        "zzz: 1",
        6,
        "agent.zzz",
        "unknown key; use one of device, profile, state",
    ),
    ("database:", "databse:", 24, "collector.databse", "did you mean database?"),
    ("url:", "adress: x\n  url:", 3, "mqtt.adress", "unknown key; use one of url, ca_file"),
    (
        "path: air.csv",
        "path: air.csv\n      interval: 5s",
        12,
        "streams.air.source.interval",
        "unknown key; use one of type, path, speed",
    ),
    # wrong types
    ("epsilon: 0.5", "epsilon: high", 14, "streams.air.privacy.epsilon", "is text; write a number"),
    ("epsilon: 0.5", "epsilon: yes", 14, "streams.air.privacy.epsilon", "is text; write a number"),
    ("epsilon: 0.5", "epsilon: NO", 14, "streams.air.privacy.epsilon", "is text; write a number"),
    ("epsilon: 0.5", "epsilon: 1:30", 14, "streams.air.privacy.epsilon", "is text; write a number"),
    (
        "epsilon: 0.5",
        "epsilon: true",
        14,
        "streams.air.privacy.epsilon",
        "is true or false; write a number",
    ),
    ("epsilon: 0.5", "epsilon:", 14, "streams.air.privacy.epsilon", "is nothing; write a number"),
    (WINDOW, "window: [10m]", 12, "streams.air.window", "is a list; write text"),
    (VIEW, "views: [pm25, temp]", 22, "streams.air.views[0]", "is text; write a list"),
    (VIEW, "sketch: {k: 1.5}", 22, "streams.air.sketch.k", "write a whole number"),
    (TEMP, "temp: warm", 18, "streams.air.attributes.temp", "is text; write keys with values"),
    (WIND, "categories: N", 21, "streams.air.attributes.wind.categories", "write a list"),
    ("fleet: meadow", "fleet: [meadow]", 1, "fleet", "is a list; write text"),
    ("  url: mqtt", "  - mqtt", 2, "mqtt", "is a list; write keys with values"),
    # what is missing
    ("fleet: meadow\n", "", 1, "fleet", "is missing; add fleet:"),
    ("    window: 10m\n", "", 8, "streams.air.window", "is missing; add window: to streams.air"),
    ("      epsilon: 0.5\n", "", 13, "streams.air.privacy.epsilon", "is missing; add epsilon:"),
    ("  device: post-7\n", "", 4, "agent.device", "is missing; add device: to agent"),
    ("      type: replay\n", "", 9, "streams.air.source.type", "is missing; use one of replay"),
    ("low: -40, ", "", 18, "streams.air.attributes.temp.low", "add low and high, or categories"),
    # bounds and categories
    ("low: -40", "low: 60", 18, "streams.air.attributes.temp.low", "60 is not below high, 60;"),
    ("low: -40", "low: 61", 18, "streams.air.attributes.temp.low", "61 is not below high, 60;"),
    ("low: -40", "low: .nan", 18, "streams.air.attributes.temp.low", "write a finite number"),
    ("low: -40", "low: -.inf", 18, "streams.air.attributes.temp.low", "write a finite number"),
    ("low: -40", "low: -1e999", 18, "streams.air.attributes.temp.low", "write a finite number"),
    (TEMP, "temp: {low: -1.7e308, high: 1.7e308}", 18, "streams.air.attributes.temp", "finite"),
    ("low: -40", "low: -" + "9" * 4500, 18, "streams.air.attributes.temp.low", ";"),
    ("scale: log", "scale: lgo", 19, "streams.air.attributes.pm25.scale", "did you mean log?"),
    (
        "scale: log",
        "resolution: 0",
        19,
        "streams.air.attributes.pm25.resolution",
        "0 is impossible; write a positive number",
    ),
    (
        WIND,
        "categories:\n        - N\n        - NO\n        - N",
        24,
        "streams.air.attributes.wind.categories[2]",
        "'N' is repeated; list each category once",
    ),
    (WIND, "categories: []", 21, "streams.air.attributes.wind.categories", "has no names; list"),
    (WIND, "categories: [N, '']", 21, "streams.air.attributes.wind.categories[1]", "is empty"),
    (WIND, f"{WIND}\n        low: 0", 22, "streams.air.attributes.wind.low", "does not go with"),
    # views
    (
        VIEW,
        "views: [[temp, pm52]]",
        22,
        "streams.air.views[0][1]",
        "'pm52' is no attribute of this stream; did you mean pm25?",
    ),
    (VIEW, "views: [[temp, temp]]", 22, "streams.air.views[0][1]", "'temp' is repeated"),
    (
        VIEW,
        "views:\n      - [temp]\n      - [pm25, temp]\n      - [temp, pm25]",
        25,
        "streams.air.views[2]",
        "[temp, pm25] is repeated",
    ),
    (VIEW, "views: []", 22, "streams.air.views", "names no view; write auto"),
    (VIEW, "views: [[]]", 22, "streams.air.views[0]", "names no attribute; use one of temp"),
    (VIEW, "views: all", 22, "streams.air.views", "'all' is not a view; write auto"),
    # windows and privacy
    (WINDOW, "window: 600", 12, "streams.air.window", "'600' has no unit; use ms, s, m, h, d"),
    (WINDOW, "window: 10min", 12, "streams.air.window", "unknown unit 'min'"),
    (WINDOW, "window: 1:30", 12, "streams.air.window", "'1:30' is not a duration"),
    (WINDOW, "window: 999ms", 12, "streams.air.window", "999ms is impossible; write 1s to"),
    (WINDOW, "window: 0s", 12, "streams.air.window", "0s is impossible"),
    (WINDOW, "window: -5m", 12, "streams.air.window", "'-5m' is not a duration"),
    (WINDOW, "window: 1.5s", 12, "streams.air.window", "is not whole"),
    (WINDOW, "window: 9999d", 12, "streams.air.window", "9999d is impossible"),
    ("epsilon: 0.5", "epsilon: 0", 14, "streams.air.privacy.epsilon", "epsilon must lie between"),
    ("epsilon: 0.5", "epsilon: -1", 14, "streams.air.privacy.epsilon", "1.0 is a usual choice"),
    ("unit: reading", "unit: key", 15, "streams.air.privacy.unit", "counts readings, not keys"),
    (UNIT, "unit: readng", 15, PRIVACY + "unit", "'readng' is not supported; did you mean reading"),
    (UNIT, "unit: [10m]", 15, PRIVACY + "unit", "is a list; write text or keys with values"),
    (UNIT, "unit: {span: 10m}", 15, PRIVACY + "unit.max_readings", "is missing; add max_readings:"),
    (UNIT, "unit:\n        span: 10m", 15, PRIVACY + "unit.max_readings", "is missing;"),
    (UNIT, "unit: {max_readings: 60}", 15, PRIVACY + "unit.span", "is missing; add span:"),
    (UNIT, "unit: {span: 10m, most: 6}", 15, PRIVACY + "unit.most", "unknown key; use one of"),
    (UNIT, spans("0"), 15, PRIVACY + "unit.max_readings", "0 is impossible; write 2 or more"),
    (UNIT, spans("1"), 15, PRIVACY + "unit.max_readings", "1 is impossible; write 2 or more"),
    (UNIT, spans("-1"), 15, PRIVACY + "unit.max_readings", "-1 is impossible"),
    (UNIT, spans("1.5"), 15, PRIVACY + "unit.max_readings", "write a whole number"),
    (UNIT, spans("many"), 15, PRIVACY + "unit.max_readings", "is text; write a whole number"),
    (UNIT, spans("60", "600"), 15, PRIVACY + "unit.span", "'600' has no unit"),
    (UNIT, spans("60", "0s"), 15, PRIVACY + "unit.span", "0s is impossible; write 1s to 3660d"),
    (UNIT, spans("60", "1500ms"), 15, PRIVACY + "unit.span", "is not whole; write whole seconds"),
    (UNIT, "unit:\n        span: 1m\n        max_readings: 0", 17, MOST, "0 is impossible"),
    (UNIT, spans("999999999"), 14, PRIVACY + "epsilon", "too small to be shared"),
    (UNIT, UNIT + "\n      daily_cap: 0", 16, PRIVACY + "daily_cap", "0 is impossible; write a"),
    (UNIT, UNIT + "\n      daily_cap: -2", 16, PRIVACY + "daily_cap", "-2 is impossible"),
    (UNIT, UNIT + "\n      daily_cap: 0.4", 16, PRIVACY + "daily_cap", "write 0.5 or more"),
    (UNIT, UNIT + "\n      daily_cap: much", 16, PRIVACY + "daily_cap", "is text; write a number"),
    (
        "intrusion: silent",
        "intrusion: silnt",
        16,
        "streams.air.privacy.intrusion",
        "did you mean silent?",
    ),
    # sources
    ("path: air.csv", "path: no.csv", 11, "streams.air.source.path", "there is no file"),
    ("path: air.csv", "path: .", 11, "streams.air.source.path", "there is no file"),
    ("path: air.csv", "path: " + "a" * 4000, 11, "streams.air.source.path", "there is no file"),
    (
        "path: air.csv",
        "path: air.csv\n      speed: 0",
        12,
        "streams.air.source.speed",
        "0 is impossible; write a positive number",
    ),
    ("type: replay", "type: reply", 10, "streams.air.source.type", "did you mean replay?"),
    ("type: replay", "type: stdin", 11, "streams.air.source.path", "unknown key; use one of type"),
    (
        "type: replay\n      path: air.csv",
        "type: system\n      interval: 1ms",
        11,
        "streams.air.source.interval",
        "1ms is impossible; write 100ms to 1d",
    ),
    # ids and profiles
    ("fleet: meadow", "fleet: Meadow", 1, "fleet", "'Meadow' is no id; write 1 to 64 of a-z"),
    ("device: post-7", "device: post/7", 5, "agent.device", "'post/7' is no id"),
    ("device: post-7", "device: " + "a" * 65, 5, "agent.device", "is no id"),
    ("  air:\n", "  Air:\n", 8, "streams.Air", "a stream's name must be 1 to 64 of a-z"),
    (
        "profile: pi-zero-2w",
        "profile: pi-zero",
        6,
        "agent.profile",
        f"'pi-zero' is no firmware profile; there are {KNOWN_PROFILES}",
    ),
    # sketch sizes
    (VIEW, "sketch: {width: 1000}", 22, "streams.air.sketch.width", "width must be a power of two"),
    (VIEW, "sketch: {fanout: 5}", 22, "streams.air.sketch.fanout", "fanout must be 2, 4, 8 or 16"),
    (VIEW, "sketch: {k: 0}", 22, "streams.air.sketch.k", "k must lie between"),
    (VIEW, "sketch: {depth: 999}", 22, "streams.air.sketch.depth", "depth must lie between"),
    (VIEW, "sketch: {k: 99999999999999999999999}", 22, "streams.air.sketch.k", ";"),
    (
        VIEW,
        "sketch: {depth: 17, k: 131072, fanout: 2}",
        22,
        "streams.air.sketch",
        "and the profile pi-zero-2w allows 256KiB; lower depth, k, width or rows",
    ),
    # the broker
    ("mqtt://broker.example:1884", "http://broker", 3, "mqtt.url", "write mqtt://host:1883"),
    ("mqtt://broker.example:1884", "broker:1883", 3, "mqtt.url", "is not an address of a broker"),
    ("mqtt://broker.example:1884", "mqtt://", 3, "mqtt.url", "has no usable host name"),
    ("mqtt://broker.example:1884", "mqtt://a..b", 3, "mqtt.url", "has no usable host name"),
    ("mqtt://broker.example:1884", f"mqtt://{64 * 'a'}.b", 3, "mqtt.url", "has no usable host"),
    ("mqtt://broker.example:1884", "mqtt://a:0", 3, "mqtt.url", "has an impossible port"),
    ("mqtt://broker.example:1884", "mqtt://a:65536", 3, "mqtt.url", "has an impossible port"),
    ("mqtt://broker.example:1884", '"mqtt://[::1"', 3, "mqtt.url", "is not an address"),
    ("1884", "1884\n  ca_file: air.csv", 4, "mqtt.ca_file", "write an mqtts:// url"),
    (URL, " mqtts://b\n  ca_file: no.pem", 4, "mqtt.ca_file", "there is no file"),
    ("1884", "1884\n  password: x", 4, "mqtt.password", "add mqtt.username"),
]


@pytest.mark.parametrize(("old", "new", "line", "where", "says"), CASES)
def test_bad_input_is_refused_where_it_stands(assert_refusal, old, new, line, where, says):
    assert_refusal(old, new, line, where, says)


def test_no_error_holds_a_credential(refusal, tmp_path):
    secret = "hunter2-hunter2"
    (tmp_path / "secret").write_text(secret)
    for url in (f"mqtt://me:{secret}@host", f"mqtt://{secret}@", f"{secret}://x"):
        error = refusal("mqtt://broker.example:1884", url)
        assert error.where == "mqtt.url"
        assert secret not in str(error)
    for text in (f"[{secret}]", secret, "'${file:secret}'", f"'${{{secret}'", f"!{secret} x"):
        line = f"password: {text}"
        error = refusal("1884", f"1884\n  {line}")
        assert error.where == "mqtt.password"
        assert secret not in str(error)


def test_only_one_stream_reads_standard_input(load_text):
    stream = "    window: 10m\n    privacy: {epsilon: 1}\n    attributes: {x: {low: 0, high: 1}}\n"
    text = "fleet: a\nmqtt: {url: mqtt://a}\nagent: {device: a}\nstreams:\n"
    for name in ("one", "two"):
        text += f"  {name}:\n    source: {{type: stdin}}\n{stream}"
    with pytest.raises(ConfigError, match=r":11: streams\.two\.source\.type: is stdin like one's"):
        load_text(text)


def test_streams_share_the_memory_of_the_profile(load_text):
    head = "fleet: a\nmqtt: {url: mqtt://a}\nagent: {device: a, profile: pi-zero-w}\nstreams:\n"
    sizes = "sketch: {depth: 16, k: 1024, width: 512, rows: 2, fanout: 4}"
    one = f"source: {{type: system}}, window: 1h, privacy: {{epsilon: 1}}, {sizes}"
    body = "attributes: {x: {low: 0, high: 1}}"
    rows = [f"  s{n}: {{{one}, {body}}}\n" for n in range(4)]
    three = load_text(head + "".join(rows[:3]))
    used = sum(stream.spec.nbytes for stream in three.streams)
    assert used <= three.profile.sketch_memory_bytes < used / 3 * 4
    with pytest.raises(ConfigError, match=r":8: streams\.s3\.sketch: its state together with") as e:
        load_text(head + "".join(rows))
    assert re.search(r"takes \d+ bytes, and the profile pi-zero-w allows 64KiB", str(e.value))


def test_a_device_has_no_more_streams_than_its_mark_names(load_text):
    """A stream that the collector's mark leaves out could release windows twice."""
    head = "fleet: a\nmqtt: {url: mqtt://a}\nagent: {device: a}\nstreams:\n"
    one = "source: {type: system}, window: 1h, privacy: {epsilon: 1}"
    body = "attributes: {x: {low: 0, high: 1}}, sketch: {depth: 4, k: 4}"
    rows = [f"  s{n}: {{{one}, {body}}}\n" for n in range(257)]
    assert len(load_text(head + "".join(rows[:256])).streams) == 256
    with pytest.raises(ConfigError, match=r"streams: has 257 streams, and a device at most 256"):
        load_text(head + "".join(rows))
    assert len(load_text(head + "".join(rows), "collector").streams) == 257


def test_an_error_names_the_variable_that_has_the_value(refusal):
    """A service sets DEVICE to the name of its host, which the file does not show."""
    error = refusal("device: post-7", "device: '${NAME}'", environ={"NAME": "MyPi"})
    assert error.where == "agent.device"
    assert error.problem.endswith("0-9 and - (the value is of environment NAME)")
    assert "the value is of" not in refusal("device: post-7", "device: MyPi").problem
