"""Every endpoint of the HTTP API, asked of a real server; each answer is the command line's."""

import csv
import io
import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow.parquet
import pytest

from pansketch_collector.__main__ import main
from pansketch_collector.errors import CommandError
from pansketch_collector.http.endpoints.row_formats import SHAPES
from pansketch_collector.queries.fleet_model import build
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection

TEMP = {"attribute": "temp"}


@pytest.fixture
def command(shared, capsys):
    """The command line's output for the same database."""

    def run(*words):
        assert main([*words, "--config", str(shared.site.path)]) == 0
        return capsys.readouterr().out

    return run


def test_streams_are_listed_with_settings_and_counts(get):
    streams = {each["stream"]: each for each in get("/v1/streams").json()["streams"]}
    assert list(streams) == ["air", "pairs", "sums", "doors", "silent"]
    air, doors = streams["air"], streams["doors"]
    assert (air["holds"], air["sketch"], air["window_seconds"]) == ("readings", "hierarchy", 86400)
    assert air["attributes"][0]["unit"] == "degC"
    assert air["attributes"][1]["categories"] == ["calm", "north, east", "south"]
    assert air["stored"] == {
        "releases": 6,
        "devices": 2,
        "gaps": 2,
        "late": 0,
        "disputed": 0,
        "rolled_back": 0,
        "first_window": "1970-01-02T00:06:11Z",  # of two: windows begin by each device's schedule
        "last_window": "1970-01-06T00:08:09Z",  # of one
    }
    assert {"histogram", "density", "quantile"} <= set(air["questions"])
    assert (doors["holds"], doors["questions"]) == ("keys", ["distinct"])
    assert streams["silent"]["stored"]["releases"] == 0


def test_devices_come_in_parts_as_the_command_line_has_them(get, command):
    whole = get("/v1/devices").json()
    known = json.loads(command("devices", "--json"))
    assert whole["devices"] == known["devices"]
    assert whole["quarantine"] == known["quarantine"] == {"topic": 2}
    assert (whole["total"], whole["next"]) == (2, None)
    first = get("/v1/devices", limit=1).json()
    assert first["next"] == "one"
    second = get("/v1/devices", limit=1, after=first["next"]).json()
    assert [first["devices"][0], second["devices"][0]] == whole["devices"]
    assert second["next"] is None


def test_releases_come_in_parts_each_once(get):
    found, after = [], {}
    while True:
        part = get("/v1/releases", stream="air", limit=4, **after).json()
        found += [(r["device"], r["sequence"]) for r in part["releases"]]
        if part["next"] is None:
            break
        after = {"after": part["next"]}
    assert found == [(device, n) for n in (1, 2, 4) for device in ("two", "one")]  # by start
    one = get("/v1/releases", stream="air", devices="one", to="1970-01-03").json()["releases"]
    assert [(r["device"], r["sequence"]) for r in one] == [("one", 1)]
    assert re.fullmatch("[0-9a-f]{32}", one[0]["digest"])
    assert one[0]["payload_bytes"] > 100
    assert one[0]["window"] == {"from": "1970-01-02T00:08:09Z", "to": "1970-01-03T00:08:09Z"}


def test_the_guarantee_is_the_configurations(get):
    found = get("/v1/streams/air/guarantee").json()
    assert (found["epsilon"], found["unit"], found["intrusion"]) == (100.0, "reading", "silent")
    assert (found["epsilon_state"], found["epsilon_release"], found["delta"]) == (100, 100, 0)
    keys = get("/v1/streams/doors/guarantee").json()
    assert keys["epsilon_state"] + keys["epsilon_release"] == keys["epsilon"]
    assert "per key per window" in keys["sentence"]


