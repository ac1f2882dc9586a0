"""A spec of each kind of features."""

import pytest

from tests.pansketch.sketches.moments.specs import SIZES, spec_of


@pytest.fixture(params=SIZES)
def spec(request):
    return spec_of(request.param)
