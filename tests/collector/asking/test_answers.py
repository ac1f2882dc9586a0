"""Queries on the answers of keepers: what is read, what is left out, and what is refused."""

import json

import numpy as np
import pytest

from pansketch_collector.queries.fleet_model import merged
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from tests.collector.asking.blinded_fleet import BEGIN, HOUR, Collector, sums
from tests.collector.asking.test_asking import THREE, TWO_LEVELS, all_of, take

DAY_LEVELS = "[{every: 1h, share: 1/2}, {every: 24h, share: 1/2}]"


@pytest.fixture
def answered(make_fleet):
    """A fleet whose keepers have answered about four hours, without noise."""
    fleet = make_fleet(readings=1500, max_readings=10_000)
    with Collector(fleet) as collector:
        take(collector, all_of(range(4)))
        collector.turns(24)
    return fleet


def whole(said):
    """True if a line is the answer about all 18,000 readings."""
    return float(said.split()[0].replace(",", "")) == pytest.approx(18_000, rel=0.02)


def total(fleet, since=None, until=None):
    selection = Selection("air", since, until)
    with reading(fleet.database) as reader:
        return merged(reader, fleet.config, selection)


def hour(number):
    return BEGIN + number * HOUR


def test_an_answer_states_its_basis_and_assumptions(answered, ask):
    code, said, noted = ask(answered, "query", "--stream", "air", "count", "temp > -30")
    assert code == 0
    assert whole(said)
    assert "12 releases of 3 devices, epsilon 1 per reading (blinded)" in said
    assert (
        "4 answers of 2 keepers (level 1h); assumed: one keeper is honest, and X25519, BLAKE2b and "
        "ChaCha20 hold" in said
    )
    assert noted == ""
    found = json.loads(ask(answered, "query", "--json", "--stream", "air", "mean", "temp")[1])
    assert found["answers"]["keepers"] == 2
    assert found["answers"]["levels"] == ["1h"]
    assert "breaks neither X25519" in found["guarantee"]


def test_a_range_reads_the_periods_within_it_and_names_the_others(answered, ask):
    held = total(answered, hour(1), hour(3))
    assert np.array_equal(held.releases[0].counters, answered.counted(*all_of([1, 2])))
    assert held.left == ()
    cut = total(answered, hour(1) + 1, hour(3))
    assert np.array_equal(cut.releases[0].counters, answered.counted(*all_of([2])))
    assert sum(each.releases for each in cut.left) == 3


def test_rows_by_window_and_by_day(answered, ask):
    code, said, _ = ask(
        answered, "query", "--json", "--stream", "air", "--by", "window", "count", "temp > -30"
    )
    assert code == 0
    assert [row["value"] for row in json.loads(said)["rows"]] == pytest.approx([4500] * 4, rel=0.05)
    code, said, _ = ask(
        answered, "query", "--json", "--stream", "air", "--by", "day", "count", "temp > -30"
    )
    assert code == 0
    assert [row["value"] for row in json.loads(said)["rows"]] == pytest.approx([18_000], rel=0.02)


@pytest.mark.parametrize(
    "words",
    [
        ("query", "--devices", "one", "--stream", "air", "mean", "temp"),
        ("query", "--by", "device", "--stream", "air", "mean", "temp"),
        ("query", "--robust", "--stream", "air", "mean", "temp"),
        ("sample", "--devices", "one,two", "--stream", "air", "--rows", "9", "--out", "-"),
    ],
)
def test_questions_about_single_devices_are_refused_with_the_reason(answered, ask, words):
    code, said, problem = ask(answered, *words)
    assert (code, said) == (2, "")
    assert "keepers answer about all devices together" in problem


def test_nothing_shows_a_counter_of_one_device(answered, ask):
    code, said, _ = ask(answered, "devices")
    assert code == 0
    assert said.count(" masked ") == 3
    found = json.loads(ask(answered, "devices", "--json")[1])
    assert [each["streams"]["air"]["total"] for each in found["devices"]] == [None] * 3
    assert {each["streams"]["air"]["masked"] for each in found["devices"]} == {True}


def test_a_later_exclusion_stays_in_an_answer_which_reports_it(answered, ask):
    assert ask(answered, "exclude", "two")[0] == 0
    code, said, noted = ask(answered, "query", "--stream", "air", "count", "temp > -30")
    assert code == 0
    assert whole(said)
    assert "4 windows of excluded devices, which were answered before they were excluded" in said
    assert "excluded by the operator" not in noted


def test_pending_releases_are_omitted_and_named(answered, ask):
    with Collector(answered) as collector:
        take(collector, all_of([4]), at=BEGIN + 5 * HOUR)
    _, said, noted = ask(answered, "query", "--stream", "air", "count", "temp > -30")
    assert whole(said)
    assert "left out: 3 releases, waiting for the answers of keepers" in noted


