"""The outbox: whole files or none, in order, bounded, and damage stays where it is."""

import pytest

from agent.outbox import MOST_ASIDE, Key, Outbox, OutboxFullError


def key(sequence):
    return Key(sequence, "air")


@pytest.fixture
def config(device):
    return device.configure()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "outbox"


def test_what_was_put_is_there_after_a_restart_in_order(config, release_of, folder):
    outbox = Outbox(folder, 10**6)
    payloads = {number: release_of(config, number) for number in (2, 11, 1)}
    for number, payload in payloads.items():
        outbox.put(key(number), payload)
    again = Outbox(folder, 10**6)
    assert again.waiting() == [key(1), key(2), key(11)]
    assert [again.read(key(number)) for number in payloads] == list(payloads.values())
    again.forget(key(2))
    assert Outbox(folder, 10**6).waiting() == [key(1), key(11)]


def test_it_takes_nothing_new_when_it_is_full(config, release_of, folder):
    payload = release_of(config, 1)
    outbox = Outbox(folder, 2 * len(payload) + 10)
    outbox.put(key(1), payload)
    outbox.put(key(2), release_of(config, 2)[: len(payload)])
    assert not outbox.has_room(len(payload))
    with pytest.raises(OutboxFullError):
        outbox.put(key(3), payload)
    assert outbox.waiting() == [key(1), key(2)]
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 2 * len(payload) + 10
    outbox.forget(key(1))
    outbox.put(key(3), payload)


def test_unfinished_files_are_removed_and_strange_ones_left_alone(folder):
    folder.mkdir()
    (folder / f"{key(1).filename}.tmp").write_bytes(b"half")
    (folder / "notes.txt").write_text("mine")
    outbox = Outbox(folder, 10**6)
    assert outbox.waiting() == []
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_every_damaged_byte_is_noticed_and_set_aside(config, release_of, folder, caplog):
    payload = release_of(config, 1)
    for place in range(0, len(payload), 7):
        outbox = Outbox(folder, 10**6)
        outbox.put(key(1), payload)
        outbox.put(key(2), release_of(config, 2))
        changed = bytearray(payload)
        changed[place] ^= 1
        (folder / key(1).filename).write_bytes(changed)
        caplog.clear()
        assert outbox.read(key(1)) is None
        assert outbox.waiting() == [key(2)]
        assert (folder / "damaged" / key(1).filename).read_bytes() == changed
        assert [r.getMessage() for r in caplog.records] == [
            f"{key(1).filename} is damaged; set aside in {folder}/damaged"
        ]


@pytest.mark.parametrize("content", [b"", b"\0" * 200])
def test_an_empty_file_is_damage(folder, content):
    folder.mkdir()
    (folder / key(5).filename).write_bytes(content)
    outbox = Outbox(folder, 10**6)
    assert outbox.read(key(5)) is None
    assert len(outbox) == 0


def test_another_release_under_this_name_is_damage(config, release_of, folder):
    outbox = Outbox(folder, 10**6)
    outbox.put(Key(4, "air"), release_of(config, 3))
    assert outbox.read(Key(4, "air")) is None


def test_what_is_set_aside_is_bounded(folder):
    outbox = Outbox(folder, 10**6)
    for number in range(1, MOST_ASIDE + 10):
        outbox.put(key(number), b"x")
        outbox.refuse(key(number))
    names = sorted(path.name for path in (folder / "refused").iterdir())
    assert len(names) == MOST_ASIDE
    assert names[-1] == key(MOST_ASIDE + 9).filename
