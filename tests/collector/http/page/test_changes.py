"""The view of changes: periods and groups compared, lines over time, and files of what is shown."""

import csv
import io
import json
from urllib.parse import parse_qs, urlsplit

import pytest

from pansketch_collector.http.endpoints.parameters import QuestionParameters
from pansketch_collector.http.endpoints.warm_up import change_questions, stream_questions
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.holdings import by_stream
from tests.collector.http.page.test_page import AXE, LOOKS, fill_in

DEVICES = ("a-1", "a-2", "b-1", "b-2")
DAYS = (1, 2, 3, 4)
COLD, WARM = ("1970-01-02T00:00", "1970-01-04T00:00"), ("1970-01-04T00:00", "1970-01-06T00:00")
CONTRAST = """(() => {
  const linear = c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
  const light = text => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number);
    return .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b); };
  const card = light(getComputedStyle(document.querySelector('.card')).backgroundColor);
  const ratio = (element, property) => { const own = light(getComputedStyle(element)[property]);
    return (Math.max(own, card) + .05) / (Math.min(own, card) + .05); };
  return Object.fromEntries(%s.map(([selector, property]) => [selector,
    ratio(document.querySelector(selector), property)]));
})()"""
DRAWN = [
    ["svg .of-0 > .line", "stroke"],
    ["svg .of-1 > .line", "stroke"],
    [".moved > .point", "fill"],
]


@pytest.fixture(scope="module")
def server(tmp_path_factory, request):
    """Two groups of two devices. From the third day on the readings of all are warmer; those of the
    group `upper` are always more humid."""
    from pansketch_fleet.protocol import topics
    from tests.collector.http.conftest import READINGS, Site, incoming, serving

    site = Site(tmp_path_factory.mktemp("changes"))
    text = site.path.read_text().replace(
        "\nstreams:", '\ngroups: {upper: ["a-*"], lower: ["b-*"]}\nstreams:'
    )
    site.path.write_text(text)
    before, messages = READINGS["pairs"], []
    try:
        for device in DEVICES:
            for day in DAYS:
                READINGS["pairs"] = [
                    [temp + 10 * (day > 2), humid + 20 * device.startswith("a"), wind]
                    for temp, humid, wind in before
                ]
                topic = topics.release("testing", device, "pairs")
                messages.append(incoming(topic, site.release(device, "pairs", day)))
    finally:
        READINGS["pairs"] = before
    site.commit(messages)
    with serving(site) as started:
        yield started
        assert started.program.stop() == 0, started.program.output


def number(cell):
    return float(cell.split()[0].replace("−", "-"))


def shown(tab):
    """The verdict, and the cells of the table of attributes."""
    table = "document.querySelector('.picture tbody')"
    rows = f"[...{table}.rows].map(row => [...row.cells].map(cell => cell.textContent))"
    return tab.run("document.querySelector('.verdict').textContent"), {
        name: cells for name, *cells in tab.run(rows)
    }


@pytest.mark.parametrize("look", LOOKS)
def test_two_periods_are_compared_at_every_refresh(server, tab, shoot, look):
    """All of axe's rules hold. By the level, `humid` counts as changed with a probability of at
    most 0.01.

    So the test requires a p-value above 1e-6 for it instead.
    """
    width, scheme = LOOKS[look]
    tab.emulate(width, 900, scheme)
    tab.open(f"{server.url}/#changes/pairs")
    verdict, rows = shown(tab)
    assert "changed beyond noise" in verdict
    assert "temp" in verdict
    assert rows["temp"][0] == "changed"
    assert number(rows["temp"][3]) == pytest.approx(10, abs=2)
    assert rows["humid"][4] != "< 0.001" or rows["humid"][0] == "changed"
    titles = tab.run("[...document.querySelectorAll('.cards h3')].map(e => e.textContent)")
    assert titles == [
        "Mean of temp",
        "Mean of humid",
        "Readings with wind = calm",
        "Readings with wind = south",
    ]
    assert tab.run("document.querySelectorAll('.cards path.band').length") == len(titles)
    assert tab.run("document.querySelectorAll('.cards rect.period').length") == 2 * len(titles)
    tab.run("document.querySelectorAll('details').forEach(each => { each.open = true })")
    tab.run(AXE)
    found = tab.run("axe.run(document).then(r => r.violations)")
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    assert tab.errors == []
    assert shoot(f"changes-{look}").stat().st_size > 5000


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_two_groups_are_compared_and_told_apart_without_colour(server, tab, shoot, scheme):
    tab.emulate(1100, 900, scheme)
    tab.open(f"{server.url}/#changes/pairs?devices=@upper&against=@lower")
    verdict, rows = shown(tab)
    assert "humid" in verdict
    assert number(rows["humid"][3]) == pytest.approx(-20, abs=4)
    lines = "[...document.querySelector('.cards .picture').querySelectorAll('path.line')]"
    dashes = tab.run(f"{lines}.map(e => getComputedStyle(e).strokeDasharray)")
    assert len(set(dashes)) == 2
    assert "@lower: dashed line, square points" in tab.text()
    ratios = tab.run(CONTRAST % json.dumps(DRAWN))
    assert min(ratios.values()) >= 3, ratios  # WCAG 1.4.11, of what a picture is made of
    assert tab.errors == []
    assert shoot(f"changes-groups-{scheme}").stat().st_size > 5000


