"""The search from outside. Each bound is wrong with probability 1e-6; its planted bugs, which it
must find, are in tests/audit/test_report.py."""

import numpy as np
import pytest

from pansketch import os_entropy
from pansketch_audit.empirical import outside_search
from pansketch_audit.empirical.outside_search import most_that_runs_show, searched, sites
from pansketch_audit.mechanisms.mechanism import PRODUCTION

RUNS = 400


@pytest.mark.parametrize("site", sites(), ids=lambda site: site.name)
def test_no_event_in_the_product_is_beyond_its_claim(site):
    for moment in site.moments:
        assert searched(PRODUCTION, site, moment, RUNS, os_entropy()).holds


@pytest.mark.parametrize("shared", [True, False])
def test_a_difference_that_noise_does_not_hide_is_found_among_others(shared, monkeypatch):
    """Two numbers with one noise: neither of them tells anything, their difference all."""
    rng = np.random.default_rng(1)

    def rows(mechanism, site, arrives, present, runs, entropy):
        found = rng.laplace(0, 10, (runs, 8))
        if shared:
            found[:, 1] = found[:, 0]
        found[:, 0] += present
        return found

    monkeypatch.setattr(outside_search, "_rows", rows)
    keyed = next(site for site in sites() if site.name == "distinct, counted")
    found = searched(PRODUCTION, keyed, "both", 4000, os_entropy())
    assert found.holds is not shared
    assert found.bound <= most_that_runs_show(4000)
