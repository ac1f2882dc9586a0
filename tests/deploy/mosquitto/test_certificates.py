"""deploy/certificates.sh: what it makes, what it refuses, and that a revoked one is out."""

import ssl
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.waiting import SECONDS


def verdict(ca: Path, name: str, *options: str) -> str:
    done = subprocess.run(
        ["openssl", "verify", "-x509_strict", "-CAfile", "ca.crt", *options, f"{name}.crt"],
        cwd=ca,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return done.stdout + done.stderr


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    """A whole handshake in memory, both sides. Raises ssl.SSLError."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for side in (*sides, *sides):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


def test_the_strictest_checks_take_them(ca):
    """Those of Python 3.13 and newer (VERIFY_X509_STRICT), by name and by address."""
    client = ssl.create_default_context(cafile=ca / "ca.crt")
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.load_cert_chain(ca / "dev-1.crt", ca / "dev-1.key")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca / "ca.crt")
    server.verify_mode = ssl.CERT_REQUIRED
    server.verify_flags |= ssl.VERIFY_X509_STRICT
    server.load_cert_chain(ca / "broker.crt", ca / "broker.key")
    for name in ("localhost", "127.0.0.1", "::1"):
        shake_hands(client, server, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(client, server, "elsewhere.example")


def test_keys_are_for_their_owner_only_and_differ(ca):
    # The broker's key has a second certificate, for tomorrow, that the fixture made.
    keys = sorted(path for path in ca.glob("*.key") if path.name != "broker-tomorrow.key")
    assert len(keys) >= 8
    assert {path.stat().st_mode & 0o777 for path in keys} == {0o600}
    contents = sorted(path.read_bytes() for path in keys)
    assert all(a != b for a, b in pairwise(contents))
    assert ca.stat().st_mode & 0o077 == 0


def test_a_revoked_certificate_is_on_the_list_and_others_are_not(ca):
    listed = ("-crl_check", "-CRLfile", "ca.crl")
    assert "certificate revoked" in verdict(ca, "dev-revoked", *listed)
    assert verdict(ca, "dev-revoked") == "dev-revoked.crt: OK\n"
    for name in ("dev-1", "collector", "broker"):
        assert verdict(ca, name, *listed) == f"{name}.crt: OK\n"


def test_each_is_good_for_its_own_purpose_only(ca):
    for name, good, bad in (
        ("broker", "sslserver", "sslclient"),
        ("collector", "sslclient", "sslserver"),
        ("dev-1", "sslclient", "sslserver"),
    ):
        assert verdict(ca, name, "-purpose", good) == f"{name}.crt: OK\n"
        assert "unsuitable certificate purpose" in verdict(ca, name, "-purpose", bad)


def test_the_names_are_those_of_the_acl(ca):
    for name, common in (("dev-1", "dev-1"), ("collector", "pansketch.collector")):
        words = (
            "openssl",
            "x509",
            "-in",
            f"{name}.crt",
            "-noout",
            "-subject",
            "-nameopt",
            "RFC2253",
        )
        done = subprocess.run(words, cwd=ca, capture_output=True, text=True, timeout=SECONDS)
        assert done.stdout.strip() == f"subject=CN={common}"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "usage"),
        (("ca",), "usage"),
        (("device", "DIR"), "usage"),
        (("broker", "DIR"), "usage"),
        (("steal", "DIR"), "usage"),
        (("ca", "DIR"), "ca.key exists; a new CA would make every certificate void"),
        (("device", "DIR", "dev-1"), "dev-1.crt exists; move it away to make another"),
        (("device", "DIR", "Dev 1"), "Dev 1: a device's name has a-z, 0-9 and - only"),
        (("device", "DIR", "pansketch.collector"), "a device's name has a-z, 0-9 and - only"),
        (("device", "DIR", "a/../b"), "a device's name has a-z, 0-9 and - only"),
        (("device", "DIR", "collector"), "the file of that name is taken"),
        (("device", "DIR", "x" * 65), "a device's name has at most 64 characters"),
        (("broker", "DIR", "a,DNS:b"), "a host name or an address has letters"),
        (("revoke", "DIR", "dev-revoked"), "dev-revoked is revoked already"),
        (("revoke", "DIR", "dev-9"), "no certificate"),
        (("device", "NOWHERE", "dev-1"), "make it first: certificates.sh ca "),
    ],
)
def test_what_it_refuses_is_one_line_and_leaves_the_folder_alone(
    run_certificates, ca, tmp_path, words, text
):
    before = sorted(path.name for path in ca.iterdir() if path.suffix in (".crt", ".key"))
    done = run_certificates(
        *(str(tmp_path) if w == "NOWHERE" else w.replace("DIR", str(ca)) for w in words)
    )
    assert done.returncode == (2 if text == "usage" else 1)
    assert text in done.stderr
    assert done.stdout == ""
    assert sorted(path.name for path in ca.iterdir() if path.suffix in (".crt", ".key")) == before


def test_a_certificate_of_no_days_is_refused_and_its_place_stays_free(run_certificates, ca):
    done = run_certificates("device", ca, "dev-5", days="soon")
    assert (done.returncode, done.stderr) == (
        1,
        "certificates.sh: openssl could not sign dev-5; is DAYS a number?\n",
    )
    assert not list(ca.glob("dev-5.*"))


def test_a_folder_that_has_moved_still_works(run_certificates, tmp_path):
    assert run_certificates("ca", tmp_path / "here").returncode == 0
    (tmp_path / "here").rename(tmp_path / "there and then")
    for words in (("device", "dev-1"), ("revoke", "dev-1")):
        done = run_certificates(words[0], tmp_path / "there and then", words[1])
        assert done.returncode == 0, done.stderr
    listed = ("-crl_check", "-CRLfile", "ca.crl")
    assert "certificate revoked" in verdict(tmp_path / "there and then", "dev-1", *listed)
