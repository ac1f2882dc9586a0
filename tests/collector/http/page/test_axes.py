"""The labels of the axes: round values at their positions, without overlap. Marks at extremes."""

import json
from datetime import datetime, timedelta
from math import log1p

import pytest

BOXES = """[...document.querySelectorAll('svg')].map(svg => [...svg.querySelectorAll('text')]
  .map(text => [text.textContent, text.getBoundingClientRect()])
  .map(([text, {left, right, top, bottom}]) => [text, left, right, top, bottom]))"""
PLACES = "import('./page/axes.js').then(m => m.across({edges: %s}, 0, %s))"
TIMES = """[...document.querySelectorAll('svg .tick')].map(tick =>
  [tick.nextSibling.textContent, Number(tick.getAttribute('x1'))])"""
POINTS = "[...document.querySelectorAll('.point')].map(e => Number(e.getAttribute('cx')))"
DAY = 86_400
DAY_IN_PARTS = ["2017-02-20", "02-20 06:00", "02-20 12:00", "02-20 18:00", "2017-02-21"]
TENS = [str(n) for n in range(0, 61, 10)]
DRAWN = """import('./page/distinct.js').then(module => {
  const frame = {show: draw => { frame.drawn = draw(%s).children.flat(9) }};
  module.showDistinct(frame, %s);
  return frame.drawn.filter((_, i) => frame.drawn[i - 1]?.getAttribute('class') === 'tick')
    .map(text => text.textContent);
})"""
FRAME = """import('./page/%s').then(module => {
  const frame = {show: draw => { frame.drawn = draw(600).children.flat(9) }};
  module.%s(frame, %s);
  return frame.drawn.map(each => [each, ...each.querySelectorAll('*')]).flat().map(each =>
    [each.tagName, each.getAttribute('class'), each.textContent, each.getAttribute('d')]);
})"""
RESTS = {
    "releases": 3,
    "devices": 1,
    "windows": {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"},
    "generator": "privhp",
    "epochs": [],
    "guarantee": "epsilon 1",
    "left_out": 0,
    "left_out_because": [],
}
DAYS = (2, 3, 5)  # of January, the beginnings of the windows of a stream of keys


def overlapping(boxes):
    """Pairs of texts of one picture that cover each other."""
    return [
        (one[0], other[0])
        for picture in boxes
        for i, one in enumerate(picture)
        for other in picture[:i]
        if one[1] < other[2] and other[1] < one[2] and one[3] < other[4] and other[3] < one[4]
    ]


@pytest.mark.parametrize("width", [320, 1100])
@pytest.mark.parametrize("stream", ["air", "pairs", "doors"])
def test_no_text_covers_another(shared, tab, stream, width):
    tab.emulate(width, 900, "light")
    tab.open(f"{shared.url}/#stream/{stream}")
    boxes = tab.run(BOXES)
    assert sum(map(len, boxes)) > 5
    assert overlapping(boxes) == []


def test_one_that_does_would_be_noticed(shared, tab):
    """Negative control."""
    tab.open(f"{shared.url}/#stream/air")
    tab.run("(text => text.after(text.cloneNode(true)))(document.querySelector('svg text'))")
    assert overlapping(tab.run(BOXES))


@pytest.mark.parametrize(
    ("edges", "width", "texts"),
    [
        ([-40, -15, 10, 35, 60], 400, [f"−{n}" for n in (40, 30, 20, 10)] + TENS),
        ([-40, -15, 10, 35, 60], 120, ["0", "50"]),
        ([0, 0.05, 0.1], 300, ["0.00", "0.02", "0.04", "0.06", "0.08", "0.10"]),
        ([1, 10, 100, 1000], 600, ["1", "2", "5", "10", "20", "50", "100", "200", "500", "1000"]),
        ([1, 10, 100, 1000], 150, ["1", "10", "100", "1000"]),
        ([5 * (x - 1) for x in (1, 2, 4, 8)], 300, ["0", "1", "2", "5", "10", "20"]),
        ([-2, -1, 1, 5, 13], 300, ["−2", "−1", "0", "1", "2", "5", "10"]),
        ([900, 910, 930, 970], 300, ["900", "905", "910", "920", "950"]),
        ([0, 1000, 3000], 300, ["0", "200", "500", "1000", "2000"]),
        ([0, 1, 2.01, 3.0301], 300, ["0", "0.5", "1", "2"]),
    ],
)
def test_values_are_round_and_where_they_belong(shared, tab, edges, width, texts):
    """Edges are where the API puts them: evenly, or evenly in log(1 + (x - low) / resolution)."""
    tab.open(f"{shared.url}/#fleet")
    shown = sorted(tab.run(PLACES % (edges, width)))
    assert [text for _, text in shown] == texts
    low, high = edges[0], edges[-1]
    factor = ((high - edges[-2]) / (edges[1] - low)) ** (1 / max(len(edges) - 2, 1))
    bend = None if factor == 1 else (edges[1] - low) / (factor - 1)
    for x, text in shown:
        above, span = float(text.replace("−", "-")) - low, high - low
        share = above / span if bend is None else log1p(above / bend) / log1p(span / bend)
        assert x == pytest.approx(share * width, abs=1e-6)


@pytest.mark.parametrize("width", [320, 1100])
def test_times_are_round_and_where_they_belong(shared, tab, width):
    tab.emulate(width, 900, "light")
    tab.open(f"{shared.url}/#stream/doors")
    points, shown = tab.run(POINTS), tab.run(TIMES)
    assert len(points) == len(DAYS)
    assert len(shown) > 1
    for text, x in shown:
        day = int(text.removeprefix("1970-01-"))
        share = (day - DAYS[0]) / (DAYS[-1] - DAYS[0])
        assert x == pytest.approx(points[0] + share * (points[-1] - points[0]), abs=1e-6)


@pytest.mark.parametrize(
    ("first", "seconds", "windows", "width", "texts"),
    [
        ("2017-02-20T00:00:00Z", DAY, 7, 1000, [f"2017-02-{n}" for n in range(20, 27)]),
        # A Sunday is the only round value with room, and one label is too little.
        ("2017-02-20T00:00:17Z", DAY, 7, 280, ["2017-02-20", "2017-02-26"]),
        ("2017-02-20T00:00:17Z", DAY, 1, 280, ["2017-02-20"]),
        ("2017-02-20T00:00:17Z", DAY / 4, 4, 280, ["02-20 00:00", "02-20 18:00"]),
        ("2017-02-20T00:00:00Z", DAY / 4, 5, 1000, DAY_IN_PARTS),
        ("2017-02-20T00:00:00Z", 15, 4, 1000, ["2017-02-20", "00:00:15", "00:00:30", "00:00:45"]),
        ("2013-02-14T00:00:17Z", 30 * DAY, 50, 600, [f"201{n}-01-01" for n in range(4, 8)]),
    ],
)
def test_times_are_written_as_finely_as_windows_follow_each_other(
    shared, tab, first, seconds, windows, width, texts
):
    tab.open(f"{shared.url}/#fleet")
    assert tab.run(DRAWN % (width, json.dumps(keys_of(first, seconds, windows)))) == texts


def keys_of(first, seconds, windows):
    """An answer about so many windows, one after the other."""
    starts = [
        datetime.fromisoformat(first) + timedelta(seconds=seconds * n) for n in range(windows)
    ]
    figures = [
        {"from": f"{at:%Y-%m-%dT%H:%M:%SZ}", "value": 10, "standard_error": 1}
        | {"frozen": [], "devices": []}
        for at in starts
    ]
    whole = {"left_out": 0, "left_out_because": []}
    return {"figures": figures, "window_seconds": seconds} | whole


def drawn(tab, module, function, answer):
    return tab.run(FRAME % (module, function, json.dumps(answer)))


def test_no_axis_of_shares_goes_beyond_all_readings(shared, tab):
    """0.9 ± 0.13 had an axis to 120 %."""
    tab.open(f"{shared.url}/#fleet")
    axis = {"name": "temp", "edges": [0, 50, 100]}
    answer = {**RESTS, "axes": [axis], "share": [0.9, 0.1], "standard_error": [0.13, 0.02]}
    found = drawn(tab, "histogram.js", "showHistogram", answer)
    shares = [text for name, _, text, _ in found if name == "text" and text.endswith("%")]
    assert shares[-1] == "100 %"


@pytest.mark.parametrize(("levels", "parts"), [([1, 3], 2), ([1, 2, 4], 2)])
def test_a_level_without_neighbours_is_seen(shared, tab, levels, parts):
    """A line from a point to itself has no length, so the picture was empty."""
    tab.open(f"{shared.url}/#fleet")
    rows = [
        {
            "from": f"2026-01-0{day}T00:00:00Z",
            "to": f"2026-01-0{day + 1}T00:00:00Z",
            "releases": 1,
            "readings": None,
            "value": None,
            "standard_error": None,
            "level": {"value": 2.0, "standard_error": 1.0, "band": [0.0, 4.0]}
            if day in levels
            else None,
        }
        for day in (1, 2, 3, 4)
    ]
    answer = {**RESTS, "by": "window", "unit": "", "step": 0, "rows": rows}
    found = drawn(tab, "series.js", "showSeries", [{"name": "all", "answer": answer}])
    for mark in ("line", "band"):
        paths = [path for name, kind, _, path in found if (name, kind) == ("path", mark)]
        assert len(paths) == parts
        for path in paths:
            length = f"""(path => {{ path.setAttribute('d', {path!r}); return path.getTotalLength()
              }})(document.createElementNS('http://www.w3.org/2000/svg', 'path'))"""
            assert tab.run(length) > 4
