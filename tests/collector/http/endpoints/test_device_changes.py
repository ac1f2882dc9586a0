"""Changes over HTTP: with the token alone, and never where there is none."""

import pytest

from tests.collector.http.endpoints.test_refusals import check

EXCLUDE = ("POST", "/v1/devices/one/exclusions")
UNDO = ("DELETE", "/v1/devices/one/exclusions")
FORGET = ("DELETE", "/v1/devices/one")
CHANGES = (EXCLUDE, UNDO, FORGET)


def state(site):
    """All that is stored, as the command line would read it."""
    from tests.collector.small_fleet import rows

    database = site.config.collector.database
    return [rows(database, f"SELECT * FROM {t} ORDER BY 1, 2") for t in ("releases", "excluded")]


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_changes_where_no_token_is_set(shared, change):
    before = state(shared.site)
    method, path = change
    with shared.client() as client:
        assert client.request(method, path).status_code in (404, 405)
        assert client.get("/v1/devices").json()["changes"] is False
        paths = client.get("/openapi.json").json()["paths"]
    assert {method for each in paths.values() for method in each} == {"get"}
    assert state(shared.site) == before


@pytest.mark.parametrize("public", [True, False])
def test_nothing_changes_without_the_token(make_site, serve, token, public):
    """Also where reading needs none; and a page of another site cannot send the header: its request
    to be allowed to is refused."""
    site = make_site(collector=f"token: {token}, public: {str(public).lower()}")
    site.fill()
    before = state(site)
    with serve(site) as server, server.client() as client:
        for method, path in CHANGES:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": f"token={token}"}):
                check(client.request(method, path, headers=headers), 401, "a token is needed")
            asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": method}
            asked["Access-Control-Request-Headers"] = "authorization"
            answer = client.options(path, headers=asked)
            assert answer.status_code >= 400
            assert not any(name.startswith("access-control") for name in answer.headers)
        assert server.program.stop() == 0
    assert state(site) == before


def test_with_the_token_each_does_what_the_command_does(make_site, serve, token):
    site = make_site(collector=f"token: {token}, public: true")
    site.fill()
    with serve(site) as server, server.client() as client:
        client.headers["Authorization"] = f"Bearer {token}"

        def do(change, **parameters):
            return client.request(*change, params=parameters)

        range_ = {"from": "1970-01-03", "to": "1970-01-04"}
        assert do(EXCLUDE, **range_).json() == {"device": "one", "releases": 4}
        (excluded,) = client.get("/v1/devices").json()["devices"][0]["excluded"]
        assert (excluded["from"][:10], excluded["to"][:10]) == ("1970-01-03", "1970-01-04")
        check(do(EXCLUDE, **{"from": "1970-01-04", "to": "1970-01-03"}), 422, "before to")
        check(do(EXCLUDE, **{"from": "soon"}), 422, "no date")
        check(do(UNDO, to="1971-01-01"), 422, "no such exclusion of one")
        assert do(UNDO, **range_).json() == {"device": "one", "undone": 1}
        check(do(FORGET, releases=True), 422, "add confirm with the name")
        check(do(FORGET, releases=True, confirm="two"), 422, "add confirm")
        check(do(FORGET, colour="red"), 422, "colour")
        assert do(FORGET).json() == {"device": "one", "reported": True, "releases": 0, "kept": 12}
        gone = do(FORGET, releases=True, confirm="one").json()
        assert gone == {"device": "one", "reported": False, "releases": 12, "kept": 0}
        check(do(FORGET), 422, "nothing is known of a device 'one'")
        check(client.delete("/v1/devices/Not%20one"), 422, "device")
        assert client.get("/v1/devices").json()["total"] == 1
        assert server.program.stop() == 0
