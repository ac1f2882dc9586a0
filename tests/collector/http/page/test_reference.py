"""The API's description as a view of the page, with a token and without; renewals and proxies."""

import json

import httpx

from tests.waiting import SECONDS


def operations(tab):
    return tab.run("[...document.querySelectorAll('main h2')].map(e => e.textContent)")


def described(get):
    return named(get("/openapi.json").json())


def named(openapi):
    return [
        f"{method.upper()} {path}" for path, each in openapi["paths"].items() for method in each
    ]


def test_the_link_below_every_view_leads_to_it(shared, tab, get):
    tab.open(f"{shared.url}/#fleet")
    tab.run("document.querySelector('footer a').click()")
    tab.until("document.querySelector('main h2')?.textContent.startsWith('GET')")
    assert operations(tab) == described(get)
    assert tab.run("location.hash") == "#api"
    assert tab.run("document.querySelector('footer a').getAttribute('aria-current')") == "page"
    names = "[...document.querySelectorAll('main section')].find(e => e.textContent"
    rows = tab.run(f"{names}.includes('/query')).querySelectorAll('tbody tr').length")
    query = get("/openapi.json").json()["paths"]["/v1/streams/{stream}/query"]["get"]
    assert rows == len(query["parameters"])
    assert any("`" in each.get("description", "") for each in query["parameters"])
    assert "`" not in tab.text()
    assert tab.run("[...document.querySelectorAll('td code')].map(e => e.textContent)")
    assert tab.errors == []


def test_with_a_token_it_is_shown_to_who_has_given_it(make_site, serve, tab, token, tmp_path, soon):
    with serve(make_site(collector=f"token: {token}")) as server:
        assert httpx.get(f"{server.url}/docs", timeout=SECONDS).status_code == 401
        tab.open(f"{server.url}/#api")
        tab.until("document.getElementById('asks').open")
        assert operations(tab) == []
        tab.run(f"document.getElementById('asks-token').value = {token!r}")
        tab.run("document.querySelector('#asks-form button').click()")
        tab.until("document.querySelector('main h2')")
        headers = {"Authorization": f"Bearer {token}"}
        answer = httpx.get(f"{server.url}/openapi.json", headers=headers, timeout=SECONDS)
        assert operations(tab) == named(answer.json())
        tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        tab.run("document.querySelector('main a[download]').click()")
        soon((tmp_path / "openapi.json").exists)
        assert json.loads((tmp_path / "openapi.json").read_text()) == answer.json()
        assert all(token not in url for url in tab.requests)
        tab.run("sessionStorage.clear()")
        assert server.program.stop() == 0


def test_a_renewal_that_finds_nothing_new_is_sent_nothing(make_site, serve, tab, until):
    site = make_site()
    site.fill()
    with serve(site) as server, server.client() as client:
        tab.open(f"{server.url}/#stream/air")

        def unchanged():
            """The number of answers with status 304."""
            line = 'pansketch_http_responses_total{status="304"} '
            found = [t for t in client.get("/metrics").text.splitlines() if t.startswith(line)]
            return int(found[0].removeprefix(line)) if found else 0

        assert unchanged() == 0
        tab.run("document.dispatchEvent(new Event('visibilitychange'))")
        until(lambda: unchanged() >= 1)
        assert "Histogram" in tab.text()
        tab.open(f"{server.url}/#privacy")
        assert "any one reading" in tab.text()
        assert tab.errors == []
        assert tab.run("caches.keys().then(names => names.length)") == 0
        assert server.program.stop() == 0


def test_behind_a_proxy_that_adds_a_prefix(shared, tab, prefixed):
    """All that the page asks for stays below the address that it was opened at."""
    with prefixed(shared.url, "/fleet/") as outside:
        for view in ("fleet", "stream/air", "privacy", "api"):
            tab.open(f"{outside}#{view}")
            assert tab.run("document.querySelector('main h1') !== null")
            assert tab.run("document.getElementById('says').textContent") == ""
        assert tab.failures == []
        assert all(url.startswith((outside, "data:", "about:", "blob:")) for url in tab.requests), (
            tab.requests
        )
