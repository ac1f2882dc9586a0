"""The parameter `robust` of a real server: the command line's answer, and its refusals."""

import json

import pytest

from pansketch_collector.__main__ import main
from pansketch_fleet.protocol import topics


def test_the_median_is_the_command_lines(make_site, serve, arrive, capsys):
    site = make_site()
    names = [f"device-{n}" for n in range(5)]
    site.commit(
        [arrive(topics.release("testing", d, "air"), site.release(d, "air", 1)) for d in names]
    )
    with serve(site) as server, server.client() as client:
        asked = {"question": "mean", "attribute": "temp"}
        found = client.get("/v1/streams/air/query", params=asked | {"robust": "true"}).json()
        plain = client.get("/v1/streams/air/query", params=asked).json()
        cut = client.get(
            "/v1/streams/air/query",
            params=asked | {"robust": "true", "devices": ",".join(names[:4])},
        )
    assert found["robust"] == {"groups": 5, "breakdown": 2}
    assert "robust" not in plain
    words = ["query", "--stream", "air", "mean", "temp", "--robust", "--json"]
    assert main([*words, "--config", str(site.path)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert found == {"question": "mean", **said}
    assert cut.status_code == 422
    assert "needs 5 devices or more, and 4" in cut.json()["detail"]


@pytest.mark.parametrize(
    ("stream", "question", "more"),
    [
        ("air", "histogram", {"attribute": "temp"}),
        ("air", "density", {"attribute": ["temp", "wind"]}),
        ("doors", "distinct", {}),
        ("air", "mean", {"attribute": "temp"}),
    ],
)
def test_where_there_is_no_median_it_is_refused(get, stream, question, more):
    path = f"/v1/streams/{stream}/query"
    answered = get(path, question=question, robust="true", **more)
    assert answered.status_code == 422
    says = (
        "5 devices" if question == "mean" else f"robust does not apply to the question {question}"
    )
    assert says in answered.json()["detail"]
    if question != "mean":
        assert get(path, question=question, robust="false", **more).status_code == 200
