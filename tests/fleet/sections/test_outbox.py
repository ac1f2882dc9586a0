"""The configuration of an outbox: the profile's policy, and the device's own."""

import pytest

from pansketch_fleet.config.loader import describe
from pansketch_fleet.errors import ConfigError
from pansketch_fleet.settings.profiles import OutboxRules

DEVICE = "profile: pi-zero-2w"


def with_outbox(valid, text):
    assert valid.count(DEVICE) == 1
    return valid.replace(DEVICE, f"{DEVICE}\n  outbox: {text}")


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("{}", OutboxRules("reject_new", "always")),
        ("{policy: drop_oldest}", OutboxRules("drop_oldest", "always")),
        ("{persist: when_unacknowledged}", OutboxRules("reject_new", "when_unacknowledged")),
    ],
)
def test_the_outbox_is_as_configured(load_text, valid, text, rules):
    config = load_text(with_outbox(valid, text))
    assert config.agent.outbox == rules
    shown = {setting.path: setting.value_text for setting in describe(config)}
    assert shown["agent.outbox.policy"] == rules.policy
    assert shown["agent.outbox.persist"] == rules.persist


def test_what_is_left_out_is_the_profiles(load_text):
    config = load_text()
    assert config.agent.outbox == OutboxRules(config.profile.outbox_policy, "always")
    (origin,) = [s.origin for s in describe(config) if s.path == "agent.outbox.policy"]
    assert origin == "profile pi-zero-2w"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "{policy: drop_all}",
            "agent.outbox.policy: 'drop_all' is unknown; use one of reject_new,",
        ),
        ("{persist: no}", "agent.outbox.persist: 'no' is unknown; use one of always,"),
        ("{polcy: reject_new}", "agent.outbox.polcy: unknown key; did you mean policy?"),
        ("{policy: [reject_new]}", "agent.outbox.policy: is a list; write text"),
    ],
)
def test_a_wrong_outbox_is_refused(load_text, valid, text, says):
    with pytest.raises(ConfigError) as caught:
        load_text(with_outbox(valid, text))
    assert says in str(caught.value)


@pytest.mark.parametrize(("text", "required"), [("true", True), ("false", False), (None, False)])
def test_locked_memory_is_required_by_the_configuration(load_text, valid, text, required):
    more = "" if text is None else f"\n  require_locked_memory: {text}"
    config = load_text(valid.replace(DEVICE, f"{DEVICE}{more}"))
    assert config.agent.require_locked_memory is required
    shown = {setting.path: setting.value_text for setting in describe(config)}
    assert shown["agent.require_locked_memory"] == str(required).lower()


@pytest.mark.parametrize("text", ["maybe", "1", '"true"', "[true]"])
def test_anything_else_is_refused_with_its_line(load_text, valid, text):
    with pytest.raises(ConfigError, match=r":\d+: agent.require_locked_memory: is .+; write true"):
        load_text(valid.replace(DEVICE, f"{DEVICE}\n  require_locked_memory: {text}"))