def test_the_check_of_contrast_can_fail(server, tab):
    """Negative control."""
    tab.open(f"{server.url}/#changes/pairs?devices=@upper&against=@lower")
    tab.run("document.querySelector('svg .of-1 > .line').style.stroke = '#f0f0f0'")
    assert tab.run(CONTRAST % json.dumps(DRAWN))["svg .of-1 > .line"] < 3


def test_what_is_chosen_is_in_the_address_and_is_asked(server, tab):
    tab.open(f"{server.url}/#changes/pairs")
    fill_in(tab, "compare", "groups")
    assert tab.run("document.querySelector('[name=first_from]').closest('.field').hidden")
    fill_in(tab, "devices", "a-1, a-2")
    fill_in(tab, "against", "@lower")
    tab.run("document.querySelector('form.asking button').click()")
    tab.until("document.querySelector('.verdict')?.textContent.includes('humid')")
    assert tab.run("location.hash") == "#changes/pairs?devices=a-1%2Ca-2&against=%40lower"
    tab.open(f"{server.url}/#changes/pairs?devices=@none&against=@lower")
    assert "unknown group '@none'; the configuration has upper, lower" in tab.text()
    tab.open(f"{server.url}/#changes/pairs?devices=@upper&against=a-1")
    assert "a-1 is in both groups" in tab.text()
    tab.open(f"{server.url}/#changes/air")
    assert "Nothing is stored of this stream yet." in tab.text()
    tab.open(f"{server.url}/#changes/%3Cb%3E")
    assert "There is no stream of readings <b>." in tab.text()
    assert tab.errors == [e for e in tab.errors if "status of 4" in e]


@pytest.mark.parametrize(
    ("view", "questions"), [("changes", change_questions), ("stream", stream_questions)]
)
def test_the_page_asks_first_what_the_server_has_answered_after_its_start(
    server, tab, view, questions
):
    """Otherwise the first visitor waits for the fits of all windows."""
    tab.open(f"{server.url}/#{view}/pairs")
    config = server.site.config
    (stream,) = [each for each in config.streams if each.name == "pairs"]
    with reading(config.collector.database) as reader:
        counts = by_stream(reader.connection)["pairs"]
    found = [parse_qs(urlsplit(each).query) for each in tab.requests if "/query?" in each]
    several = ("attribute", "between", "category")
    asked = [
        QuestionParameters.model_validate(
            {name: given if name in several else given[0] for name, given in each.items()}
        )
        for each in found
    ]
    by_name = sorted(each.model_dump_json() for each in asked)
    assert by_name == sorted(e.model_dump_json() for e in questions(stream, counts))


@pytest.mark.parametrize("view", ["changes", "stream"])
def test_names_are_fetched_when_a_field_of_devices_has_the_focus(server, tab, view):
    """The list of a large fleet has megabytes, and no picture needs it."""
    options = "[...document.getElementById('names').options].map(each => each.value)"
    tab.open(f"{server.url}/#{view}/pairs")
    assert tab.run(options) == ["@upper", "@lower"]
    assert not any("/v1/devices" in each for each in tab.requests)
    for _ in range(2):
        tab.run("document.querySelector('main select').focus()")
        tab.run("document.querySelector('[name=devices]').focus()")
        tab.until(f"{options}.length > 2")
    assert tab.run(options) == ["@upper", "@lower", *DEVICES]
    assert len([each for each in tab.requests if "/v1/devices" in each]) == 1


