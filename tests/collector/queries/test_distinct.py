"""Streams of keys in the collector: accepted releases, and answers about their keys."""

import json
from math import sqrt

import numpy as np
import pytest

from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.mqtt.connection import Incoming
from pansketch_collector.storage import writer as store
from pansketch_collector.validation.validation import Rules
from pansketch_collector.validation.verdicts import Accepted
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import digest
from tests.collector.key_site import keys, rows


def test_bitmaps_are_a_union_by_window(week, ask):
    code, out, err = ask("query", "--stream", "doors", "distinct")
    assert (code, err) == (0, "")
    found = rows(out)
    assert [row[0] for row in found] == ["1970-01-11", "1970-01-12", "1970-01-13"]
    assert [float(row[-2]) for row in found] == [150, 30, 1000]
    assert [row[1:-2] for row in found] == [["2"], ["1", "of", "2"], ["2"]]
    newest = out.splitlines()[-1]
    assert newest.startswith("newest window: 1000 distinct keys ± 0 (standard error), union of 2")
    assert newest.endswith(
        "union of 2 releases, epsilon 100 per key, window and device (silent), "
        "200 for a key in all 2, 200 for one record in doors and lockers together"
    )


def test_disjoint_keys_add_up_and_devices_stand_apart(week, ask):
    code, out, _ = ask("query", "--stream", "doors", "--keys", "disjoint", "distinct")
    assert code == 0
    assert [float(row[-2]) for row in rows(out)] == [200, 30, 1000]
    code, out, _ = ask("query", "--stream", "doors", "--by", "device", "distinct")
    assert code == 0
    header, *lines = out.splitlines()
    assert header.split()[:2] == ["window", "device"]
    assert [(w[1], float(w[2])) for w in map(str.split, lines)] == [
        ("one", 100), ("two", 100), ("one", 30), ("one", 1000), ("two", 0),
    ]  # fmt: skip
    assert "newest" not in out


def test_a_selection_of_windows_and_devices(week, ask):
    words = ("query", "--stream", "doors", "distinct")
    out = ask(*words, "--from", "1970-01-12", "--to", "1970-01-13")[1]
    assert [row[0] for row in rows(out)] == ["1970-01-12"]
    out = ask(*words, "--devices", "two")[1]
    assert [float(row[-2]) for row in rows(out)] == [100, 0]


def test_json_has_every_figure(week, ask):
    code, out, _ = ask("query", "--stream", "doors", "--json", "distinct")
    assert (code, out.count("\n")) == (0, 1)
    said = json.loads(out)
    assert (said["stream"], said["by"], said["keys"]) == ("doors", "window", "shared")
    assert "epsilon 100 per key per window" in said["guarantee"]
    first, second, _ = said["figures"]
    assert (first["from"], first["to"]) == ("1970-01-11", "1970-01-12")
    assert (first["devices"], second["devices"]) == (["one", "two"], ["one"])
    assert first["value"] == pytest.approx(150)
    assert first["standard_error"] < 1e-6
    assert first["frozen"] == []
    assert "total" not in said


def test_hashed_counts_are_a_sum_by_default(site, ask):
    plan = [(f"dev-{n}", 10, keys((1000 * n, 1000 * n + 500))) for n in range(4)]
    releases = [site.release(*each, stream="lockers") for each in plan]
    site.store(*releases, stream="lockers", devices=[each[0] for each in plan])
    code, out, _ = ask("query", "--stream", "lockers", "distinct", "--json")
    assert code == 0
    said = json.loads(out)
    assert said["keys"] == "disjoint"
    (figure,) = said["figures"]
    # 2000 keys in 8000 slots a device: the errors are those of hashing, 500 keys a device.
    assert abs(figure["value"] - 2000) < 6 * figure["standard_error"] < 2000 / 10
    table = ask("query", "--stream", "lockers", "distinct")[1]
    assert "sum of 4 releases" in table


def test_negative_estimates_are_shown_as_they_are(make_site, ask):
    site = make_site(doors=0.5)
    days = range(10, 50)
    releases = [site.release("one", day, keys((0,))) for day in days]
    site.store(*releases, devices=["one"] * len(days))
    figures = json.loads(ask("query", "--stream", "doors", "--json", "distinct")[1])["figures"]
    values = np.array([figure["value"] for figure in figures])
    # Each is negative with probability about 1/2: all 40 of one sign below 2 * 0.55**40 < 1e-9.
    assert values.min() < 0 < values.max()
    errors = [figure["standard_error"] for figure in figures]
    assert abs(values.mean()) < 6 * max(errors) / sqrt(len(days))


