"""The texts along the axes: round values at their places, and none over another."""

from math import log

import pytest

BOXES = """[...document.querySelectorAll('svg')].map(svg => [...svg.querySelectorAll('text')]
  .map(text => [text.textContent, text.getBoundingClientRect()])
  .map(([text, {left, right, top, bottom}]) => [text, left, right, top, bottom]))"""
PLACES = """import('./page/axes.js').then(m => m.along({edges: %s}, 0, %s, 0).flat(9)
  .filter(e => e.nodeType && e.getAttribute('class') !== 'axis')
  .map(e => [e.textContent, Number(e.getAttribute('x') ?? e.getAttribute('x1'))]))"""


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
    tab.looks(width, 900, "light")
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
        ([-40, -15, 10, 35, 60], 400, [str(n) for n in range(-40, 61, 10)]),
        ([-40, -15, 10, 35, 60], 120, ["0", "50"]),
        ([0, 0.05, 0.1], 300, ["0", "0.02", "0.04", "0.06", "0.08", "0.1"]),
        ([1, 10, 100, 1000], 600, ["1", "2", "5", "10", "20", "50", "100", "200", "500", "1000"]),
        ([1, 10, 100, 1000], 150, ["1", "10", "100", "1000"]),
    ],
)
def test_values_are_round_and_where_they_belong(shared, tab, edges, width, texts):
    tab.open(f"{shared.url}/#fleet")
    found = sorted(tab.run(PLACES % (edges, width)), key=lambda each: each[1])
    shown = [(text, x) for text, x in found if text]
    assert [text for text, _ in shown] == texts
    size = width / (len(edges) - 1)
    for text, x in shown:
        value = float(text)
        bin_ = max(i for i, edge in enumerate(edges[:-1]) if edge <= value)
        low, high = edges[bin_ : bin_ + 2]
        even = high - low == edges[1] - edges[0] == edges[-1] - edges[-2]
        share = (value - low) / (high - low) if even else log(value / low) / log(high / low)
        # At the right end a text may be moved to stay within the picture.
        assert x == pytest.approx((bin_ + share) * size, abs=1e-6) or x > width - 30
