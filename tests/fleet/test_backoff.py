"""The one backoff of connections, sources and releases."""

from itertools import islice

import pytest

from pansketch_fleet.backoff import Backoff, system_uniform


@pytest.mark.parametrize(("uniform", "share"), [(0.0, 0.5), (0.5, 1.0), (0.75, 1.25)])
def test_pauses_double_up_to_the_longest_with_jitter(uniform, share):
    pauses = Backoff(1.0, 60.0, 0.5, lambda: uniform).delays()
    assert list(islice(pauses, 8)) == [share * each for each in (1, 2, 4, 8, 16, 32, 60, 60)]


def test_the_pause_after_none_is_the_shortest():
    backoff = Backoff(60.0, 3600.0)
    assert (backoff.following(0.0), backoff.following(60.0), backoff.following(2000.0)) == (
        60,
        120,
        3600,
    )


def test_clients_that_were_cut_off_together_return_spread_out():
    assert len({Backoff(1.0, 60.0).jittered(60.0) for _ in range(20)}) > 10
    assert all(45 <= Backoff(1.0, 60.0).jittered(60.0) <= 75 for _ in range(100))
    assert 0 <= system_uniform() < 1
