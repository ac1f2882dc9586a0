"""Rejections by the HTTP API: each is a problem of RFC 9457 with a text, and never a traceback."""

import socket
from contextlib import suppress

import pytest

from testbed.embedded_broker import EmbeddedBroker

QUERY = "/v1/streams/air/query"
SAMPLE = "/v1/streams/air/sample"
SUMS = "/v1/streams/sums/query"


def check(response, status, *says):
    """A problem of this status whose sentence holds these words."""
    assert (response.status_code, response.headers["content-type"]) == (
        status,
        "application/problem+json",
    )
    found = response.json()
    assert set(found) == {"type", "title", "status", "detail"}
    assert found["status"] == status
    for word in says:
        assert word in found["detail"], found
    assert "\n" not in found["detail"]
    assert "Traceback" not in found["detail"]


def exchanged(server, path, hosts="Host: localhost\r\n"):
    """The answer to a request as it stands."""
    with socket.create_connection(("127.0.0.1", server.site.port), 10) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: raw.recv(65536), b""))


@pytest.mark.parametrize(
    ("path", "parameters", "says"),
    [
        (SAMPLE, {}, ["rows: is missing: add it"]),
        (SAMPLE, {"rows": 0}, ["rows: is out of range: write at least 1"]),
        (SAMPLE, {"rows": 10**9}, ["rows"]),
        (SAMPLE, {"rows": 10**400}, ["rows: is out of range: write"]),
        (SAMPLE, {"rows": "many"}, ["rows: is no whole number: write one"]),
        (SAMPLE, {"rows": 1, "seed": -1}, ["seed"]),
        (SAMPLE, {"rows": 1, "format": "xlsx"}, ["write 'csv', 'json' or 'parquet'"]),
        (SAMPLE, {"rows": 1, "generator": "none"}, ["generator"]),
        (SAMPLE, {"rows": 1, "generator": "m2m"}, ["m2m reads sketches of type moments"]),
        (SAMPLE, {"rows": 1, "cells": 5}, ["cells does not apply"]),
        (SAMPLE, {"rows": 1, "colour": "red"}, ["colour: this address has no such", "see /docs"]),
        (SAMPLE, {"rows": 1, "from": "yesterday"}, ["no date"]),
        (SAMPLE, {"rows": 1, "from": "1970-01-05", "to": "1970-01-02"}, ["from must be before to"]),
        (SAMPLE, {"rows": 1, "from": "1990-01-01"}, ["no window of air starts in that range"]),
        (SAMPLE, {"rows": 1, "devices": ","}, ["devices is empty"]),
        (SAMPLE, {"rows": 1, "devices": "nine"}, ["no release of air from device 'nine'"]),
        ("/v1/streams/doors/sample", {"rows": 1}, ["doors counts distinct keys"]),
        (QUERY, {}, ["question: is missing: add it"]),
        (QUERY, {"question": "median"}, ["question"]),
        (QUERY, {"question": "mean"}, ["mean needs attribute"]),
        (QUERY, {"question": "mean", "attribute": "nope"}, ["unknown attribute 'nope'"]),
        (QUERY, {"question": "mean", "attribute": "wind"}, ["wind has categories"]),
        (QUERY, {"question": "mean", "attribute": ["temp", "wind"]}, ["mean is of 1 attribute"]),
        (QUERY, {"question": "mean", "attribute": "temp", "q": 0.5}, ["q does not apply"]),
        (QUERY, {"question": "quantile", "attribute": "temp", "q": 1.5}, ["q: is out of range"]),
        (QUERY, {"question": "quantile", "attribute": "temp", "q": "nan"}, ["write a finite one"]),
        (QUERY, {"question": "cdf", "attribute": "temp", "x": "inf"}, ["x"]),
        (QUERY, {"question": "range", "attribute": "temp"}, ["add low and high"]),
        (QUERY, {"question": "range", "attribute": "temp", "low": 1}, ["low and high"]),
        (QUERY, {"question": "range", "attribute": "temp", "low": 2, "high": 1}, ["not exceed"]),
        (QUERY, {"question": "range", "attribute": "wind"}, ["add category"]),
        (QUERY, {"question": "range", "attribute": "nope", "low": 1, "high": 2}, ["'nope'"]),
        (QUERY, {"question": "count", "where": "temp ~ 5"}, ["not a comparison"]),
        (QUERY, {"question": "histogram", "attribute": "temp", "bins": 65}, ["write at most 64"]),
        (QUERY, {"question": "histogram", "attribute": "temp", "bins": 0}, ["bins"]),
        (QUERY, {"question": "density", "attribute": "temp"}, ["density is of 2 attributes"]),
        (QUERY, {"question": "density", "attribute": ["temp", "temp"]}, ["given twice"]),
        (QUERY, {"question": "mean", "attribute": ["temp"] * 40}, ["write it at most 32 times"]),
        (QUERY, {"question": "mean", "attribute": "t" * 200}, ["at most 100 characters"]),
        (QUERY, {"question": "mean", "attribute": ""}, ["is empty: write a text"]),
        (QUERY, {"question": "mean", "robust": "maybe"}, ["neither true nor false"]),
        (QUERY, {"question": "cdf", "x": "warm"}, ["x: is no number: write one such as"]),
        (QUERY, {"question": "mean", "devices": "A B"}, ["names with commas between"]),
        (QUERY, {"question": "distinct"}, ["has readings and no keys"]),
        (SUMS, {"question": "quantile", "attribute": "temp", "q": 0.5}, ["needs one of type"]),
        ("/v1/streams/doors/query", {"question": "distinct", "keys": "all"}, ["keys"]),
        ("/v1/devices", {"limit": 0}, ["limit"]),
        ("/v1/devices", {"limit": 1001}, ["limit"]),
        ("/v1/releases", {}, ["stream"]),
        ("/v1/releases", {"stream": "air", "after": "x"}, ["after must be the `next`"]),
        ("/v1/releases", {"stream": "air", "after": f"{'9' * 30},one,1"}, ["after"]),
    ],
)  # fmt: skip
def test_wrong_parameters_are_named(get, path, parameters, says):
    check(get(path, **parameters), 422, *says)


