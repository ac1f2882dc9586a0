"""Every firmware profile loads, fits its own memory, and is refused when it is broken."""

from importlib.resources import files

import pytest

from pansketch import Attribute, Domain, Privacy
from pansketch.planning.hierarchy_planner import StatedSizes
from pansketch.planning.selection import Expected
from pansketch_fleet.errors import ConfigError
from pansketch_fleet.sections.sketches.hierarchy import HierarchySettings
from pansketch_fleet.settings.profiles import known, load_profile, read_profile

SEVEN = ("gateway-x86", "generic-linux", "pi-3b", "pi-4b", "pi-5", "pi-zero-2w", "pi-zero-w")
MIB = 2**20
PAIR = Domain([Attribute("a", low=0, high=1), Attribute("b", low=0, high=1)])


def test_all_seven_exist():
    assert known() == SEVEN


@pytest.mark.parametrize("name", SEVEN)
def test_a_profile_fits_its_own_memory(name):
    """The planned sketch of a two-attribute stream with as many readings as there can be, twice
    over, and a month of hourly releases."""
    profile = load_profile(name)
    plan = HierarchySettings(PAIR, Privacy(1.0), 1, StatedSizes(), Expected(10**9))
    spec = plan.spec(profile)
    assert 2 * spec.nbytes <= profile.sketch_memory_bytes
    assert 30 * 24 * spec.release_nbytes <= profile.outbox_bytes
    # An interpreter with the agent's imports takes 35 to 39 MiB before its first sketch.
    assert 48 * MIB + 2 * profile.sketch_memory_bytes <= profile.process_memory_bytes
    assert profile.readings_per_second >= 1
    assert profile.description


@pytest.mark.parametrize("name", SEVEN)
def test_an_agent_starts_with_every_profile(load_text, valid, name):
    config = load_text(valid.replace("pi-zero-2w", name))
    assert config.profile == config.agent.profile == load_profile(name)
    assert config.streams[0].spec == config.streams[0].plan.spec(config.profile)


def test_a_larger_board_is_never_given_less():
    boards = [load_profile(name) for name in ("pi-zero-w", "pi-zero-2w", "pi-3b", "pi-4b", "pi-5")]
    for field in (
        "process_memory_bytes",
        "sketch_memory_bytes",
        "readings_per_second",
        "outbox_bytes",
    ):
        values = [getattr(board, field) for board in boards]
        assert values == sorted(values)


def test_an_unknown_profile_is_a_key_error():
    with pytest.raises(KeyError):
        load_profile("../pi-5")


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("64MiB", "64MB", 3, "process_memory: '64MB' has the unknown unit 'MB'; write 64MiB"),
        ("64MiB", "0B", 3, "process_memory: is nothing; write a positive size"),
        ("64MiB", "67108864", 3, "process_memory: '67108864' has no unit; use B, KiB, MiB or GiB"),
        (
            "reject_new",
            "keep",
            7,
            "outbox_policy: 'keep' is unknown; use one of reject_new, drop_oldest",
        ),
        ("outbox", "outbx", 6, "outbx: unknown key; did you mean outbox?"),
        (
            "reject_new ",
            "reject_new\nsketch: {k: many} #",
            8,
            "sketch.k: is text; write a whole number",
        ),
        ("1000", "0", 5, "readings_per_second: is impossible; write a positive rate"),
    ],
)
def test_a_broken_profile_names_its_file_and_line(old, new, line, says):
    text = files("pansketch_fleet.firmware_profiles").joinpath("pi-zero-2w.yaml").read_text()
    assert old in text
    with pytest.raises(ConfigError) as caught:
        read_profile("pi-zero-2w", text.replace(old, new, 1))
    assert str(caught.value) == f"firmware_profiles/pi-zero-2w.yaml:{line}: {says}"
