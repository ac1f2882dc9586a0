"""The documented configurations take what Zigbee2MQTT, Tasmota and ESPHome publish.

The messages have the forms that those projects document, or that their code writes.
"""

from math import nan
from pathlib import Path

import numpy as np
import pytest

from pansketch import hash_keys
from pansketch_agent.sources.decoders import decoder_for
from pansketch_fleet.config.loader import load_agent
from tests.agent.sources.listening import listening, listens, publisher

DOCS = Path(__file__).resolve().parents[3] / "docs"
REFERENCE, GUIDE = DOCS / "reference/sources.md", DOCS / "how-to/connect-a-source.md"
MESSAGES = [
    (
        *(REFERENCE, "zigbee"),
        '{"battery":97,"humidity":48.3,"linkquality":120,"temperature":21.4,"voltage":3000}',
        [21.4, 48.3],
    ),
    (
        *(REFERENCE, "tasmota"),
        '{"Time":"2024-01-01T00:00:00","AM2301":{"Temperature":19.7,"Humidity":51.2},'
        '"ENERGY":{"Power":[12,40]},"TempUnit":"C"}',
        [19.7, 40.0],
    ),
    (REFERENCE, "esphome", "20.8", [20.8]),
    (GUIDE, "motion", '{"battery":100,"occupancy":true,"illuminance":7,"voltage":3015}', [1, 7]),
    (GUIDE, "motion", '{"occupancy":false,"illuminance":7}', [0, 7]),
    (GUIDE, "motion", '{"battery":100}', [nan, nan]),
    (GUIDE, "lamp", '{"state":"ON","brightness":215,"color_temp":325}', [1, 215]),
    (GUIDE, "lamp", '{"state":"OFF","brightness":215,"color":{"x":0.4,"y":0.3}}', [0, 215]),
    (
        *(GUIDE, "plug"),
        '{"Time":"2024-05-01T12:00:00","ENERGY":{"TotalStartTime":"2023-01-01T00:00:00",'
        '"Total":3.185,"Power":37,"ApparentPower":41,"Factor":0.9,"Voltage":230,"Current":0.178},'
        '"TempUnit":"C"}',
        [37, 230],
    ),
    (GUIDE, "strip", '{"Time":"x","ENERGY":{"Power":[42,13],"Voltage":230}}', [13]),
    (GUIDE, "strip", '{"Time":"x","ENERGY":{"Power":42}}', [nan]),
    (
        *(GUIDE, "cellar"),
        '{"Time":"2024-04-16T09:48:02","Switch1":"ON","AM2301":{"Temperature":null,'
        '"Humidity":null,"DewPoint":null},"TempUnit":"C"}',
        [nan],
    ),
    (
        *(GUIDE, "cellar"),
        '{"Time":"2024-04-16T09:53:02","AM2301":{"Temperature":11.5,"Humidity":70.1},'
        '"TempUnit":"C"}',
        [11.5],
    ),
    (GUIDE, "relay", "ON", [1]),
    (GUIDE, "relay", "OFF", [0]),
    (GUIDE, "relay", "TOGGLE", [nan]),
    (GUIDE, "porch", "-3.25", [-3.25]),
    (GUIDE, "porch", "nan", [nan]),
    (GUIDE, "porch", "None", [nan]),
    (GUIDE, "window", "OFF", [0]),
]


@pytest.fixture
def documented(tmp_path):
    """The streams of the local topics of a page, by name."""

    def found(page):
        bodies = [
            part.partition("```")[0]
            for part in page.read_text().split("```yaml\n")
            if "type: mqtt, topic" in part.partition("```")[0]
        ]
        streams = {}
        for body in bodies:
            lines = body.splitlines()
            indent = len(lines[0]) - len(lines[0].lstrip())
            (tmp_path / "config.yaml").write_text("\n".join(line[indent:] for line in lines))
            config = load_agent(tmp_path / "config.yaml", {})
            streams |= {stream.name: stream for stream in config.streams}
        return streams

    return found


@pytest.mark.parametrize(("page", "name", "text", "values"), MESSAGES)
def test_the_documented_configurations_take_what_these_programs_send(
    documented, page, name, text, values
):
    decoder = decoder_for(documented(page)[name])
    rows = decoder.empty(1)
    assert decoder.decode_line(memoryview(text.encode()), rows, 0)
    assert np.array_equal(rows, [values], equal_nan=True)


def test_every_documented_stream_has_a_message(documented):
    for page in (REFERENCE, GUIDE):
        assert {name for other, name, *_ in MESSAGES if other == page} == {
            *documented(page).keys()
        } - {"doors"}


def test_the_documented_stream_of_keys_takes_a_tag(documented):
    decoder = decoder_for(documented(REFERENCE)["doors"])
    rows = decoder.empty(1)
    text = '{"Time":"2024-01-01T00:00:00","RDM6300":{"UID":"A1B2C3D4","DATA":""}}'
    assert decoder.decode_line(memoryview(text.encode()), rows, 0)
    assert rows.tolist() == hash_keys(("A1B2C3D4",)).tolist()


def test_a_bare_state_arrives_over_a_broker(device, broker, until, caplog):
    caplog.set_level("INFO")
    more = "topic: stat/fan/POWER, paths: {wind: ., temp: temp}"
    source = f'{{type: mqtt, url: "{broker.url}", {more}}}'
    stream = device.configure(source=source).streams[0]
    with publisher(broker.url) as say, listening(stream) as rows:
        until(lambda: listens(caplog), "the subscription")
        say("NO", topic="stat/fan/POWER")
        until(lambda: rows, "the reading")
    assert np.array_equal(rows, [[nan, 2.0]], equal_nan=True)
