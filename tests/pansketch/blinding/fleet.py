"""A small blinded fleet: specs of every linear family, keepers, devices, and what they count."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from pansketch import Privacy, WindowId, os_entropy
from pansketch.blinding import (
    AnswersInMemory,
    PrivateKey,
    answer_once,
    question_about,
    start,
    unblind,
)
from tests.pansketch.conftest import NoNoise
from tests.pansketch.sketches.families import FAMILIES, uniform

FLEET = "meadow"
BLINDED = Privacy(epsilon=1.0, aggregation="blinded")
# The specs of the contract suite, masked: hierarchy, cells, views and all moments.
SPECS = {
    name.removesuffix("-silent"): replace(family.spec, privacy=BLINDED)
    for name, family in FAMILIES.items()
    if family.linear and name.endswith("-silent")
}
SMALL = SPECS["views"]


class QuietKeys(NoNoise):
    """A `KeyEntropy` whose keys are drawn and whose noise is none."""

    def __init__(self):
        super().__init__()
        self._keys = os_entropy()

    def fill_words(self, words):
        self._keys.fill_words(words)


@dataclass(frozen=True)
class Keeper:
    key: PrivateKey
    ledger: AnswersInMemory

    def answer(self, question, spec, rng=None):
        return answer_once(question, spec, self.key, rng or QuietKeys(), self.ledger)


def keepers(count=2):
    return [Keeper(PrivateKey.draw(os_entropy()), AnswersInMemory()) for _ in range(count)]


def public(found):
    return tuple(each.key.public for each in found)


def label(device="dev-1", sequence=1):
    return WindowId(device, "air", sequence, 60 * sequence, 60 * sequence + 60, None, b"12345678")


def begun(spec, found, window=None, rng=None):
    return start(spec, rng or QuietKeys(), FLEET, window or label(), public(found))


def masked(spec, found, rows, window=None, epochs=2, rng=None):
    """A release of a device that read `rows` over so many epochs, the last of which is its end."""
    rng = rng or QuietKeys()
    sketch = begun(spec, found, window, rng)
    for number, part in enumerate(np.array_split(rows, epochs - 1)):
        if number:
            sketch.begin_epoch(rng)
        sketch.update_many(part)
    return sketch.release(rng)


def counted(spec, rows):
    """The same readings in counters without masks and noise."""
    silence = NoNoise()
    sketch = replace(spec, privacy=Privacy(epsilon=1.0)).start(silence)
    sketch.update_many(rows)
    return sketch.release(silence).counters


def opened(spec, found, releases, level="window", share=Fraction(1), rng=None, max_readings=1000):
    """The collector's state when every keeper has answered."""
    question = question_about(FLEET, releases, level, share)
    answers = [each.answer(question, spec, rng) for each in found]
    return unblind(question, releases, answers, max_readings)


def fleet_of(spec, found, devices=3, readings=40):
    """Releases of some devices, and all their readings."""
    rows = [uniform(readings, seed) for seed in range(devices)]
    releases = [masked(spec, found, part, label(f"dev-{n}")) for n, part in enumerate(rows)]
    return releases, np.concatenate(rows)
