"""Pan-private counters of distinct keys."""
