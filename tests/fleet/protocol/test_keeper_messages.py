"""Questions to keepers and their replies: strict, bounded, reproducible."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch import Attribute, DistinctSpec, Domain, Privacy, View, ViewsSpec, WindowId
from pansketch.blinding import KeeperAnswer, KeeperQuestion, MaskedWindow
from pansketch.wire import encode_answer, form_of
from pansketch_fleet.protocol.keeper_messages import (
    LENGTH_BYTES,
    MAX_ASK_BYTES,
    MAX_HEAD_BYTES,
    MAX_REFUSED,
    MAX_REPLY_BYTES,
    Ask,
    Reply,
    ask_load,
)

DOMAIN = Domain([Attribute("temp", -10, 40), Attribute("humidity", 0, 100)])
VIEWS = (View(("temp",), (4,), 500_000), View(("humidity",), (3,), 500_000))
SPEC = ViewsSpec(DOMAIN, Privacy(1.0, aggregation="blinded"), VIEWS)
KEY = b"keeper-8"


def window(sequence, device="post-7"):
    label = WindowId(device, "air", sequence, 60 * sequence, 60 * sequence + 60, True, bytes(8))
    return MaskedWindow(label, (bytes([1]) * 32, bytes([2]) * 32))


QUESTION = KeeperQuestion(
    "meadow", SPEC.digest, "1d", Fraction(1, 2), tuple(map(window, range(1, 4)))
)
ASK = Ask("answer", QUESTION, SPEC, KEY)
ANSWER = encode_answer(
    KeeperAnswer(KEY, QUESTION.digest, np.arange(sum(SPEC.blocks), dtype=SPEC.counter))
)
REPLIES = {
    "all": Reply("prepared", QUESTION.digest, KEY),
    "not all": Reply("prepared", QUESTION.digest, KEY, (window(2).key,)),
    "answered": Reply("answered", QUESTION.digest, KEY, answer=ANSWER),
    "refused": Reply("refused", bytes(32), KEY, (window(1).key,), "spent: at this level"),
}


@pytest.mark.parametrize("kind", ["prepare", "answer"])
def test_an_ask_comes_back_as_it_was(kind):
    ask = replace(ASK, kind=kind)
    assert Ask.decode(ask.encode()) == ask


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_comes_back_as_it_was(name):
    assert Reply.decode(REPLIES[name].encode()) == REPLIES[name]


def test_the_bytes_are_fixed():
    reply = Reply("refused", bytes(32), KEY, (("post-7", "air", bytes(8), 1),), "spent")
    head = (
        b'{"version":1,"kind":"refused","question":"' + b"0" * 64 + b'","key":"6b65657065722d38",'
        b'"refused":[["post-7","air","0000000000000000",1]],"reason":"spent"}'
    )
    assert reply.encode() == len(head).to_bytes(4, "big") + head


def reframed(data, change):
    """The message with another head."""
    length = int.from_bytes(data[:LENGTH_BYTES], "big")
    head = json.loads(data[LENGTH_BYTES : LENGTH_BYTES + length])
    written = json.dumps(change(head)).encode()
    return len(written).to_bytes(4, "big") + written + data[LENGTH_BYTES + length :]


def spec_with(**fields):
    return lambda head: {**head, "spec": {**head["spec"], **fields}}


@pytest.mark.parametrize(
    "change",
    [
        lambda head: {**head, "version": 2},
        lambda head: {**head, "kind": "give"},
        lambda head: {**head, "more": 1},
        lambda head: {**head, "key": "00"},
        lambda head: {**head, "key": "6B65657065722D38"},
        lambda head: {**head, "key": "no hexadecimal digits"},
        lambda head: [head],
        spec_with(fingerprint="0" * 16),
        spec_with(family="distinct"),
        spec_with(family=["views"]),
        spec_with(privacy={"epsilon": 1.0}),
        spec_with(privacy={"epsilon": 2.0, "unit": "reading", "aggregation": "blinded"}),
        spec_with(output_share="1/0"),
        spec_with(views=[{}]),
        spec_with(views=[{"names": ["temp"], "bits": [10**12], "micro": 1}]),
        spec_with(views=7),
        spec_with(domain={"attributes": 7}),
    ],
)
def test_another_head_is_refused_by_a_single_line(change):
    data = reframed(ASK.encode(), change)
    with pytest.raises(ValueError, match=r"\w") as refusal:
        Ask.decode(data)
    assert len(str(refusal.value).splitlines()) == 1
    assert Ask.decode(reframed(ASK.encode(), dict)) == ASK, "the control"


@pytest.mark.parametrize(
    "change",
    [
        lambda head: {**head, "kind": "answered"},
        lambda head: {**head, "question": "00"},
        lambda head: {**head, "reason": "two\nlines"},
        lambda head: {**head, "refused": [["post-7", "air", "", 1.5]]},
        lambda head: {**head, "refused": [["post-7", "air", "00", 1]]},
        lambda head: {**head, "refused": [["post 7", "air", "", 1]]},
        lambda head: {**head, "refused": [["post-7", "air", "", 2**63]]},
        lambda head: {**head, "refused": [["post-7", "air", "", 1]] * (MAX_REFUSED + 1)},
    ],
)
def test_another_reply_is_refused_by_a_single_line(change):
    with pytest.raises(ValueError, match=r"\w") as refusal:
        Reply.decode(reframed(REPLIES["refused"].encode(), change))
    assert len(str(refusal.value).splitlines()) == 1


def test_names_are_ids():
    for wrong in (
        replace(QUESTION, fleet="a fleet"),
        replace(QUESTION, level="one\nday"),
        replace(QUESTION, windows=(window(1, "Post"),)),
    ):
        with pytest.raises(ValueError, match="must be 1 to 64 of"):
            Ask("answer", wrong, SPEC, KEY)


def test_a_spec_that_no_keeper_answers_is_refused():
    local = replace(SPEC, privacy=Privacy(1.0))
    with pytest.raises(ValueError, match="not blinded"):
        Ask("answer", QUESTION, local, KEY)
    with pytest.raises(ValueError, match="another spec"):
        Ask("answer", QUESTION, replace(SPEC, views=VIEWS[::-1]), KEY)
    keys = form_of(DistinctSpec(Privacy(1.0, unit="key"), expected_keys=9))
    with pytest.raises(ValueError, match="not blinded"):
        Ask.decode(reframed(ASK.encode(), lambda head: {**head, "spec": keys}))


def test_what_is_too_large_is_refused():
    data = ASK.encode()
    with pytest.raises(ValueError, match="larger than"):
        Ask.decode(data + bytes(MAX_ASK_BYTES))
    with pytest.raises(ValueError, match="larger than"):
        replace(REPLIES["answered"], answer=bytes(MAX_REPLY_BYTES)).encode()
    long = (MAX_HEAD_BYTES + 1).to_bytes(4, "big") + bytes(MAX_HEAD_BYTES + 1)
    with pytest.raises(ValueError, match="larger than"):
        Reply.decode(long)
    many = tuple(window(n, f"{n:064}").key for n in range(2**62, 2**62 + MAX_REFUSED))
    most = Reply("prepared", QUESTION.digest, KEY, many)
    assert Reply.decode(most.encode()) == most, "the largest reply fits"


def test_more_masks_than_a_keeper_sums_in_time_are_refused():
    """Its watchdog would end it, and the broker would send the same question again, for ever."""
    wide = replace(SPEC, views=(View(("temp", "humidity"), (10, 10), 1_000_000),))
    epochs = 4096
    assert ask_load(wide, 20, epochs) == 1 / 2
    listed = tuple(MaskedWindow(window(n).window, (bytes(32),) * epochs) for n in (1, 2, 3))
    question = replace(QUESTION, spec=wide.digest, windows=listed)
    with pytest.raises(ValueError, match="bytes of masks"):
        Ask("prepare", question, wide, KEY)
    assert Ask("prepare", replace(question, windows=listed[:2]), wide, KEY).encode()


@pytest.mark.parametrize("head", [b"[" * 200_000, b'{"spec":' * 100_000, b"{}", b""])
def test_deep_nesting_is_refused_by_a_single_line(head):
    wrapped = b'{"version":1,"kind":"answer","key":"","spec":{"a":' + head + b"}}"
    for data in (wrapped, head):
        with pytest.raises(ValueError, match=r"\w") as refusal:
            Ask.decode(len(data).to_bytes(4, "big") + data)
        assert len(str(refusal.value).splitlines()) == 1


@given(st.data())
def test_damaged_messages_are_refused_by_a_single_line(data):
    for whole, kind in ((ASK.encode(), Ask), (REPLIES["not all"].encode(), Reply)):
        place = data.draw(st.integers(0, len(whole) - 1))
        piece = data.draw(st.binary(max_size=4))
        damaged = whole[:place] + piece + whole[place + data.draw(st.integers(0, 4)) :]
        assert len(refusal_of(kind, damaged).splitlines()) <= 1


def refusal_of(kind, data):
    """Why it is refused; "" for what is taken."""
    try:
        kind.decode(data)
    except ValueError as refusal:
        return str(refusal)
    return ""
