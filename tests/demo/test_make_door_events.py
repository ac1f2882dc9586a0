"""The bundled events are the output of their program, and agree with their page."""

import gzip
import re

from demo.make_door_events import BADGES, CARDS, DAYS, SEED, as_csv, events
from testbed.local_fleet import DOORS, stations

MAX_BYTES = 1_500_000
MADE = events(stations())


def test_every_file_is_made_again():
    assert [path.name for path in sorted(DOORS.glob("*.csv.gz"))] == [
        f"{device}.csv.gz" for device in stations()
    ]
    for device, listed in MADE.items():
        # Compressed bytes depend on the version of zlib; what they hold does not.
        content = (DOORS / f"{device}.csv.gz").read_bytes()
        assert gzip.decompress(content).decode() == as_csv(listed)
        assert content[4:8] == bytes(4), "no time of making in the file"
    assert sum(path.stat().st_size for path in DOORS.iterdir()) < MAX_BYTES


def test_another_seed_makes_other_events():
    """Negative control: the comparison above can fail."""
    assert events(stations(), SEED + 1) != MADE


def test_badges_are_shared_and_cards_are_not():
    badges = [{event.badge_id for event in listed} - {""} for listed in MADE.values()]
    cards = [{event.card_id for event in listed} - {""} for listed in MADE.values()]
    assert len(set.union(*badges)) < sum(map(len, badges)) / 2
    assert len(set.union(*badges)) <= BADGES
    assert len(set.union(*cards)) == sum(map(len, cards))
    assert max(map(len, cards)) <= CARDS
    assert all(bool(e.badge_id) != bool(e.card_id) for listed in MADE.values() for e in listed)


def test_events_are_in_order_and_far_from_midnight():
    """Windows of a day are then the same on every device, for any offset."""
    for listed in MADE.values():
        times = [event.time for event in listed]
        assert times == sorted(times)
        assert len({time[:10] for time in times}) == DAYS
        assert all("T07:00:00Z" <= time[10:] < "T20:00:00Z" for time in times)


def test_the_page_names_the_parameters():
    page = (DOORS / "README.md").read_text()
    for number in ("3,000 badges", "400 cards", "6,000 at all", "300 at each", "exponent 0.8"):
        assert number in page
    assert re.search(r"`python -m demo\.make_door_events`", page)
