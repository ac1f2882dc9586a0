"""Reasons for a connection that cannot be opened, and fixes for a user that is refused."""

import socket

from pansketch_fleet.mqtt.tls import absence, credentials_fix
from pansketch_fleet.settings.sources import Mqtt


def test_a_name_without_an_address_has_a_fix():
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert absence(error, "laptop.local") == (
        "no address for laptop.local: Name or service not known; correct mqtt.url or the resolver"
    )


def test_a_broker_that_may_come_has_a_reason_only():
    assert absence(ConnectionRefusedError(111, "Connection refused"), "b") == "Connection refused"
    assert absence(TimeoutError(), "b") == "TimeoutError"


def test_the_fix_is_that_of_the_credentials_in_use(tmp_path):
    address = ("b", 8884, True, None)
    key = {"cert_file": tmp_path / "c", "key_file": tmp_path / "k"}
    fixes = {
        credentials_fix(Mqtt(*address, "attic", "secret", enrolled=True)),
        credentials_fix(Mqtt(*address, "attic", "secret")),
        credentials_fix(Mqtt(*address)),
        credentials_fix(Mqtt(*address, **key)),
    }
    assert len(fixes) == 4
    assert any("agent.credentials" in fix and "--passwords" in fix for fix in fixes)
    assert sum("correct the port in mqtt.url" in fix for fix in fixes) == 1
    assert not any("secret" in fix for fix in fixes)
