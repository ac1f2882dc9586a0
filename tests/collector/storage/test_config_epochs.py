"""Configuration epochs: late releases of earlier settings are stored, and answers span them."""

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from pansketch_collector.storage.reader import reading
from pansketch_collector.validation.verdicts import Accepted, Rejected

DAY = 86_400
EACH = 4_000


def change(small_fleet, old, new):
    text = small_fleet.path.read_text()
    assert old in text
    small_fleet.path.write_text(text.replace(old, new, 1))


def drawn(seed, mean, spread=5.0):
    return np.random.default_rng(seed).normal(mean, spread, (EACH, 1))


@pytest.fixture
def changed(serve, small_fleet):
    """Two epochs of `air`: cold days with one epsilon and bounds, warm days with others; one cold
    day's release comes late. Returns the readings of both."""
    text = small_fleet.path.read_text().replace("epsilon: 1.0, unit", "epsilon: 60.0, unit", 1)
    small_fleet.path.write_text(
        text.replace("depth: 4, k: 4, width: 8", "depth: 8, k: 256, width: 8", 1)
    )
    cold = [drawn(n, 5.0) for n in (1, 2)]
    before = [small_fleet.release("one", n, "air", rows) for n, rows in enumerate(cold, 1)]
    (first,) = serve(("one", "air", before[0]), at=1000)
    assert isinstance(first, Accepted)
    change(small_fleet, "epsilon: 60.0", "epsilon: 90.0")
    change(small_fleet, "{low: -40, high: 60, unit: degC}", "{low: -60, high: 90, unit: degC}")
    warm = [drawn(n, 40.0) for n in (3, 4)]
    after = [small_fleet.release("two", n, "air", rows) for n, rows in enumerate(warm, 3)]
    outcomes = serve(("one", "air", before[1]), *(("two", "air", each) for each in after), at=9000)
    assert all(isinstance(outcome, Accepted) for outcome in outcomes), outcomes
    return np.concatenate([*cold, *warm])[:, 0]


def asked(run, *words):
    code, out, err = run("query", "--stream", "air", "--json", *words)
    assert code == 0, err
    return json.loads(out)


def test_answers_span_epochs_whose_bounds_and_epsilon_differ(changed, run):
    cell = 150 / 2**8
    answer = asked(run, "mean", "temp")
    assert answer["value"] == pytest.approx(changed.mean(), abs=cell)
    assert answer["releases"] == 4
    assert answer["left_out"] == 0
    parts = [(part["releases"], part["served_since"]) for part in answer["epochs"]]
    assert parts == [(2, "1970-01-01T02:30:00Z"), (2, "1970-01-01T00:16:40Z")]
    assert [part["guarantee"].split(" (")[0] for part in answer["epochs"]] == [
        "epsilon 90 per reading per stream",
        "epsilon 60 per reading per stream",
    ]
    for q in (0.1, 0.25, 0.75, 0.9):
        truth = np.quantile(changed, q)
        assert asked(run, "quantile", "temp", str(q))["value"] == pytest.approx(truth, abs=2 * cell)
    count = asked(run, "count", "temp > 20")
    assert count["value"] == pytest.approx(np.sum(changed > 20), abs=8 * count["standard_error"])
    inside = asked(run, "range", "temp", "0", "45")
    truth = np.sum((changed >= 0) & (changed <= 45))
    assert inside["value"] == pytest.approx(truth, abs=8 * inside["standard_error"])
    below = asked(run, "cdf", "temp", "5")
    assert below["value"] == pytest.approx(np.mean(changed <= 5), abs=0.03)
    (variance,) = asked(run, "covariance", "temp")["value"][0]
    assert variance == pytest.approx(changed.var(), rel=0.02)
    # The negative control: each epoch alone is elsewhere.
    assert asked(run, "mean", "temp", "--devices", "one")["value"] == pytest.approx(5, abs=1)
    assert asked(run, "mean", "temp", "--devices", "two")["value"] == pytest.approx(40, abs=1)


