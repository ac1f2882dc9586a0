"""`keepers:`, and the keys of `privacy:` that blinded streams have."""

from fractions import Fraction

import pytest

from pansketch_fleet.config.loader import ConfigError, describe
from pansketch_fleet.settings.settings import AnswerLevel, KeeperKeys

TOWER, WELL, OLD = (digits * 32 for digits in ("a1", "b2", "c3"))
KEEPERS = f"keepers:\n  tower: {{key: {TOWER}, previous: [{OLD}]}}\n  well: {{key: {WELL}}}\n"
BLINDED = "intrusion: silent\n      aggregation: blinded\n"
SILENT = "intrusion: silent\n"
ROOT = "streams.air.privacy."


@pytest.fixture
def blinded(valid):
    """A valid configuration whose stream is blinded, with further lines of `privacy:`."""

    def text(*lines: str, window: str = "1h") -> str:
        more = "".join(f"      {line}\n" for line in lines)
        found = valid.replace(SILENT, BLINDED + more).replace("window: 10m", f"window: {window}")
        return found.replace("agent:\n", KEEPERS + "agent:\n")

    return text


@pytest.mark.parametrize("program", ["agent", "collector"])
def test_a_blinded_stream_has_keys_epochs_and_levels(load_text, blinded, program):
    config = load_text(blinded(), program)
    tower = KeeperKeys(bytes.fromhex(TOWER), (bytes.fromhex(OLD),))
    assert config.keepers == {"tower": tower, "well": KeeperKeys(bytes.fromhex(WELL))}
    found = config.streams[0].blinded
    assert found.keepers == ("tower", "well")
    assert found.keys == (bytes.fromhex(TOWER), bytes.fromhex(WELL))
    assert found.epoch_seconds == 150
    assert found.levels == (AnswerLevel(3600, Fraction(1)),)
    assert found.levels[0].name == "1h"
    assert found.lateness_seconds == 3600
    guarantee = config.streams[0].spec.guarantee
    assert (guarantee.answer_micro, guarantee.local_micro) == (500_000, 0)


def test_every_key_of_a_blinded_stream_is_read_and_shown(load_text, blinded):
    text = blinded(
        "keepers: [well, tower]",
        "epoch: 5m",
        "local_epsilon: 8",
        "answers: [{every: 1d, share: 1/2}, {every: 30d, share: 0.25}]",
        "lateness: 10m",
    )
    config = load_text(text)
    found = config.streams[0].blinded
    assert found.keys == (bytes.fromhex(WELL), bytes.fromhex(TOWER))
    days = AnswerLevel(86400, Fraction(1, 2)), AnswerLevel(30 * 86400, Fraction(1, 4))
    assert (found.epoch_seconds, found.levels, found.lateness_seconds) == (300, days, 600)
    assert config.streams[0].spec.guarantee.local_micro == 8_000_000
    shown = {each.path: each.value_text for each in describe(config)}
    assert shown["keepers.tower.key"] == TOWER
    assert shown["keepers.tower.previous[0]"] == OLD
    assert shown[ROOT + "aggregation"] == "blinded"
    assert shown[ROOT + "keepers"] == "[well, tower]"
    assert shown[ROOT + "epoch"] == "5m"
    assert shown[ROOT + "local_epsilon"] == "8"
    assert shown[ROOT + "answers[1].every"] == "30d"
    assert shown[ROOT + "answers[1].share"] == "1/4"
    assert shown[ROOT + "lateness"] == "10m"


@pytest.mark.parametrize(
    ("window", "epoch"), [("1d", 3600), ("1h", 150), ("10m", 60), ("1m", 60), ("10s", 10)]
)
def test_an_epoch_is_a_part_of_the_window(load_text, blinded, window, epoch):
    assert load_text(blinded(window=window)).streams[0].blinded.epoch_seconds == epoch


def test_a_local_stream_has_no_masks(load_text, valid):
    config = load_text(valid.replace("agent:\n", KEEPERS + "agent:\n"))
    assert config.streams[0].blinded is None
    assert config.streams[0].spec.guarantee.answer_micro == 0


