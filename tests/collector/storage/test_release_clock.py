"""The reported state of a device's clock is stored with its release."""

import base64
import json

from pansketch import WindowId
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_collector.validation.verdicts import Accepted
from pansketch_fleet.settings.device_spec import schedule_offset
from tests.collector.small_fleet import rows

DAY = 86_400
CLOCKS = [True, False, None]


def made(small_fleet, sequence, clock=None, device="one", stream="air", readings=((20.0,),)):
    start = sequence * DAY + schedule_offset("one", DAY)
    end = start + DAY
    window = WindowId(device, stream, sequence, start, end, clock)
    return small_fleet.release(device, sequence, stream, readings, window=window)


def commit(small_fleet, arrive, *payloads, at=1_000_001_000):
    with store.opened(small_fleet.database) as opened:
        return commit_batch(
            opened, [arrive(small_fleet.topic(), p) for p in payloads], small_fleet.rules, at
        )


def clocks(small_fleet):
    with reading(small_fleet.database) as reader:
        return [r.clock_synchronised for r in reader.releases(Selection("air"))]


def test_the_clock_is_stored_shown_and_exported(small_fleet, arrive, run):
    payloads = [made(small_fleet, n, CLOCKS[n % 3]) for n in range(1, 7)]
    outcomes = commit(small_fleet, arrive, *payloads)
    assert all(isinstance(v, Accepted) for v in outcomes)
    assert clocks(small_fleet) == [CLOCKS[n % 3] for n in range(1, 7)]
    said = json.loads(run("devices", "--json")[1])["devices"][0]["streams"]["air"]
    assert (said["windows"], said["clock_not_synchronised"]) == (6, 2)
    header, line = run("devices")[1].splitlines()[:2]
    assert line.split()[header.split().index("unsynced")] == "2"
    lines = run("export", "--stream", "air", "--out", "-")[1].splitlines()
    exported = [json.loads(line) for line in lines]
    assert [each["clock_synchronised"] for each in exported] == clocks(small_fleet)
    assert [base64.b64decode(each["payload"]) for each in exported] == payloads


def test_a_replay_brings_the_same_clocks_into_another_database(small_fleet, arrive, run, tmp_path):
    """From the bytes, not from the line: what stands beside them is not believed."""
    payloads = [made(small_fleet, n, CLOCKS[n % 3]) for n in range(1, 7)]
    commit(small_fleet, arrive, *payloads)
    before, file = clocks(small_fleet), tmp_path / "kept.jsonl"
    assert run("export", "--stream", "air", "--out", str(file))[0] == 0
    file.write_text(file.read_text().replace('"clock_synchronised": false', '"clock_synced": 9'))
    small_fleet.database.unlink()
    assert run("replay", str(file))[:2] == (
        0,
        f"{file}: 6 stored, 0 duplicates, none refused\n",
    )
    assert clocks(small_fleet) == before == [False, None, True] * 2


def test_a_disputed_release_keeps_what_is_known_of_its_clock(small_fleet, arrive):
    other = made(small_fleet, 1, False)
    commit(small_fleet, arrive, made(small_fleet, 1, True), other, at=1_000_000_077)
    query = "SELECT payload, received_at, clock_synchronised FROM disputed"
    assert rows(small_fleet.database, query) == [(other, 1_000_000_077, 0)]
