"""`collector.home_assistant`: whether devices are announced to Home Assistant, and where."""

import re

from pansketch_fleet.settings.schema import CollectorSection, HomeAssistantSection
from pansketch_fleet.settings.section import section
from pansketch_fleet.settings.settings import HomeAssistant
from pansketch_fleet.yaml.document import Document

_WHERE = "collector.home_assistant"
_PREFIX = re.compile(r"[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64}){0,4}")


def read_home_assistant(document: Document, given: CollectorSection) -> HomeAssistant | None:
    """The settings, or None where nothing is announced. Raises ConfigError."""
    wanted = given.home_assistant
    if wanted is None or wanted is False:
        return None
    if wanted is True:
        return HomeAssistant()
    keys = section(document, _WHERE, wanted, HomeAssistantSection)
    if not _PREFIX.fullmatch(keys.prefix):
        problem = (
            f"{keys.prefix[:40]!r} is no discovery prefix; write homeassistant, or the prefix "
            "that Home Assistant's MQTT options show"
        )
        raise document.error(f"{_WHERE}.prefix", problem)
    return HomeAssistant(keys.prefix, keys.remove)