CASES = [
    ("epoch: 30s", "epoch", "30s is impossible; write 1m to the window, 1h"),
    ("epoch: 2h", "epoch", "2h is impossible"),
    ("epoch: 90.5s", "epoch", "90.5s is not whole"),
    ("epoch: soon", "epoch", "is not a duration"),
    ("lateness: 367d", "lateness", "is longer than a year"),
    ("local_epsilon: 0.5", "local_epsilon", "0.5 must be larger than epsilon and at most 100"),
    ("local_epsilon: 101", "local_epsilon", "101 must be larger than epsilon and at most 100"),
    ("keepers: [tower]", "keepers", "needs 2 to 16 keepers, and there are 1; name others"),
    ("keepers: [tower, wel]", "keepers[1]", "'wel' is no keeper; did you mean well?"),
    ("keepers: [tower, tower]", "keepers[1]", "repeats tower"),
    ("answers: []", "answers", "has 0 levels"),
    ("answers: [{every: 90m, share: 1}]", "answers[0].every", "is no multiple of the window, 1h"),
    ("answers: [{every: 0s, share: 1}]", "answers[0].every", "is no multiple of the window"),
    ("answers: [{every: 1d, share: 1/0}]", "answers[0].share", "'1/0' is no share"),
    ("answers: [{every: 1d, share: -1}]", "answers[0].share", "'-1' is no share"),
    ("answers: [{every: 1d, share: 0.3333333}]", "answers[0].share", "'0.3333333' is no share"),
    ("answers: [{every: 1d, share: 3/2}]", "answers[0].share", "'3/2' is no share"),
    ("answers: [{every: 1d, shar: 1}]", "answers[0].shar", "did you mean share?"),
    (
        "answers: [{every: 1d, share: 1/2}, {every: 24h, share: 1/2}]",
        "answers[1].every",
        "24h is a level before it too",
    ),
    (
        "answers: [{every: 1d, share: 0.5}, {every: 2d, share: 0.500001}]",
        "answers",
        "the shares add up to 1.000001;",
    ),
]


@pytest.mark.parametrize(("line", "key", "says"), CASES)
def test_what_a_blinded_stream_cannot_have(load_text, blinded, line, key, says):
    with pytest.raises(ConfigError) as caught:
        load_text(blinded(line))
    found = caught.value
    assert (found.where, found.line) == (ROOT + key, 21)
    assert says in found.problem
    assert ";" in found.problem


@pytest.mark.parametrize(
    ("old", "new", "where", "says"),
    [
        ("aggregation: blinded", "aggregation: blind", ROOT + "aggregation", "mean blinded?"),
        (BLINDED, BLINDED.replace("silent", "announced"), ROOT + "intrusion", "write silent"),
        (KEEPERS, "", ROOT + "aggregation", "needs 2 to 16 keepers, and there are 0"),
        (WELL, WELL[:-1], "keepers.well.key", "is no public key; write the 64 hexadecimal"),
        (WELL, OLD, "keepers.well.key", "is the key of keepers.tower.previous[0] too"),
        (OLD, TOWER, "keepers.tower.previous[0]", "is the key of keepers.tower.key too"),
        ("  well:", "  the well:", "keepers.the well", "a keeper's name must be"),
        ("previous:", "previos:", "keepers.tower.previos", "did you mean previous?"),
        ("    views:", "    scales: {}\n    views:", "streams.air.scales", "masks hide these"),
        ("    views:", "    retention: 90m\n    views:", "streams.air.retention", "lengthen it"),
        (
            "    views:",
            "    sketches: [{type: views}, {type: moments}]\n    views:",
            "streams.air.sketches",
            "a keeper answers for the epsilon of one; name one sketch",
        ),
    ],
)
def test_what_does_not_go_with_masks(load_text, blinded, old, new, where, says):
    text = blinded()
    assert text.count(old) == 1
    with pytest.raises(ConfigError) as caught:
        load_text(text.replace(old, new))
    assert caught.value.where == where
    assert says in caught.value.problem


def test_distinct_keys_have_no_masks(load_text):
    text = (
        f"fleet: a\nmqtt: {{url: mqtt://a}}\n{KEEPERS}agent: {{device: a}}\nstreams:\n  visits:\n"
        "    source: {type: stdin}\n    window: 1h\n    key: badge\n"
        "    privacy: {epsilon: 1, aggregation: blinded}\n    sketches: [{type: distinct}]\n"
    )
    with pytest.raises(ConfigError, match="distinct keys are no sums; write local") as caught:
        load_text(text)
    assert caught.value.where == "streams.visits.privacy.aggregation"


@pytest.mark.parametrize(
    "line", ["keepers: [tower]", "epoch: 1m", "local_epsilon: 8", "lateness: 1m", "answers: []"]
)
def test_a_local_stream_has_none_of_these_keys(assert_refusal, line):
    key = line.partition(":")[0]
    says = "goes with aggregation: blinded only; remove it"
    assert_refusal("intrusion: silent", line, 16, ROOT + key, says)


def test_readings_of_a_window_beyond_the_range_of_a_sum_are_refused(load_text, blinded):
    """They would leave each of its answers rejected."""
    usual, many = (
        blinded().replace("    window:", f"    expect: {{max_readings: {most}}}\n    window:")
        for most in (2**30, 2**31)
    )
    assert load_text(usual).streams[0].most_readings == 2**30
    with pytest.raises(ConfigError) as caught:
        load_text(many)
    assert caught.value.where == "streams.air.expect.max_readings"
    assert "may exceed counters of 32 bits; write what a window has" in caught.value.problem
