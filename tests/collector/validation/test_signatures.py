"""Which releases a collector accepts of enrolled, revoked and unknown devices."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch_collector.commands import quarantine
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.tables import enrolments
from pansketch_collector.storage.tables.connection import transaction
from pansketch_collector.validation.signatures import Signers, SigningKey, authenticate
from pansketch_collector.validation.validation import validate
from pansketch_collector.validation.verdicts import Accepted, Duplicate, Rejected
from pansketch_fleet.protocol.messages import digest
from pansketch_fleet.protocol.signed_release import (
    ENVELOPE_BYTES,
    MAGIC,
    key_id,
    new_credentials,
)
from tests.collector.asking.blinded_fleet import BEGIN, BlindedFleet, Collector
from tests.collector.small_fleet import DAY, incoming, rows

AT = 1_000_001_000


class Place:
    """A database with enrolled devices, and what a collector makes of messages."""

    def __init__(self, fleet, opened):
        self.fleet, self.opened = fleet, opened
        self.devices = {name: new_credentials(fleet.fleet, name) for name in ("one", "two")}
        for name, credentials in self.devices.items():
            self.note(enrolments.enroll, name, credentials.public)

    def note(self, change, *words, at=1):
        with transaction(self.opened.connection):
            return change(self.opened.connection, *words, at)

    def outcome(self, payload, device="one", stream="air", signed=True):
        rules = replace(self.fleet.rules, signed=signed)
        message = incoming(self.fleet.topic(device, stream), payload)
        (found,) = commit_batch(self.opened, [message], rules, AT)
        if isinstance(found, Rejected):
            assert (found.reason, found.final, found.plausible) == ("signature", False, True)
            return found.text
        return type(found)


@pytest.fixture
def place(small_fleet, kept):
    return Place(small_fleet, kept)


def test_a_signed_release_is_stored_as_if_it_were_not_signed(place):
    release = place.fleet.release("one", 1)
    sealed = place.devices["one"].seal("air", release)
    assert place.outcome(sealed) is Accepted
    assert place.outcome(sealed) is Duplicate
    assert place.fleet.stored() == [release]
    stored = rows(place.fleet.database, "SELECT digest FROM releases")
    assert stored == [(digest(release),)], "what the device compares the acknowledgement with"


def test_without_a_signature_it_depends_on_the_collector(place):
    release = place.fleet.release("one", 1)
    assert "is not signed; enroll one and set agent.credentials" in place.outcome(release)
    assert place.outcome(release, signed=False) is Accepted


@pytest.mark.parametrize("signed", [True, False])
def test_a_signature_that_does_not_hold_is_refused_by_every_collector(place, signed):
    first, second = (place.fleet.release("one", n) for n in (1, 2))
    own, other = place.devices["one"], place.devices["two"]
    moved = own.seal("air", first)[:ENVELOPE_BYTES] + second
    stolen = replace_key(own, other).seal("air", first)
    unknown = new_credentials(place.fleet.fleet, "one").seal("air", first)
    of_fine = own.seal("fine", first)
    foreign = replace_key(new_credentials("elsewhere", "one"), own).seal("air", first)
    for payload in (moved, of_fine, foreign):
        assert "the signature is not that of one" in place.outcome(payload, signed=signed)
    for payload in (stolen, unknown):
        assert "which is no key of one here" in place.outcome(payload, signed=signed)
    assert place.fleet.stored() == []
    # None of them is held against the release itself.
    assert place.outcome(own.seal("air", first), signed=signed) is Accepted


def replace_key(credentials, other):
    kind = type(credentials)
    return kind(1, credentials.fleet, credentials.device, other.key, credentials.password)


def test_a_bad_copy_of_a_stored_release_disputes_nothing(place):
    first = place.fleet.release("one", 1)
    again = place.fleet.release("one", 1)
    assert place.outcome(place.devices["one"].seal("air", first)) is Accepted
    assert "not signed" in place.outcome(again)
    (disputed,) = place.opened.connection.execute("SELECT count(*) FROM disputed").fetchone()
    assert disputed == 0


@pytest.mark.parametrize("signed", [True, False])
def test_a_revoked_device_is_refused_signed_or_not_until_it_is_enrolled_again(place, signed):
    release, own = place.fleet.release("one", 1), place.devices["one"]
    assert place.note(enrolments.revoke, "one")
    for payload in (release, own.seal("air", release)):
        assert "one is revoked" in place.outcome(payload, signed=signed)
    other = place.devices["two"].seal("air", place.fleet.release("two", 1))
    assert place.outcome(other, "two", signed=signed) is Accepted, "the control: another device"
    new = new_credentials(place.fleet.fleet, "one")
    place.note(enrolments.enroll, "one", new.public)
    assert "no key of one here" in place.outcome(own.seal("air", release), signed=signed)
    assert place.outcome(new.seal("air", release), signed=signed) is Accepted


def test_a_retired_key_signs_what_had_ended_when_it_was_retired(place):
    ended, later = (place.fleet.release("one", n) for n in (1, 2))
    old, new = place.devices["one"], new_credentials(place.fleet.fleet, "one")
    place.note(enrolments.rotate, "one", new.public, at=5 * DAY // 2)
    assert place.outcome(old.seal("air", ended)) is Accepted
    assert "was replaced; install its newer credentials" in place.outcome(old.seal("air", later))
    assert place.outcome(new.seal("air", later)) is Accepted
    earlier = place.fleet.release("one", 3)
    place.note(enrolments.revoke, "one")
    assert "one is revoked" in place.outcome(old.seal("air", earlier))


@given(st.binary(max_size=200), st.booleans())
def test_hostile_envelopes_raise_nothing_and_are_never_accepted(shared_rules, rest, known):
    """Of a key that the device has, too: its id is public."""
    public = new_credentials("testing", "one").public
    head = MAGIC + b"\x01" + (key_id(public) if known else b"")
    message = incoming("pansketch/v1/testing/one/release/air", head + rest)
    validated = validate([message], shared_rules)
    signers = Signers("testing", {"one": [SigningKey(public)]}, False)
    assert isinstance(authenticate([message], validated, signers)[0], Rejected)


def test_no_public_key_makes_a_signature_hold(place):
    """Points of low order, under which other libraries accept generated signatures."""
    release = place.fleet.release("one", 1)
    for public in (bytes(32), b"\x01" + bytes(31), b"\xff" * 32, b"short"):
        signers = Signers(place.fleet.fleet, {"one": [SigningKey(public)]}, False)
        for signature in (bytes(64), b"\x01" + bytes(63), public[:32].ljust(64, b"\0")):
            payload = MAGIC + b"\x01" + key_id(public) + signature + release
            message = incoming(place.fleet.topic("one"), payload)
            validated = validate([message], place.fleet.rules)
            assert isinstance(validated[0], Accepted), "the control: only its signature is wrong"
            (found,) = authenticate([message], validated, signers)
            assert "the signature is not that of one" in found.text


def test_an_envelope_of_a_later_version_waits_for_a_later_collector(place):
    sealed = bytearray(place.devices["one"].seal("air", place.fleet.release("one", 1)))
    sealed[4] = 2
    message = incoming(place.fleet.topic("one"), bytes(sealed))
    (found,) = commit_batch(place.opened, [message], place.fleet.rules, AT)
    assert (found.reason, found.final) == ("version", False)


def test_what_lies_in_quarantine_needs_its_signature_too(small_fleet):
    with store.opened(small_fleet.database) as opened:
        place = Place(small_fleet, opened)
        first, second = (small_fleet.release("one", n) for n in (1, 2))
        late = new_credentials(small_fleet.fleet, "three")
        third = late.seal("air", small_fleet.release("three", 1))
        place.outcome(first)
        place.outcome(place.devices["one"].seal("air", first)[:ENVELOPE_BYTES] + second)
        place.outcome(third, "three")
        rules = replace(small_fleet.rules, signed=True)
        assert quarantine.retry(opened, rules, AT) == 0
        place.note(enrolments.enroll, "three", late.public)
        assert quarantine.retry(opened, rules, AT) == 1
        assert quarantine.retry(opened, replace(rules, signed=False), AT) == 1
    assert len(small_fleet.stored()) == 2


def test_masked_releases_are_signed_like_others(tmp_path):
    fleet = BlindedFleet(tmp_path)
    one = new_credentials("meadow", "one")
    with Collector(fleet) as collector:
        with transaction(collector.store.connection):
            enrolments.enroll(collector.store.connection, "one", one.public, 1)
        collector.rules = replace(collector.rules, signed=True)
        topic, release = fleet.release("one", 0)
        _, other = fleet.release("one", 1)
        sealed = one.seal("air", release)
        (refused,) = collector.take((topic, release), at=BEGIN)
        assert refused.reason == "signature"
        (refused,) = collector.take((topic, sealed[:ENVELOPE_BYTES] + other), at=BEGIN)
        assert refused.reason == "signature"
        (taken,) = collector.take((topic, sealed), at=BEGIN)
        assert isinstance(taken, Accepted)
