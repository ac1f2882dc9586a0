"""Specs of distinct counters, and the keys that they count."""

from pansketch import DistinctSpec, Privacy

KEY = Privacy(epsilon=2.0, unit="key")


def hashing(privacy=KEY, **changes):
    return DistinctSpec(privacy, **{"expected_keys": 2000, "memory": 100} | changes)


def sampling(privacy=KEY, **changes):
    return DistinctSpec(privacy, **{"universe": 1000, "memory": 50} | changes)
