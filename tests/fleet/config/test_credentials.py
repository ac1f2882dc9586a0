"""`agent.credentials`: the file of an enrolled device, and which credentials reach the broker."""

import os
import sys

import pytest

from pansketch_fleet.config.loader import describe
from pansketch_fleet.protocol.signed_release import Credentials, key_id, new_credentials


@pytest.fixture
def enrolled(tmp_path):
    """The credentials of the device, in a file beside the configuration."""
    return written(tmp_path, new_credentials("meadow", "post-7"))


def written(folder, credentials: Credentials) -> Credentials:
    path = folder / "device.json"
    path.write_bytes(credentials.encode())
    os.chmod(path, 0o600)
    return credentials


DEVICE, SIGNING = "  device: post-7\n", "  device: post-7\n  credentials: device.json\n"


@pytest.fixture
def signing(valid):
    return valid.replace(DEVICE, SIGNING)


@pytest.fixture
def assert_unusable(assert_refusal):
    """Checks the refusal of the file, whose name is in line 6."""
    return lambda says: assert_refusal(DEVICE, SIGNING, 6, "agent.credentials", says)


def test_a_device_signs_with_them_and_connects_with_their_password(load_text, signing, enrolled):
    config = load_text(signing)
    assert config.agent.credentials == enrolled
    assert (config.mqtt.username, config.mqtt.password) == ("post-7", enrolled.password)
    shown = {each.path: each.value_text for each in describe(config)}
    assert shown["agent.credentials"] == f"key {key_id(enrolled.public).hex()}"
    for text in (*shown.values(), repr(config)):
        assert enrolled.password not in text
        assert enrolled.key not in text


def test_another_user_of_the_configuration_wins(load_text, signing, enrolled):
    url = "  url: mqtt://broker.example:1884\n"
    config = load_text(signing.replace(url, f"{url}  username: me\n  password: mine\n"))
    assert config.agent.credentials == enrolled
    assert (config.mqtt.username, config.mqtt.password) == ("me", "mine")


@pytest.mark.parametrize(
    ("fleet", "device"), [("meadow", "post-8"), ("other", "post-7")], ids=["device", "fleet"]
)
def test_those_of_another_device_are_refused(assert_unusable, tmp_path, fleet, device):
    written(tmp_path, new_credentials(fleet, device))
    assert_unusable(f"is of {device} in fleet {fleet}; name the file of post-7")


def test_a_file_that_is_not_there_is_refused(assert_unusable):
    assert_unusable("cannot be read")


def test_what_the_service_has_for_a_missing_file_is_named_so(assert_unusable, tmp_path):
    (tmp_path / "device.json").write_text("none")
    (tmp_path / "device.json").chmod(0o600)
    assert_unusable("stands for a missing file; put device.json into /etc/pansketch/credentials")


def test_a_pipe_is_refused_without_waiting_for_a_writer(assert_unusable, tmp_path):
    os.mkfifo(tmp_path / "device.json", 0o600)
    assert_unusable("holds no credentials")


def test_without_pynacl_it_states_what_to_install(assert_unusable, enrolled, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "nacl"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nacl", None)
    assert_unusable("pip install 'pansketch[signed]'")


def test_a_collector_needs_no_such_file(load_text, signing):
    assert load_text(signing, program="collector").fleet == "meadow"
