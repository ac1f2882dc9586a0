"""`sources --page`: pages of something else, and series that a page has twice."""

import json

import pytest

from pansketch_agent.__main__ import main
from tests.agent.sources.test_metrics_page import page


@pytest.mark.parametrize("body", [b"<html>login</html>", b"", bytes(range(256)), b"# HELP a b\n"])
def test_a_page_without_series_is_wrong_input(capsys, body):
    """The message was one of a host without sensors."""
    with page(body) as port:
        assert main(["sources", "--page", f"http://127.0.0.1:{port}/"]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err == "pansketch-agent: --page has no series; name a page of metrics\n"


def test_a_series_that_a_page_has_twice_is_listed_once_and_not_readable(capsys):
    with page(b"once 1\ntwice 2\ntwice 3\nnone NaN\n") as port:
        assert main(["sources", "--page", f"http://127.0.0.1:{port}/", "--json"]) == 0
    found = {each["place"]: each["readable"] for each in json.loads(capsys.readouterr().out)}
    assert found == {"once": True, "twice": False, "none": False}
