"""Steps, circles and constants as the collector writes them and is asked about them."""

import io
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from pansketch import Attribute, Domain
from pansketch.generators import Partition
from pansketch_collector.errors import CommandError
from pansketch_collector.queries.questions import answer
from pansketch_collector.queries.sample import write_csv

DOMAIN = Domain(
    [
        Attribute("temp", -40, 60, step=0.1),
        Attribute("wd", 0, 360, cyclic=True),
        Attribute("site", constant=3),
        Attribute("pm25", 0, 1000, scale="log", step=1),
    ]
)


@pytest.fixture
def boxes():
    low = np.array([[0.0, place / 4, 0, 0] for place in range(4)])
    return Partition(DOMAIN, low, low + np.array([1, 0.25, 1, 1]), np.ones(4))


def test_records_are_written_with_the_decimals_of_the_step(boxes):
    out = io.StringIO()
    write_csv(DOMAIN, boxes, 200, np.random.default_rng(1), out)
    header, *lines = out.getvalue().splitlines()
    assert header == "temp,wd,site,pm25"
    for temp, wd, site, pm25 in (line.split(",") for line in lines):
        assert temp == f"{float(temp):.1f}"
        assert 0 <= float(wd) <= 360
        assert (site, pm25) == ("3", str(int(pm25)))


def test_a_range_goes_past_the_end_of_a_circle_alone(boxes):
    model = SimpleNamespace(fitted=boxes, refusing=nullcontext)
    assert answer(model, "range", ["wd", "315", "45"]).share == pytest.approx(0.25)
    with pytest.raises(CommandError, match="LOW must not exceed HIGH"):
        answer(model, "range", ["temp", "20", "10"])


def test_what_a_circle_does_not_have_is_refused(boxes):
    model = SimpleNamespace(fitted=boxes, refusing=nullcontext)
    for question in (["quantile", "wd", "0.5"], ["cdf", "wd", "5"], ["covariance", "wd", "temp"]):
        with pytest.raises(CommandError, match="wd is cyclic"):
            answer(model, question[0], question[1:])
    assert answer(model, "covariance", []).names == ("temp", "site", "pm25")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_shows_how_far_a_large_sample_is(boxes, monkeypatch, capsys, terminal):
    monkeypatch.setattr("pansketch_collector.queries.sample.CHUNK_ROWS", 50)
    monkeypatch.setattr("pansketch_collector.queries.sample.ROWS_WORTH_A_BAR", 200)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    for rows in (199, 200):
        write_csv(DOMAIN, boxes, rows, np.random.default_rng(1), io.StringIO())
    parts = [f"\rsampling {done:3}%" for done in (25, 50, 75, 100)]
    assert capsys.readouterr().err == ("".join([*parts, "\n"]) if terminal else "")
