"""The record of an audit: its bytes are fixed, and contradictions are refused."""

import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch_fleet.protocol.audit_record import LIMIT_BYTES, AuditRecord, time_text

HELD = {
    "at": "2026-01-31T12:00:00Z",
    "version": "0.1.0",
    "sources": "00ff00ff00ff00ff",
    "extent": "full",
    "claims": 3,
    "held": 3,
    "broken": (),
    "planted": {"init-only": True, "pcg64": True},
    "holds": True,
}
BROKEN = HELD | {"held": 2, "broken": ("exact: two counters, reading, silent",), "holds": False}
MISSED = HELD | {"planted": {"init-only": True, "pcg64": False}, "holds": False}


def encoded(**changed):
    return json.dumps(HELD | changed).encode()


def test_golden_bytes():
    assert AuditRecord(**HELD).encode() == (
        b'{\n  "at": "2026-01-31T12:00:00Z",\n  "version": "0.1.0",\n'
        b'  "sources": "00ff00ff00ff00ff",\n  "extent": "full",\n  "claims": 3,\n  "held": 3,\n'
        b'  "broken": [],\n  "planted": {\n    "init-only": true,\n    "pcg64": true\n  },\n'
        b'  "holds": true\n}\n'
    )


@pytest.mark.parametrize("fields", [HELD, BROKEN, MISSED])
def test_what_is_written_is_read(fields):
    record = AuditRecord(**fields)
    assert AuditRecord.decode(record.encode()) == record
    assert record.as_object() == fields | {"broken": fields["broken"]}
    json.dumps(record.as_object())


@pytest.mark.parametrize(
    "changed",
    [
        {"at": "2026-01-31"},
        {"at": "2026-13-31T12:00:00Z"},
        {"at": "2026-01-31T12:00:00+01:00"},
        {"version": ""},
        {"version": "0.1.0 <b>"},
        {"sources": "00FF00FF00FF00FF"},
        {"extent": "some"},
        {"claims": 0, "held": 0},
        {"claims": 10**9, "held": 10**9},
        {"held": 4},
        {"held": -1},
        {"held": 2},
        {"held": 2, "broken": ["one", "two"], "holds": False},
        {"held": 2, "broken": ["a\nline"], "holds": False},
        {"broken": ["none"]},
        {"planted": {}},
        {"planted": {"No Name": True}},
        {"planted": {"pcg64": 1}},
        {"planted": {"pcg64": False}},
        {"holds": False},
        {"holds": None},
        {"more": 1},
    ],
)
def test_what_is_none_is_refused_by_a_single_line(changed):
    with pytest.raises(ValueError, match="no auditrecord") as refused:
        AuditRecord.decode(encoded(**changed))
    assert "\n" not in str(refused.value)


def test_a_key_that_is_repeated_or_too_many_bytes_are_refused():
    with pytest.raises(ValueError, match="a key is repeated"):
        AuditRecord.decode(encoded()[:-1] + b', "holds": true}')
    with pytest.raises(ValueError, match="larger than"):
        AuditRecord.decode(encoded() + b" " * LIMIT_BYTES)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data):
    with pytest.raises(ValueError, match="no auditrecord"):
        AuditRecord.decode(data)


@given(st.integers(0, len(AuditRecord(**HELD).encode()) - 2))
def test_no_part_of_one_is_taken(length):
    with pytest.raises(ValueError, match="no auditrecord"):
        AuditRecord.decode(AuditRecord(**HELD).encode()[:length])


def test_times_are_utc():
    there = timezone(timedelta(hours=2))
    assert time_text(datetime(2026, 1, 31, 14, tzinfo=there)) == "2026-01-31T12:00:00Z"


def test_what_would_be_too_large_to_read_is_not_written():
    """A record with each field on its line is larger."""
    named = {f"{number:0>56}": True for number in range(1000)}
    record = AuditRecord(**HELD | {"planted": named})
    assert len(json.dumps(record.as_object(), indent=2)) > LIMIT_BYTES
    with pytest.raises(ValueError, match="larger than"):
        record.encode()