def test_levels_of_the_same_windows_are_combined(make_fleet):
    fleet = make_fleet(answers=TWO_LEVELS, quiet=False)
    with Collector(fleet) as collector:
        take(collector, all_of(range(4)))
        collector.turns(24)
    coarse = next(each for each in sums(fleet) if each[0] == "4h")
    found = total(fleet)
    assert found.named == set(THREE)
    assert found.windows == 12
    assert found.answered.levels == ("1h", "4h")
    assert found.releases[0].noise < coarse[3]


def test_where_levels_hold_other_windows_the_one_with_most_is_read(make_fleet):
    fleet = make_fleet(answers=TWO_LEVELS)
    with Collector(fleet) as collector:
        take(collector, all_of(range(3)))
        collector.turns(4)  # Three hours are answered, and four hours are not over.
        found = total(fleet)
        assert found.answered.levels == ("1h",)
        assert found.windows == 9
        take(collector, all_of([3]))
        fleet.keepers["well"].broken = True
        collector.turns(24)
    found = total(fleet)
    assert found.answered.levels == ("1h",)
    assert sum(each.releases for each in found.left) == 3


def test_a_sum_that_has_changed_on_the_disk_is_left_out(answered):
    with Collector(answered) as collector:
        collector.store.connection.execute(
            "UPDATE questions SET counters = zeroblob(length(counters)) WHERE id = 1"
        )
    found = total(answered)
    assert found.windows == 9
    assert [each.releases for each in found.left if "have changed on the disk" in each.reason] == [
        3
    ]


def test_synthetic_rows_are_drawn_from_answers(answered, ask):
    code, said, _ = ask(
        answered, "sample", "--stream", "air", "--rows", "50", "--seed", "1", "--out", "-"
    )
    assert code == 0
    assert len(said.splitlines()) == 51


def test_an_export_is_replayed_and_asked_about_again(answered, ask, tmp_path, make_fleet):
    file = tmp_path / "out.jsonl"
    assert ask(answered, "export", "--stream", "air", "--out", str(file))[0] == 0
    for rest in ("", "-wal", "-shm", ".lock"):
        answered.database.with_name(answered.database.name + rest).unlink(missing_ok=True)
    before = {name: len(each.listed()) for name, each in answered.keepers.items()}
    code, said, _ = ask(answered, "replay", str(file))
    assert (code, "12 stored" in said) == (0, True)
    with Collector(answered) as collector:
        collector.turns(10**6)
    assert [each[2] for each in sums(answered)] == [3] * 4
    assert {name: len(each.listed()) for name, each in answered.keepers.items()} == before


def test_verify_and_backup_know_masked_releases(answered, ask, tmp_path):
    assert "12 releases verified, damaged: none" in ask(answered, "verify")[1]
    assert ask(answered, "backup", str(tmp_path / "copy.sqlite"))[0] == 0
    with Collector(answered) as collector:
        collector.store.connection.execute(
            "UPDATE releases SET payload = CAST(payload || x'00' AS BLOB) WHERE id = 1"
        )
    code, said, _ = ask(answered, "verify")
    assert code == 1
    assert "damaged: 1" in said


def test_retention_removes_answers_with_their_releases_and_keeps_what_is_asked(make_fleet):
    fleet = make_fleet()
    with Collector(fleet) as collector:
        take(collector, all_of(range(3)))
        collector.turns(3)
        fleet.outlet.offline.add("well")
        take(collector, all_of([3, 30]), at=BEGIN + 31 * HOUR)
        collector.turns(32)
        removed = collector.store.remove("air", HOUR, BEGIN + 32 * HOUR, 100)
        assert removed == 6  # Of hours 2 and 3 the questions are open.
        assert sums(fleet) == []
        fleet.outlet.offline.clear()
        collector.turns(32)
    assert [each[:3] for each in sums(fleet)] == [("1h", hour, 3) for hour in (2, 3, 30)]


def test_keepers_lists_the_questions_of_each(make_fleet, ask):
    fleet = make_fleet()
    fleet.outlet.offline.add("well")
    with Collector(fleet) as collector:
        collector.presence("tower", "online")
        take(collector, all_of([0, 1]))
        collector.turns(24)
    code, said, _ = ask(fleet, "keepers")
    assert code == 0
    lines = said.splitlines()
    assert lines[1].split()[:2] == ["tower", "online"]
    assert lines[2].startswith("well")
    assert "unknown" in lines[2]
    found = json.loads(ask(fleet, "keepers", "--json")[1])
    assert {each["keeper"]: each["asked"] for each in found["keepers"]} == {"tower": 0, "well": 2}
    assert found["levels"][0]["asked"] == 2
