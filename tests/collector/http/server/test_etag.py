"""Cached answers: 304 while unchanged, a new answer otherwise, and for one token only."""

import httpx
import pytest

from pansketch_fleet.protocol import topics
from testbed.embedded_broker import EmbeddedBroker

ANSWERS = [
    "/v1/streams",
    "/v1/devices",
    "/v1/releases?stream=air",
    "/v1/streams/air/guarantee",
    "/v1/streams/air/query?question=histogram&attribute=temp",
    "/v1/streams/doors/query?question=distinct",
]
NEVER_KEPT = [
    "/metrics",
    "/docs",
    "/openapi.json",
    "/healthz",
    "/v1/streams/air/sample?rows=5&seed=1",
    "/v1/streams/air/sample?rows=5&seed=1&format=json",
    "/v1/streams/air/query?question=nothing",
    "/v1/streams/silent/query?question=mean&attribute=temp",
]


def known(tag):
    return {"If-None-Match": tag}


def filled(site):
    site.fill()
    return site


@pytest.mark.parametrize("path", ANSWERS)
def test_an_unchanged_answer_is_not_sent(shared, path):
    with shared.client() as client:
        whole = client.get(path)
        assert whole.headers["cache-control"] == "private, no-cache"
        assert whole.headers["vary"] == "Authorization"
        tag = whole.headers["etag"]
        for given in (tag, f"W/{tag}", f'"other", {tag}'):
            same = client.get(path, headers=known(given))
            assert (same.status_code, same.content) == (304, b"")
            for name in ("etag", "cache-control", "vary", "content-security-policy"):
                assert same.headers[name] == whole.headers[name]
            assert "content-length" not in same.headers
        for given in ("", '"other"', tag[1:-1], tag[:-2] + '"'):
            again = client.get(path, headers=known(given))
            assert (again.status_code, again.content) == (200, whole.content)


@pytest.mark.parametrize("path", NEVER_KEPT)
def test_nothing_else_is_kept(shared, path):
    with shared.client() as client:
        response = client.get(path)
        assert response.headers["cache-control"] == "no-store"
        assert "etag" not in response.headers
        assert client.get(path, headers=known("*")).status_code == response.status_code


def test_an_answer_changes_with_what_is_stored(make_site, serve, connect, until):
    with (
        EmbeddedBroker(None) as broker,
        connect(broker.port, "testing", "one") as peer,
        serve(filled(make_site(url=broker.url))) as server,
        server.client() as client,
    ):
        server.program.wait_until_connected()
        tags = {path: client.get(path).headers["etag"] for path in ANSWERS}
        for stream in ("air", "doors"):
            release = server.site.release("one", stream, 5)
            peer.exchange(topics.release("testing", "one", stream), release)
        for path in ANSWERS:
            unchanged = path.endswith("guarantee")
            until(
                lambda path=path, unchanged=unchanged: (
                    (client.get(path, headers=known(tags[path])).status_code == 304) == unchanged
                )
            )
        assert server.program.stop() == 0


def test_a_tag_opens_nothing(make_site, serve, token):
    """Without the token, or with another one, no response confirms an ETag."""
    site = make_site(collector=f"token: {token}")
    site.fill()
    with serve(site) as server, server.client() as client:
        right = {"Authorization": f"Bearer {token}"}
        tag = client.get("/v1/streams", headers=right).headers["etag"]
        for wrong in ({}, {"Authorization": "Bearer another-token-altogether"}):
            refused = client.get("/v1/streams", headers={**wrong, **known(tag)})
            assert refused.status_code == 401
            assert refused.headers["cache-control"] == "no-store"
            assert "etag" not in refused.headers
        kept = client.get("/v1/streams", headers={**right, **known(tag)})
        assert kept.status_code == httpx.codes.NOT_MODIFIED
