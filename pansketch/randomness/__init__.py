"""Exact secret noise, and public keyed hashing."""

from pansketch.randomness.exact_noise import (
    Chance,
    Counters,
    Entropy,
    KeyEntropy,
    LogOdds,
    Ratio,
    os_entropy,
)
from pansketch.randomness.geometric import geometric
from pansketch.randomness.keyed_hash import digest
from pansketch.randomness.random_words import OsWords

__all__ = [
    "Chance",
    "Counters",
    "Entropy",
    "KeyEntropy",
    "LogOdds",
    "OsWords",
    "Ratio",
    "digest",
    "geometric",
    "os_entropy",
]
