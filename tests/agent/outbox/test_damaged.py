"""Damage to a segment costs no acknowledged release that is kept, and none that waits again."""

import pytest

from pansketch_agent.outbox.outbox import Key, Outbox
from pansketch_agent.outbox.records import REQUEUED, scan
from pansketch_fleet.settings.profiles import OutboxRules

DAY = 86_400
RULES = OutboxRules(keep_seconds=7 * DAY)


def put(outbox, *numbers, size=100, at=None):
    for number in numbers:
        outbox.put(Key(number, "air"), bytes([number % 256]) * size)
        if at is not None:
            outbox.acknowledged(Key(number, "air"), at)


def test_damage_costs_no_other_release_that_is_kept(tmp_path):
    """One that waits is damaged; the acknowledged ones of its segment are still kept, and for the
    same time."""
    outbox = Outbox(tmp_path, 10**6, RULES)
    put(outbox, 1, 2, at=DAY)
    put(outbox, 3, 4)
    (path,) = tmp_path.glob("*.segment")
    content = bytearray(path.read_bytes())
    content[content.index(bytes([3]) * 100)] ^= 1
    path.write_bytes(content)
    for _ in range(2):
        again = Outbox(tmp_path, 10**6, RULES)
        assert again.kept() == {Key(1, "air"), Key(2, "air")}
        assert again.queued() == [Key(4, "air")]
    assert len(again.requeue(again.kept())) == 2
    assert again.read(Key(1, "air")) == bytes([1]) * 100
    again.acknowledged(Key(1, "air"), 2 * DAY)
    again.acknowledged(Key(4, "air"), 10 * DAY)
    assert again.kept() == {Key(4, "air")}


def test_a_record_that_proves_damaged_at_work_costs_no_other_either(tmp_path):
    outbox = Outbox(tmp_path, 10**6, RULES)
    put(outbox, 1, 2, at=DAY)
    put(outbox, 3)
    (path,) = tmp_path.glob("*.segment")
    content = bytearray(path.read_bytes())
    content[content.index(bytes([3]) * 100)] ^= 1
    path.write_bytes(content)
    assert outbox.read(Key(3, "air")) is None
    assert outbox.kept() == {Key(1, "air"), Key(2, "air")}
    put(outbox, 5)
    assert outbox.read(Key(5, "air")) == bytes([5]) * 100
    assert len(outbox.requeue(outbox.kept())) == 2
    assert outbox.read(Key(2, "air")) == bytes([2]) * 100


@pytest.mark.parametrize("follows", [True, False], ids=["between records", "at the end"])
def test_damage_to_a_note_that_a_release_waits_again_loses_no_release(tmp_path, follows):
    """Each byte of it. Without the note it would count as one that the collector has."""
    whole = Outbox(tmp_path / "whole", 10**6, RULES)
    put(whole, 1, at=DAY)
    whole.requeue({Key(1, "air")})
    whole.note_requeued()
    put(whole, *([2] if follows else []))
    content = (tmp_path / "whole/00000001.segment").read_bytes()
    (note,) = (record for record in scan(content).records if record.kind == REQUEUED)
    for at in range(note.at, note.at + note.size):
        folder = tmp_path / str(at)
        folder.mkdir()
        changed = content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :]
        (folder / "00000001.segment").write_bytes(changed)
        for _ in range(2):
            outbox = Outbox(folder, 10**6, RULES)
            assert sorted(outbox.queued()) == [Key(n, "air") for n in (1, 2)[: 1 + follows]]
            assert outbox.requeued() == {Key(1, "air")}
            assert outbox.read(Key(1, "air")) == bytes([1]) * 100


def test_a_torn_note_of_an_acknowledgement_has_nothing_wait_again(tmp_path):
    """Negative control: a power cut in any other record."""
    whole = Outbox(tmp_path / "whole", 10**6, RULES)
    put(whole, 1, 2, at=DAY)
    put(whole, 3)
    content = (tmp_path / "whole/00000001.segment").read_bytes()
    *_, kept, last = scan(content).records
    for cut in (*range(kept.at + 1, kept.at + kept.size), *range(last.at + 1, len(content))):
        for tail in (b"", bytes(200)):
            folder = tmp_path / f"{cut}-{len(tail)}"
            folder.mkdir()
            (folder / "00000001.segment").write_bytes(content[:cut] + tail)
            assert Outbox(folder, 10**6, RULES).requeued() == set()


def test_a_repair_at_work_knows_requeued_releases_from_memory(tmp_path):
    outbox = Outbox(tmp_path, 10**6, RULES)
    put(outbox, 1, at=DAY)
    outbox.requeue({Key(1, "air")})
    outbox.note_requeued()
    put(outbox, 2)
    (path,) = tmp_path.glob("*.segment")
    content = bytearray(path.read_bytes())
    (note,) = (record for record in scan(bytes(content)).records if record.kind == REQUEUED)
    content[note.at] ^= 1
    content[content.index(bytes([2]) * 100)] ^= 1
    path.write_bytes(content)
    assert outbox.read(Key(2, "air")) is None
    for each in (outbox, Outbox(tmp_path, 10**6, RULES)):
        assert each.queued() == [Key(1, "air")]
        assert each.requeued() == {Key(1, "air")}
