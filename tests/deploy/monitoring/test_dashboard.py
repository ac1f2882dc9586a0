"""deploy/grafana/dashboard.json: what a reader of it needs in each panel, and room for all."""

import json
import re
from itertools import combinations
from pathlib import Path

import pytest

FILE = Path(__file__).parents[3] / "deploy/grafana/dashboard.json"
DASHBOARD = json.loads(FILE.read_text())
PANELS = DASHBOARD["panels"]
SHOWING = [panel for panel in PANELS if panel["type"] != "row"]
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(
        one[at] < other[at] + other[long] and other[at] < one[at] + one[long]
        for at, long in (("x", "w"), ("y", "h"))
    )


def test_it_can_be_imported_anywhere():
    """No id of an installation, and the data source is the reader's choice."""
    assert "id" not in DASHBOARD
    assert DASHBOARD["uid"] == "pansketch-fleet"
    assert DASHBOARD["schemaVersion"] >= 38  # Grafana 10
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    assert variables["instance"]["datasource"] == SOURCE
    assert all(each["datasource"] == SOURCE for each in DASHBOARD["annotations"]["list"])


def test_panels_have_room():
    places = [panel["gridPos"] for panel in PANELS]
    assert all(0 <= place["x"] < place["x"] + place["w"] <= COLUMNS for place in places)
    assert not [pair for pair in combinations(places, 2) if overlap(*pair)]
    assert sum(place["w"] * place["h"] for place in places) == COLUMNS * max(
        place["y"] + place["h"] for place in places
    )


@pytest.mark.parametrize(
    ("x", "y", "expected"), [(0, 0, True), (3, 3, True), (4, 0, False), (0, 4, False)]
)
def test_an_overlap_is_one(x, y, expected):
    assert overlap({"x": 0, "y": 0, "w": 4, "h": 4}, {"x": x, "y": y, "w": 4, "h": 4}) is expected


def test_each_panel_is_told_apart_and_explained():
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)
    for panel in SHOWING:
        assert panel["type"] in ("stat", "timeseries")
        assert len(panel["description"]) > 10, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["value"] is None


def test_each_question_goes_to_the_chosen_source_and_collector():
    for panel in SHOWING:
        assert panel["datasource"] == SOURCE
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            assert target["datasource"] == SOURCE
            asked = re.findall(r"pansketch_\w+", target["expr"])
            assert asked
            assert target["expr"].count('instance=~"$instance"') == len(asked), target["expr"]