def test_the_text_has_the_guarantee_of_each_epoch(changed, run):
    code, out, err = run("query", "--stream", "air", "mean", "temp")
    assert (code, err) == (0, "")
    assert "2 of settings served since 1970-01-01T02:30:00Z: epsilon 90 per reading (silent)" in out
    assert "; 2 of settings served since 1970-01-01T00:16:40Z: epsilon 60 per reading" in out


def test_samples_span_epochs(changed, run, tmp_path):
    out = tmp_path / "rows.csv"
    assert run("sample", "--stream", "air", "--rows", "20000", "--out", str(out))[0] == 0
    rows = np.loadtxt(out, skiprows=1)
    assert rows.mean() == pytest.approx(changed.mean(), abs=1)
    assert rows.std() == pytest.approx(changed.std(), rel=0.03)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("unit: degC", "unit: K", "another unit of temp under earlier settings"),
        ("temp: {low: -40", "warmth: {low: -40", "other attributes: temp, warmth"),
        ("high: 60, unit: degC}", "high: 60, unit: degC, scale: log}", "another scale of temp"),
    ],
)
def test_incompatible_epochs_are_omitted_and_reported(small_fleet, serve, run, old, new, says):
    change(small_fleet, "epsilon: 1.0, unit", "epsilon: 60.0, unit")
    serve(("one", "air", small_fleet.release("one", 1, "air", drawn(1, 5.0))))
    change(small_fleet, old, new)
    change(small_fleet, "epsilon: 60.0", "epsilon: 50.0")
    name = "warmth" if "warmth" in new else "temp"
    code, out, err = run("query", "--stream", "air", "mean", name)
    assert (code, out) == (1, "")
    assert says in err
    serve(("one", "air", small_fleet.release("one", 2, "air", drawn(2, 25.0))), at=2000)
    code, out, err = run("query", "--stream", "air", "mean", name)
    assert code == 0
    assert ", left_out: 1\n" in out
    assert err.startswith("note: left out: 1 release, ")
    assert says in err


def test_settings_that_were_never_served_are_deferred(small_fleet, serve):
    """A device ahead of its collector keeps its releases until the collector follows."""
    old = small_fleet.path.read_text()
    change(small_fleet, "epsilon: 1.0, unit", "epsilon: 2.0, unit")
    ahead = small_fleet.release("one", 1)
    small_fleet.path.write_text(old)
    (outcome,) = serve(("one", "air", ahead))
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.final) == ("fingerprint", False)
    change(small_fleet, "epsilon: 1.0, unit", "epsilon: 2.0, unit")
    (outcome,) = serve(("one", "air", ahead))
    assert isinstance(outcome, Accepted)


def test_going_back_to_earlier_settings_is_the_same_epoch(small_fleet, serve):
    serve(at=100)
    change(small_fleet, "epsilon: 1.0, unit", "epsilon: 2.0, unit")
    serve(at=200)
    change(small_fleet, "epsilon: 2.0, unit", "epsilon: 1.0, unit")
    serve(at=300)
    with reading(small_fleet.database) as reader:
        epochs = reader.epochs("air")
    assert [(e.first_served, e.last_served) for e in epochs] == [(100, 300), (200, 200)]
    assert set(epochs[0].forms) == {spec.fingerprint for spec in small_fleet.specs("air")}


def test_a_form_that_this_version_cannot_rebuild_is_left_out(small_fleet, serve, run):
    serve(("one", "air", small_fleet.release("one", 1, "air", drawn(1, 5.0))))
    with closing(sqlite3.connect(small_fleet.database)) as connection, connection:
        connection.execute("UPDATE specs SET form = replace(form, '\"depth\": 4', '\"depth\": 3')")
    change(small_fleet, "epsilon: 1.0, unit", "epsilon: 2.0, unit")
    code, out, err = run("query", "--stream", "air", "mean", "temp")
    assert (code, out) == (1, "")
    assert "made with other settings than any" in err
