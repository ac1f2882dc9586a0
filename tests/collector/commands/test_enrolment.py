"""`enroll`, `rotate` and `revoke`: idempotent, with a single line of output and no secret in it."""

import json
import os
import stat
import subprocess

import pytest

from pansketch_collector.storage import writer
from pansketch_fleet.protocol.signed_release import key_id, read_credentials
from tests.collector.small_fleet import rows
from tests.waiting import SECONDS

KEYS = "SELECT device, retired_at IS NOT NULL, revoked_at IS NOT NULL FROM enrolled ORDER BY device"


@pytest.fixture
def enrol(small_fleet, run, tmp_path, monkeypatch):
    """Runs a command in the folder of the fleet, which has a database."""
    with writer.opened(small_fleet.database):
        pass
    monkeypatch.chdir(tmp_path)
    return run


def keys(small_fleet):
    return rows(small_fleet.database, KEYS)


def test_the_file_is_the_device_s_alone_and_again_changes_nothing(small_fleet, enrol, tmp_path):
    code, out, err = enrol("enroll", "attic")
    path = tmp_path / "attic.json"
    made = read_credentials(path)
    name = key_id(made.public).hex()
    assert (code, err) == (0, "")
    assert out == f"attic: enrolled, key {name}; credentials in attic.json\n"
    assert (made.fleet, made.device) == (small_fleet.fleet, "attic")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert enrol("enroll", "attic")[:2] == (
        0,
        f"attic: enrolled already, key {name}; credentials in attic.json\n",
    )
    assert read_credentials(path) == made
    assert keys(small_fleet) == [("attic", 0, 0)]
    listed = json.loads(enrol("enroll", "--list", "--json")[1])["enrolled"]
    assert [(each["device"], each["key"], each["state"]) for each in listed] == [
        ("attic", name, "current")
    ]
    for secret in (made.key, made.password):
        assert secret not in out
        assert secret.encode() not in small_fleet.database.read_bytes()


def test_a_missing_folder_is_named_and_no_key_is_stored(small_fleet, enrol):
    code, out, err = enrol("enroll", "attic", "--out", "no/attic.json")
    assert (code, out) == (1, "")
    assert err == "cannot write no/attic.json: create its folder first\n"
    assert keys(small_fleet) == []


def test_a_command_that_was_interrupted_is_repeated(small_fleet, enrol, tmp_path):
    """Killed between the file and the database."""
    enrol("enroll", "attic")
    made = (tmp_path / "attic.json").read_bytes()
    with writer.changing(small_fleet.database) as store:
        store.connection.execute("DELETE FROM enrolled")
    assert enrol("enroll", "attic")[1].startswith("attic: enrolled, key")
    assert (tmp_path / "attic.json").read_bytes() == made


def test_a_second_file_is_refused_and_leaves_none(small_fleet, enrol, tmp_path):
    enrol("enroll", "attic")
    code, out, err = enrol("enroll", "attic", "--out", "other.json")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "attic is enrolled already, with key" in err
    assert "rotate" in err
    assert not (tmp_path / "other.json").exists()


def test_rotation_retires_one_key_and_needs_a_new_file(small_fleet, enrol, tmp_path):
    code, _, err = enrol("rotate", "attic")
    assert code == 2
    assert "attic has no current key: use `pansketch-collector enroll attic`" in err
    assert not (tmp_path / "attic.json").exists()
    enrol("enroll", "attic")
    code, _, err = enrol("rotate", "attic")
    assert code == 2
    assert "is current: name a file that does not exist yet with --out" in err
    assert enrol("rotate", "attic", "--out", "new.json")[0] == 0
    assert sorted(keys(small_fleet)) == [("attic", 0, 0), ("attic", 1, 0)]
    code, _, err = enrol("rotate", "attic", "--out", "new.json")
    assert code == 2, "again, which makes no third key"
    assert len(keys(small_fleet)) == 2
    code, _, err = enrol("enroll", "attic")
    assert code == 2, "the old file"
    assert read_credentials(tmp_path / "new.json") != read_credentials(tmp_path / "attic.json")


