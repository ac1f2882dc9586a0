"""The small messages: their bytes are fixed, and hostile ones only raise ValueError."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch_fleet.protocol.messages import (
    ACK_LIMIT_BYTES,
    HEALTH_LIMIT_BYTES,
    STATUS_LIMIT_BYTES,
    Ack,
    Health,
    Status,
    StreamBirth,
    digest,
)

DIGEST = digest(b"release")
ACK = Ack("air", 7, DIGEST, "refused", "equivocation")
BIRTH = StreamBirth("00ff" * 4, "epsilon 1 per reading", 600)
STATUS = Status("online", "session-1", {"air": BIRTH})
HEALTH = Health("session-1", "0.1.0", 86400, True, 3, 7200, 1, 2, 40960)
ACK_BYTES = (
    b'{"stream":"air","sequence":7,"digest":"' + DIGEST.encode() + b'",'
    b'"status":"refused","reason":"equivocation"}'
)
STATUS_BYTES = (
    b'{"state":"online","session":"session-1","streams":{"air":{"fingerprint":"00ff00ff00ff00ff",'
    b'"guarantee":"epsilon 1 per reading","window_seconds":600}}}'
)
HEALTH_BYTES = (
    b'{"session":"session-1","version":"0.1.0","uptime_seconds":86400,"clock_synchronised":true,'
    b'"waiting":3,"oldest_waiting_seconds":7200,"dropped":1,"set_aside":2,'
    b'"written_today_bytes":40960}'
)


def test_golden_bytes():
    """BLAKE2b-128 of the three bytes "abc" as other implementations give it, and the messages."""
    assert digest(b"abc") == "cf4ab791c62b8d2b2109c90275287816"
    assert (ACK.encode(), Ack.decode(ACK_BYTES)) == (ACK_BYTES, ACK)
    assert (STATUS.encode(), Status.decode(STATUS_BYTES)) == (STATUS_BYTES, STATUS)
    assert (HEALTH.encode(), Health.decode(HEALTH_BYTES)) == (HEALTH_BYTES, HEALTH)


def test_the_reason_may_be_left_out():
    data = f'{{"stream":"a","sequence":0,"digest":"{DIGEST}","status":"stored"}}'
    assert Ack.decode(data.encode()) == Ack("a", 0, DIGEST, "stored")


def test_a_problem_is_reported_only_where_there_is_one():
    assert b"problem" not in STATUS_BYTES
    stopped = StreamBirth("00ff" * 4, "epsilon 1 per reading", 600, "stopped at its daily cap")
    data = Status("online", "session-1", {"air": stopped}).encode()
    assert b'"window_seconds":600,"problem":"stopped at its daily cap"' in data
    assert Status.decode(data).streams["air"] == stopped


IDS = st.from_regex(r"[a-z0-9-]{1,64}", fullmatch=True)
LINES = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=300)
ACKS = st.builds(
    Ack,
    IDS,
    st.integers(0, 2**63 - 1),
    st.binary().map(digest),
    st.sampled_from(["stored", "duplicate", "refused"]),
    LINES,
)
BIRTHS = st.builds(
    StreamBirth,
    st.binary(min_size=8, max_size=8).map(bytes.hex),
    LINES,
    st.integers(1, 10**8),
    LINES,
)
STATUSES = st.builds(
    Status,
    st.sampled_from(["online", "offline", "stopped"]),
    IDS,
    st.dictionaries(IDS, BIRTHS, max_size=5),
)
NUMBERS = st.integers(0, 2**53 - 1)
HEALTHS = st.builds(
    Health,
    IDS,
    st.from_regex(r"[A-Za-z0-9.+-]{1,64}", fullmatch=True),
    NUMBERS,
    st.sampled_from([True, False, None]),
    st.integers(1, 2**53 - 1),
    st.none() | NUMBERS,
    *[NUMBERS] * 3,
)


@given(message=ACKS | STATUSES | HEALTHS)
def test_decoding_undoes_encoding(message):
    assert type(message).decode(message.encode()) == message


def spoiled(data: bytes, **changes: object) -> bytes:
    fields = {key: value for key, value in (json.loads(data) | changes).items() if value is not ...}
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b'"\xff"',
        ACK_BYTES + b"x",
        b"[" * 5000,
        spoiled(ACK_BYTES, extra=1),
        spoiled(ACK_BYTES, status="lost"),
        spoiled(ACK_BYTES, status=...),
        spoiled(ACK_BYTES, stream="Air"),
        spoiled(ACK_BYTES, stream="air\n"),
        spoiled(ACK_BYTES, sequence="7"),
        spoiled(ACK_BYTES, sequence=7.5),
        spoiled(ACK_BYTES, sequence=True),
        spoiled(ACK_BYTES, sequence=-1),
        spoiled(ACK_BYTES, sequence=2**63),
        spoiled(ACK_BYTES, digest=DIGEST[:-1]),
        spoiled(ACK_BYTES, digest=DIGEST.upper()),
        spoiled(ACK_BYTES, reason="two\nlines"),
        spoiled(ACK_BYTES, reason="\u2028"),
        spoiled(ACK_BYTES, reason="x" * 301),
        ACK_BYTES[:-1] + b" " * ACK_LIMIT_BYTES + b"}",
    ],
)
def test_what_is_no_ack_is_refused(data):
    with pytest.raises(ValueError, match=r"^(no ack: .+|ack is larger than \d+ bytes)$"):
        Ack.decode(data)


def with_birth(**changes: object) -> bytes:
    birth = json.loads(STATUS_BYTES)["streams"]["air"] | changes
    return spoiled(STATUS_BYTES, streams={"air": birth})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        ACK_BYTES,
        spoiled(STATUS_BYTES, state="asleep"),
        spoiled(STATUS_BYTES, session=""),
        spoiled(STATUS_BYTES, session="a b"),
        spoiled(STATUS_BYTES, streams=[]),
        spoiled(STATUS_BYTES, streams={"Air": json.loads(STATUS_BYTES)["streams"]["air"]}),
        spoiled(STATUS_BYTES, more=1),
        with_birth(fingerprint="00ff"),
        with_birth(fingerprint="zz" * 8),
        with_birth(guarantee="a\nb"),
        with_birth(window_seconds=0),
        with_birth(window_seconds=10**12),
        with_birth(more=1),
        with_birth(problem="a\nb"),
        with_birth(problem="x" * 301),
        STATUS_BYTES + b" " * STATUS_LIMIT_BYTES,
    ],
)
def test_what_is_no_status_is_refused(data):
    with pytest.raises(ValueError, match=r"^(no status: .+|status is larger than \d+ bytes)$"):
        Status.decode(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        ACK_BYTES,
        STATUS_BYTES,
        spoiled(HEALTH_BYTES, more=1),
        HEALTH_BYTES[:-1] + b',"waiting":3}',
        spoiled(HEALTH_BYTES, session=""),
        spoiled(HEALTH_BYTES, session="a b"),
        spoiled(HEALTH_BYTES, version="0.1 "),
        spoiled(HEALTH_BYTES, version="1" * 65),
        spoiled(HEALTH_BYTES, uptime_seconds=-1),
        spoiled(HEALTH_BYTES, uptime_seconds=2**53),
        spoiled(HEALTH_BYTES, uptime_seconds=1.5),
        spoiled(HEALTH_BYTES, uptime_seconds=True),
        spoiled(HEALTH_BYTES, clock_synchronised=1),
        spoiled(HEALTH_BYTES, clock_synchronised="true"),
        spoiled(HEALTH_BYTES, clock_synchronised=...),
        spoiled(HEALTH_BYTES, waiting=0),
        spoiled(HEALTH_BYTES, waiting=None),
        spoiled(HEALTH_BYTES, oldest_waiting_seconds=-1),
        spoiled(HEALTH_BYTES, oldest_waiting_seconds=2**53),
        spoiled(HEALTH_BYTES, dropped="1"),
        spoiled(HEALTH_BYTES, set_aside=...),
        spoiled(HEALTH_BYTES, memory_protected="yes"),
        spoiled(HEALTH_BYTES, written_today_bytes=float("nan")),
        HEALTH_BYTES[:-1] + b" " * HEALTH_LIMIT_BYTES + b"}",
    ],
)
def test_what_is_no_health_is_refused(data):
    with pytest.raises(ValueError, match=r"^(no health: .+|health is larger than \d+ bytes)$"):
        Health.decode(data)


def test_a_health_of_an_earlier_agent_states_nothing_of_its_memory():
    assert Health.decode(HEALTH_BYTES).memory_protected is None
    for protected in (True, False):
        said = HEALTH_BYTES[:-1] + b',"memory_protected":%s}' % str(protected).lower().encode()
        assert Health.decode(said).memory_protected is protected
        assert Health.decode(said).encode() == said


def test_the_longest_health_is_within_its_limit():
    most = 2**53 - 1
    longest = Health(
        *("s" * 64, "9" * 64, most, False, most, most, most, most, most),
        memory_protected=False,
        name_conflicts=most,
    )
    assert len(longest.encode()) <= HEALTH_LIMIT_BYTES // 2


@given(data=st.binary() | st.text().map(str.encode))
def test_malformed_input_raises_nothing_else(data):
    for kind in (Ack, Status, Health):
        with pytest.raises(ValueError, match=r"^no (ack|status|health): ") as caught:
            kind.decode(data)
        assert str(caught.value).isprintable()


@given(data=st.data())
def test_one_flipped_byte_is_refused_or_another_valid_message(data):
    place = data.draw(st.integers(0, len(STATUS_BYTES) - 1))
    wounded = bytearray(STATUS_BYTES)
    wounded[place] ^= data.draw(st.integers(1, 255))
    try:
        message = Status.decode(bytes(wounded))
    except ValueError:
        return
    assert Status.decode(message.encode()) == message


@pytest.mark.parametrize(
    "make",
    [
        lambda: Ack("Air", 1, DIGEST, "stored"),
        lambda: Ack("air", -1, DIGEST, "stored"),
        lambda: Ack("air", 1, "0", "stored"),
        lambda: Ack("air", 1, DIGEST, "refused", "a\nb"),
        lambda: StreamBirth("0", "g", 1),
        lambda: Status("online", "a b", {}),
        lambda: Status("online", "a", {"A": BIRTH}),
        lambda: Health("a b", "1", 0, None, 0, None, 0, 0, 0),
        lambda: Health("a", "1", -1, None, 0, None, 0, 0, 0),
        lambda: Health("a", "1", 0, None, 0, 5, 0, 0, 0),
    ],
)
def test_a_bad_message_cannot_even_be_made(make):
    with pytest.raises(ValueError, match="must be"):
        make()


def test_too_many_streams_for_one_message_are_refused_before_they_are_sent():
    crowd = Status("online", "a", {f"s{n}": BIRTH for n in range(1000)})
    with pytest.raises(ValueError, match="larger than 65536 bytes"):
        crowd.encode()