def test_frozen_windows_are_marked(site, ask):
    plan = [("one", 10, False), ("two", 10, True), ("one", 11, False), ("two", 11, False)]
    releases = [site.release(d, day, keys((9,)), frozen=frozen) for d, day, frozen in plan]
    site.store(*releases, devices=[each[0] for each in plan])
    out = ask("query", "--stream", "doors", "distinct")[1].splitlines()
    assert out[1].endswith("incomplete: frozen by an announced intrusion: two")
    assert "incomplete" not in out[2]
    out = ask("query", "--stream", "doors", "distinct", "--by", "device")[1].splitlines()
    assert [line.endswith("frozen by an announced intrusion") for line in out[1:]] == [
        False, True, False, False,
    ]  # fmt: skip
    figures = json.loads(ask("query", "--stream", "doors", "distinct", "--json")[1])["figures"]
    assert [figure["frozen"] for figure in figures] == [["two"], []]


def served(site, *releases, at=1_000_001_000):
    """Takes releases in as a collector does that serves the configuration as it is now."""
    with store.opened(site.config.collector.database) as opened:
        rules = Rules.of(site.config, opened.serve_settings(site.config, at))
        messages = [
            Incoming(
                topics.release("testing", device, "doors"), payload, 0, digest(payload), 0, 0, 0
            )
            for device, payload in releases
        ]
        assert all(isinstance(v, Accepted) for v in commit_batch(opened, messages, rules, at))


def test_figures_span_epochs_also_of_windows_of_another_length(site, ask):
    """On one day a device still counts under the old settings.

    There is no union of both, and that window's figure has the reason.
    """
    served(site, ("one", site.release("one", 10, keys((9,)))))
    late = site.release("two", 10, keys((5, 12))), site.release("two", 11, keys((7,)))
    before = "epsilon: 100}\n    sketches: [{type: distinct, univ"
    changed = site.path.read_text().replace(before, before.replace("100", "99"))
    site.path.write_text(changed)
    served(site, ("two", late[0]), ("one", site.release("one", 11, keys((3,)))), ("two", late[1]))
    code, out, err = ask("query", "--stream", "doors", "distinct", "--json")
    tenth, eleventh = json.loads(out)["figures"]
    assert tenth["value"] == pytest.approx(12)
    assert (code, eleventh["value"]) == (1, None)
    assert "only the bitmaps of one window and spec have a union" in eleventh["problem"]
    assert "only the bitmaps of one window and spec have a union" in err
    code, out, err = ask("query", "--stream", "doors", "distinct", "--json", "--keys", "disjoint")
    assert [round(figure["value"]) for figure in json.loads(out)["figures"]] == [16, 10]
    halved = changed.replace("window: 1d\n    key: badge_id", "window: 12h\n    key: badge_id")
    site.path.write_text(halved)
    served(site)
    code, out, err = ask("query", "--stream", "doors", "distinct", "--json", "--by", "device")
    assert code == 0
    found = json.loads(out)["figures"]
    assert [(f["from"], f["to"], round(f["value"])) for f in found] == [
        ("1970-01-11", "1970-01-12", 9),
        ("1970-01-11", "1970-01-12", 7),
        ("1970-01-12", "1970-01-13", 3),
        ("1970-01-12", "1970-01-13", 7),
    ]


@pytest.mark.parametrize("form", ["count", "bitmap"])
def test_keys_without_a_guess(site, ask, form):
    """Beyond five standard errors once in 10**6 runs; the other way to merge must lie there."""
    text = site.path.read_text().replace("expected_keys: 4000", f"release: {form}")
    site.path.write_text(text)
    parts = {"one": keys((0, 30_000)), "two": keys((10_000, 40_000))}
    releases = [site.release(name, 10, part, "lockers") for name, part in parts.items()]
    site.store(*releases, stream="lockers", devices=list(parts))
    code, out, err = ask("query", "--stream", "lockers", "distinct", "--json")
    assert (code, err) == (0, "")
    (figure,) = json.loads(out)["figures"]
    union, total = 40_000, 60_000
    right, wrong = (union, total) if form == "bitmap" else (total, union)
    assert abs(figure["value"] - right) <= 5 * figure["standard_error"]
    assert abs(figure["value"] - wrong) > 5 * figure["standard_error"]


def test_too_many_keys_without_a_guess_are_rejected_with_a_single_line(site, ask):
    text = site.path.read_text().replace("expected_keys: 4000", "memory: 1B, release: bitmap")
    site.path.write_text(text)
    site.store(
        site.release("one", 10, keys((0, 500)), "lockers"), stream="lockers", devices=["one"]
    )
    code, out, err = ask("query", "--stream", "lockers", "distinct")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "no empty slot on any of 2 levels" in err
    assert "raise memory or epsilon" in err
