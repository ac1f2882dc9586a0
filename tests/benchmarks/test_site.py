"""The collector that the benchmark of the API starts."""

from urllib.request import urlopen

import pytest

from benchmarks.http.site import serving
from benchmarks.performance.ingest import broker


@pytest.mark.needs("mosquitto")
@pytest.mark.parametrize("priority", [None, "19 batch"])
def test_it_answers_as_serve_starts_it_and_with_a_priority(priority, tmp_path):
    with broker(tmp_path) as port, serving(tmp_path / "site", port, priority) as site:
        with urlopen(f"{site.url}/healthz", timeout=60) as answer:
            assert answer.status == 200
        with urlopen(f"{site.url}/v1/streams", timeout=60) as answer:
            assert answer.status == 200