def test_a_question_that_the_releases_cannot_answer_is_a_problem(get):
    check(get("/v1/streams/silent/sample", rows=1), 409, "nothing stored yet of stream silent")
    check(get("/v1/streams/silent/query", question="mean", attribute="temp"), 409)


@pytest.mark.parametrize(
    "path",
    [
        "/v2/streams",
        "/v1/streams/",
        "/v1/streams/nope/guarantee",
        "/v1/streams/nope/query?question=mean&attribute=temp",
        "/v1/streams/nope/sample?rows=1",
        "/v1/releases?stream=nope",
        "/v1/streams/..%2f..%2fetc%2fpasswd/sample?rows=1",
        "/../../../../etc/passwd",
        "/v1/streams/../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/v1/streams/%00/guarantee",
        "/redoc",
    ],
)
def test_what_is_not_there_is_not_found(shared, path):
    """Sent as it stands: a client would tidy a path with dots in it."""
    head, _, body = exchanged(shared, path).partition(b"\r\n\r\n")
    assert head.split()[1] == b"404", head
    assert b"application/problem+json" in head
    assert b"root:" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(shared, method):
    with shared.client() as client:
        response = client.request(method, "/v1/streams")
    check(response, 405, "use GET")
    assert response.headers["allow"] == "GET"
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize("raw", [b"\0" * 100, b"GET / HTTP/9.9\r\n\r\n", b"G" * 100_000])
def test_malformed_requests_do_not_end_the_process(shared, get, raw):
    with socket.create_connection(("127.0.0.1", shared.site.port), 10) as peer:
        peer.sendall(raw)
        peer.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            assert b"200" not in peer.recv(100)
    assert get("/healthz").status_code == 200


def test_every_answer_bears_the_headers_of_security(get):
    for response in (get("/docs"), get("/metrics"), get("/nope"), get(SAMPLE, rows=1)):
        headers = response.headers
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8080", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("192.168.1.5", 421),
        ("localhost@evil.example", 421),
        ("", 421),
    ],
)
def test_only_names_of_this_host_are_answered_on_loopback(shared, host, status):
    with shared.client() as client:
        response = client.get("/v1/streams", headers={"Host": host})
    assert response.status_code == status
    if status != 200:
        check(response, status, "collector.hosts")


def test_a_token_opens_all_but_the_health(make_site, serve, token):
    site = make_site(collector=f"token: {token}, hosts: [fleet.example.org]")
    site.fill()
    with serve(site) as server, server.client() as client:
        for authorization in (
            None,
            "",
            token,
            "Bearer",
            f"Basic {token}",
            f"Bearer {token}x",
            f"Bearer {token[:-1]}",
            f"Bearer {token.upper()}",
        ):
            headers = {} if authorization is None else {"Authorization": authorization}
            response = client.get("/v1/streams", headers=headers)
            check(response, 401, "Authorization: Bearer")
            assert response.headers["www-authenticate"] == "Bearer"
            assert token not in response.text
        for path in ("/metrics", "/docs", "/openapi.json", SAMPLE, "/nope"):
            check(client.get(path, params={"token": token}), 401)
        assert client.get("/healthz").status_code == 200
        check(client.get("/readyz"), 503, "broker")  # there is none, and no token is asked for
        right = {"Authorization": f"bearer {token}"}
        for path in ("/v1/streams", "/metrics", "/docs"):
            assert client.get(path, headers=right).status_code == 200
        named = {**right, "Host": "fleet.example.org"}
        assert client.get("/v1/streams", headers=named).status_code == 200
        assert server.program.stop() == 0
        assert token not in server.program.output


def test_public_needs_no_token_and_any_address_but_no_foreign_name(make_site, serve):
    site = make_site(host="0.0.0.0", collector="public: true")
    site.fill()
    with serve(site) as server, server.client() as client:
        for host, status in (("127.0.0.1", 200), ("192.168.1.5:80", 200), ("evil.example", 421)):
            assert client.get("/v1/streams", headers={"Host": host}).status_code == status


def test_a_database_that_cannot_be_read_is_503_and_comes_back(make_site, serve, until):
    with (
        EmbeddedBroker(None) as broker,
        serve(make_site(url=broker.url)) as server,
        server.client() as client,
    ):
        until(lambda: client.get("/readyz").status_code == 200)
        site = server.site
        database = site.config.collector.database
        away = database.rename(database.with_name("away"))
        response = client.get("/readyz")
        check(response, 503, "there is no database")
        assert int(response.headers["retry-after"]) > 0
        assert client.get("/healthz").status_code == 200
        away.rename(database)
        assert client.get("/readyz").status_code == 200


def test_a_second_host_header_is_refused(shared):
    hosts = "Host: localhost\r\nHost: evil.example\r\n"
    assert exchanged(shared, "/v1/streams", hosts).split()[1] in (b"400", b"421")
