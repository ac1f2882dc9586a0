"""Host names of a configuration: every accepted one can be looked up, without an exception."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch_fleet.sections.mqtt import is_host

LABELS = st.text("aZ9-_", max_size=70)


@pytest.mark.parametrize(
    "text",
    ["a", "broker.example", "a.b.", "192.0.2.9", "::1", "fe80::1%eth0", "a_b-c", f"{63 * 'a'}.b"],
)
def test_names_and_addresses_are_accepted(text):
    assert is_host(text)


@pytest.mark.parametrize(
    "text", ["", ".", "a..b", ".a", f"{64 * 'a'}.b", 85 * "aa.", "a b", "ü", "::::", "a:b"]
)
def test_what_no_resolver_can_look_up_is_refused(text):
    assert not is_host(text)


@given(st.lists(LABELS, max_size=6).map(".".join))
def test_the_encoding_of_the_resolver_takes_every_accepted_name(text):
    if is_host(text):
        text.encode("idna")