@pytest.mark.parametrize(
    ("stream", "words", "parameters"),
    [
        ("air", ["quantile", "temp", "0.5"], {"attribute": "temp", "q": 0.5}),
        ("air", ["mean", "temp"], {"attribute": "temp"}),
        ("air", ["cdf", "temp", "21"], {"attribute": "temp", "x": 21}),
        ("air", ["count", "temp > 5 & wind = calm"], {"where": "temp > 5 & wind = calm"}),
        (
            "air",
            ["range", "temp", "0", "22.5", "wind", "south"],
            {"attribute": ["temp", "wind"], "low": 0, "high": 22.5, "category": "south"},
        ),
        ("air", ["covariance"], {}),
        ("pairs", ["covariance", "temp", "humid"], {"attribute": ["temp", "humid"]}),
        ("sums", ["mean", "humid"], {"attribute": "humid"}),
        ("doors", ["distinct"], {}),
        ("doors", ["distinct", "--by", "device"], {"by": "device"}),
        (
            "air",
            ["mean", "temp", "--generator", "kdtree"],
            {"attribute": "temp", "generator": "kdtree"},
        ),
        ("air", ["mean", "temp", "--devices", "one"], {"attribute": "temp", "devices": "one"}),
        (
            "air",
            ["mean", "temp", "--from", "1970-01-03"],
            {"attribute": "temp", "from": "1970-01-03"},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_answer_is_the_command_lines(get, command, stream, words, parameters):
    """Errors of two fits of one model are the spreads of two sets of noise draws.

    All other digits are equal.
    """
    answer = get(f"/v1/streams/{stream}/query", question=words[0], **parameters).json()
    known = json.loads(command("query", "--stream", stream, "--json", *words))
    assert answer.pop("question") == words[0]
    assert answer["left_out"] == 0
    answer.pop("fleet", None)
    found, wanted = answer.pop("standard_error", None), known.pop("standard_error", None)
    assert (found is None) == (wanted is None) == (words[0] == "distinct")
    assert answer == known


def test_a_histogram_is_what_ranges_count(get):
    """The share of a bin deviates by a fourteenth with a probability far below 1e-15.

    It has 3,600 readings, and at epsilon 100 the noise of 6 releases moves it by some readings.
    """
    found = get("/v1/streams/air/query", question="histogram", attribute="temp", bins=10).json()
    (axis,) = found["axes"]
    assert (axis["attribute"], axis["unit"], len(axis["edges"])) == ("temp", "degC", 11)
    assert sum(found["share"]) == pytest.approx(1)
    assert len(found["standard_error"]) == 10
    assert min(found["standard_error"]) >= 0
    below = get(
        "/v1/streams/air/query", question="cdf", attribute="temp", x=axis["edges"][6]
    ).json()
    assert sum(found["share"][:6]) == pytest.approx(below["value"], abs=1e-9)
    assert (found["releases"], found["devices"]) == (6, 2)
    wind = get("/v1/streams/air/query", question="histogram", attribute="wind").json()
    assert wind["axes"][0]["categories"] == ["calm", "north, east", "south"]
    assert wind["share"] == pytest.approx([1 / 3] * 3, abs=0.025)


@pytest.mark.parametrize("stream", ["air", "pairs"])
def test_all_bins_at_once_are_the_shares_one_by_one(shared, stream):
    """Of boxes with categories, and of points on a step that boxes hold."""
    config = shared.site.config
    with reading(config.collector.database) as reader:
        boxes = build(reader, config, Selection(stream)).fitted
    edges = [-40.0, 10.0, 20.3, 22.0, 60.0]
    temp = [f"temp >= {low} & temp < {high}" for low, high in pairwise(edges)]
    wind = [f"wind = {name}" for name in boxes.domain.attributes[-1].categories]
    found = boxes.bin_shares([temp, wind])
    value, error = found.value, found.standard_error
    known = [[boxes.share(f"{one} & {other}") for other in wind] for one in temp]
    assert value == pytest.approx(np.array([[e.value for e in row] for row in known]), abs=1e-12)
    errors = np.array([[e.standard_error for e in row] for row in known])
    if stream == "air":
        assert error == pytest.approx(errors, rel=1e-6, abs=1e-9)
    else:  # Errors of bins have other parts of what replicates show, and of what noise hides.
        assert (error <= 1.6 * errors + 1e-9).all()
        assert (error >= 0.3 * errors - 1e-9).all()


def test_a_density_adds_up_to_its_histograms(get):
    found = get(
        "/v1/streams/pairs/query", question="density", attribute=["temp", "humid"], bins=8
    ).json()
    alone = get("/v1/streams/pairs/query", question="histogram", attribute="temp", bins=8).json()
    assert [len(row) for row in found["share"]] == [8] * 8
    # Particles follow the margins nearly, and a question of one attribute needs none.
    assert [sum(row) for row in found["share"]] == pytest.approx(alone["share"], abs=1e-4)
    assert [len(row) for row in found["standard_error"]] == [8] * 8


def test_the_library_of_a_format_that_is_not_installed_is_named():
    SHAPES["parquet"].check()
    with pytest.raises(CommandError, match=r"no no_such_library: install pansketch\[parquet\]"):
        replace(SHAPES["parquet"], needs="no_such_library").check()


def test_one_seed_gives_the_same_rows_in_every_format(get, tmp_path, command):
    """Of more than one chunk, so of more than one row group."""
    path, options = "/v1/streams/air/sample", {"rows": 70_000, "seed": 7}
    text = get(path, format="csv", **options).text
    lines = list(csv.reader(io.StringIO(text)))
    rows = get(path, format="json", **options).json()
    assert lines[0] == ["temp", "wind"] == list(rows[0])
    file = io.BytesIO(get(path, format="parquet", **options).content)
    table = pyarrow.parquet.ParquetFile(file)
    assert table.num_row_groups == 2
    columns = table.read().to_pydict()
    assert len(rows) == len(lines) - 1 == table.metadata.num_rows == 70_000
    assert [[float(temp), wind] for temp, wind in lines[1:]] == [[*row.values()] for row in rows]
    assert columns == {name: [row[name] for row in rows] for name in ("temp", "wind")}
    assert json.loads(table.metadata.metadata[b"pansketch"])["releases"] == 6
    words = ["sample", "--stream", "air", "--rows", "70000", "--seed", "7"]
    command(*words, "--out", str(tmp_path / "a"))
    assert (tmp_path / "a").read_text() == text
    # Negative control: another seed gives other rows.
    assert get(path, rows=70_000, seed=8).text != text


def test_a_file_names_its_seed_and_basis(get):
    first = get("/v1/streams/air/sample", rows=5)
    assert first.headers["content-disposition"] == 'attachment; filename="air.csv"'
    assert first.headers["pansketch-source"].startswith("6 releases of 2 devices, epsilon 100")
    again = get("/v1/streams/air/sample", rows=5, seed=first.headers["pansketch-seed"])
    assert again.text == first.text


def test_metrics_report_the_state_of_ingestion(get):
    response = get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    line = re.compile(
        r'# (HELP|TYPE) pansketch_\w+ .+|pansketch_\w+(\{\w+="[^"\n]*"\})? -?[0-9.e+-]+'
    )
    assert all(line.fullmatch(each) for each in response.text.splitlines())
    for known in (
        'pansketch_releases_stored{stream="air"} 6',
        'pansketch_missing_windows{stream="air"} 2',
        'pansketch_refused_total{reason="topic"} 2',
        'pansketch_devices{state="online"} 1',
        'pansketch_devices{state="unknown"} 1',
        "pansketch_backlog_releases 3",
        "pansketch_backlog_oldest_seconds 120",
        "pansketch_name_conflicts 5",
    ):
        assert known in response.text.splitlines()


def test_the_page_of_the_interface_needs_no_other_host(get):
    page, description = get("/docs"), get("/openapi.json").json()
    assert page.headers["content-type"].startswith("text/html")
    assert all(f"GET {path}<" in page.text for path in description["paths"])
    assert "<script" not in page.text
    assert re.findall(r'(?:src|href)="([^"]+)"', page.text) == ["openapi.json"]
    assert get("/healthz").json() == {"status": "ok"}


def test_rows_over_time_are_those_of_the_command_line(get, command):
    asked = {"question": "mean", **TEMP, "by": "window", "smooth": "true"}
    answer = get("/v1/streams/pairs/query", **asked)
    words = ["--stream", "pairs", "mean", "temp", "--by", "window", "--smooth", "--json"]
    known = command("query", *words)
    assert answer.json() == {"question": "mean", **json.loads(known)}
    assert len(answer.json()["rows"]) == 3
    assert get("/v1/streams/pairs/query", **asked).headers["etag"] == answer.headers["etag"]


@pytest.mark.parametrize("question", ["change", "drift"])
def test_two_periods_are_compared_as_on_the_command_line(get, command, question):
    days = ["1970-01-02", "1970-01-03"]
    answer = get("/v1/streams/pairs/query", question=question, between=days).json()
    known = command("query", "--stream", "pairs", question, "--between", *days, "--json")
    assert answer == {"question": question, **json.loads(known)}


def test_a_row_or_a_period_that_cannot_be_is_refused(get):
    asked = {"question": "mean", **TEMP}
    for wrong, says in [
        ({**asked, "smooth": "true"}, "add by=window"),
        ({**asked, "by": "device", "smooth": "true"}, "devices have no order"),
        ({"question": "covariance", "by": "day"}, "by does not apply to the question covariance"),
        ({"question": "drift", "between": ["1970-01-02"]}, "give between twice"),
        ({**asked, "by": "device", "robust": "true"}, "robust asks groups of devices"),
    ]:
        answer = get("/v1/streams/pairs/query", **wrong)
        assert answer.status_code == 422
        assert says in answer.json()["detail"]