def test_a_stream_is_shown_of_a_group(server, tab):
    tab.open(f"{server.url}/#stream/pairs")
    fill_in(tab, "devices", "@upper")
    assert tab.run("document.querySelector('[name=devices]').checkValidity()")
    tab.run("document.querySelector('form.asking button').click()")
    tab.until("document.querySelector('#main figure svg')")
    assert tab.run("location.hash") == "#stream/pairs?attribute=temp&second=humid&devices=%40upper"
    tab.until("document.querySelector('#main figcaption')?.textContent.includes('of 2 devices')")


def test_a_file_is_what_is_shown(server, tab, tmp_path, soon):
    tab.open(f"{server.url}/#changes/pairs")
    tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    for shape in ("CSV", "JSON"):
        for title in ("Which attributes moved", "Mean of temp"):
            tab.run(f"document.querySelector('[aria-label=\"{title} as {shape}\"]').click()")
    names = [
        f"{n}.{s}" for n in ("which-attributes-moved", "mean-of-temp") for s in ("csv", "json")
    ]
    soon(lambda: all((tmp_path / name).exists() for name in names))
    asked = {"question": "mean", "attribute": "temp", "by": "window", "smooth": "true"}
    asked |= {"from": COLD[0], "to": WARM[1]}
    with server.client() as client:
        answer = client.get("/v1/streams/pairs/query", params=asked).json()
        pair = {"question": "change", "between": ["..".join(COLD), "..".join(WARM)]}
        change = client.get("/v1/streams/pairs/query", params=pair).json()
    assert json.loads((tmp_path / "mean-of-temp.json").read_text()) == answer
    rows = list(csv.DictReader(io.StringIO((tmp_path / "mean-of-temp.csv").read_text())))
    assert [float(row["level.value"]) for row in rows] == [
        row["level"]["value"] for row in answer["rows"]
    ]
    assert [row["from"] for row in rows] == [row["from"] for row in answer["rows"]]
    assert json.loads((tmp_path / "which-attributes-moved.json").read_text())["change"] == change
    _, table = shown(tab)
    listed = csv.DictReader(io.StringIO((tmp_path / "which-attributes-moved.csv").read_text()))
    assert {row["attribute"]: row["verdict"] for row in listed} == {
        name: cells[0] for name, cells in table.items()
    }


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [(-0.04, 1.6, "0.0 ± 1.6"), (-0.06, 1.6, "−0.1 ± 1.6"), (0, 1.6, "0.0 ± 1.6")],
)
def test_a_number_that_is_rounded_to_zero_has_no_sign(server, tab, value, error, text):
    tab.open(f"{server.url}/#privacy")
    shown = f"import('./page/numbers.js').then(m => m.withError({value}, {error}))"
    assert tab.run(shown) == text


def test_each_field_of_the_form_has_a_name_of_its_own(server, tab):
    tab.open(f"{server.url}/#changes/pairs")
    fields = "[...document.querySelectorAll('form.asking label')].map(e => e.textContent)"
    names = tab.run(fields)
    assert len(names) == len(set(names)) >= 10


@pytest.mark.parametrize(
    ("value", "text"),
    [("=1+1", "'=1+1"), ("a,b", '"a,b"'), ('say "x"', '"say ""x"""'), (-2.5, "-2.5"), (None, "")],
)
def test_a_cell_is_quoted_and_no_formula(server, tab, value, text):
    tab.open(f"{server.url}/#privacy")
    made = tab.run(f"import('./page/files.js').then(m => m.csv([{{of: {json.dumps(value)}}}]))")
    assert made == f"of\r\n{text}\r\n"


def test_the_control_of_files_can_fail(server, tab):
    """Negative control of the test above: as a number the same text is none to be quoted."""
    tab.open(f"{server.url}/#privacy")
    assert (
        tab.run("import('./page/files.js').then(m => m.csv([{of: '-2.5'}]))") == "of\r\n'-2.5\r\n"
    )
