"""The validation of a single message."""

from pansketch_collector.validation.validation import Rules, validate
from pansketch_collector.validation.verdicts import Validated
from tests.collector.small_fleet import incoming


def validate_one(topic: str, payload: bytes, rules: Rules) -> Validated:
    return validate([incoming(topic, payload)], rules)[0]