def test_revoked_once_and_again_and_enrolled_with_another_key(small_fleet, enrol, tmp_path):
    code, _, err = enrol("revoke", "attic")
    assert (code, "attic was never enrolled" in err) == (2, True)
    enrol("enroll", "attic")
    said = [enrol("revoke", "attic")[1] for _ in range(2)]
    assert said == [
        "attic: revoked; the collector refuses its releases from now on\n",
        "attic: is revoked already\n",
    ]
    code, _, err = enrol("enroll", "attic")
    assert code == 2
    assert "of attic is revoked: name a file that does not exist yet with --out" in err
    assert enrol("enroll", "attic", "--out", "new.json")[0] == 0
    assert sorted(keys(small_fleet)) == [("attic", 0, 0), ("attic", 0, 1)]
    table = enrol("enroll", "--list")[1].splitlines()
    assert sorted(line.split()[2] for line in table[1:]) == ["current", "revoked"]


def test_a_backup_keeps_the_keys_and_a_forgotten_device_stays_revoked(small_fleet, enrol, tmp_path):
    enrol("enroll", "attic")
    enrol("revoke", "attic")
    enrol("forget", "attic", "--releases", "--yes")
    assert enrol("backup", "copy.sqlite")[0] == 0
    assert rows(tmp_path / "copy.sqlite", KEYS) == keys(small_fleet) == [("attic", 0, 1)]


def test_wrong_input_is_one_line(enrol, tmp_path):
    enrol("enroll", "attic")
    (tmp_path / "broken.json").write_text("{}")
    os.chmod(tmp_path / "broken.json", 0o600)
    wrong = {
        ("enroll",): "write: enroll DEVICE",
        ("enroll", "--list", "attic"): "--list lists all keys",
        ("enroll", "At tic"): "is no device's name",
        ("enroll", "cellar", "--out", "attic.json"): "is of attic in fleet testing",
        ("enroll", "cellar", "--out", "broken.json"): "holds no credentials of this version",
        ("enroll", "cellar", "--out", "none/x.json"): "cannot write none/x.json",
    }
    for words, text in wrong.items():
        code, out, err = enrol(*words)
        assert code in (1, 2), words
        assert (out, len(err.splitlines())) == ("", 1), words
        assert text in err


@pytest.mark.needs("mosquitto")
def test_the_broker_s_passwords_change_one_line(enrol, tmp_path):
    """The broker itself reads such a line in tests/deploy/mosquitto/test_enrolment.py."""
    path = tmp_path / "passwords"
    path.write_text("")
    for name in ("attic-2", "attic"):
        words = ["mosquitto_passwd", "-b", str(path), name, "x"]
        subprocess.run(words, check=True, capture_output=True, timeout=SECONDS)
    os.chmod(path, 0o640)
    other = path.read_text().splitlines()[0]
    for command in (("enroll", "attic"), ("rotate", "attic", "--out", "new.json")):
        assert enrol(*command, "--passwords", str(path))[0] == 0
        first, second = path.read_text().splitlines()
        assert first == other
        assert second.startswith("attic:$7$101$")
    for _ in range(2):
        assert enrol("revoke", "attic", "--passwords", str(path))[0] == 0
        assert path.read_text().splitlines() == [other]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    code, _, err = enrol("enroll", "cellar", "--passwords", str(tmp_path / "none"))
    assert code == 1
    assert "cannot change" in err
    assert enrol("enroll", "cellar", "--passwords", str(path))[0] == 0, "again, with the file"
    assert path.read_text().splitlines()[1].startswith("cellar:")


def test_a_collector_that_requires_signatures_warns_without_enrolled_devices(small_fleet, start):
    text = small_fleet.path.read_text()
    text = text.replace("collector: {", "collector: {require_signature: true, ")
    small_fleet.path.write_text(text)
    start(small_fleet.path).wait_for_output("refuses every release: no device is enrolled")
