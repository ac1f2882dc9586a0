"""Buttons that exclude and forget a device: behind the token, after a question."""

import pytest

from tests.collector.http.page.test_page import found_by_axe

BUTTON = "document.querySelector('[aria-label=\"%s\"]')"
DIALOG = "document.querySelector('dialog:not(#asks)')"


@pytest.fixture
def server(make_site, serve, token):
    site = make_site(collector=f"token: {token}")
    site.fill()
    with serve(site) as started:
        yield started
        assert started.program.stop() == 0


def opened(server, tab, token):
    tab.open(f"{server.url}/#fleet")
    tab.run(f"sessionStorage.setItem('pansketch-token', {token!r})")
    tab.open(f"{server.url}/#fleet")
    tab.until("document.querySelector('.actions')")


def press(tab, button):
    tab.run(f"{BUTTON % button}.click()")
    tab.until(f"{DIALOG}?.open")
    assert found_by_axe(tab) == []


def confirm(tab):
    tab.run(f"{DIALOG}.querySelector('button[type=submit]').click()")


def test_a_device_is_excluded_counted_again_and_forgotten(server, tab, token, shoot):
    opened(server, tab, token)
    press(tab, "Exclude one")
    assert shoot("exclude").stat().st_size > 5000
    confirm(tab)
    tab.until("document.body.innerText.includes('excluded from every answer: 12 releases')")
    headers = {"Authorization": f"Bearer {token}"}
    with server.client(headers=headers) as client:
        asked = {"question": "mean", "attribute": "temp"}
        assert client.get("/v1/streams/air/query", params=asked).json()["devices"] == 1
        press(tab, "Count again one")
        confirm(tab)
        tab.until("!document.body.innerText.includes('excluded from every answer')")
        assert client.get("/v1/streams/air/query", params=asked).json()["devices"] == 2
        press(tab, "Forget one")
        tab.run("document.getElementById('delete-releases').click()")
        tab.run("document.getElementById('delete-name').value = 'two'")
        confirm(tab)
        tab.until(f"{DIALOG}.querySelector('.problem').textContent.startsWith('Write one')")
        assert client.get("/v1/devices").json()["total"] == 2
        tab.run("document.getElementById('delete-name').value = 'one'")
        confirm(tab)
        tab.until("document.querySelector('.figures dd').textContent === '1'")
        assert [e["device"] for e in client.get("/v1/devices").json()["devices"]] == ["two"]
    assert tab.run(f"{DIALOG} === null")
    # Before the token was there.
    assert all("401" in error for error in tab.errors)
    assert all(token not in url for url in tab.requests)
    tab.run("sessionStorage.clear()")
    said = server.program.said
    assert "over HTTP: one is forgotten, 12 releases deleted" in said
    assert token not in said


def test_cancelled_nothing_is_sent(server, tab, token):
    opened(server, tab, token)
    press(tab, "Forget two")
    seen = [url for url in tab.requests if url.endswith("/two")]
    tab.run(f"[...{DIALOG}.querySelectorAll('button')].at(-1).click()")
    tab.until(f"{DIALOG} === null")
    assert [url for url in tab.requests if url.endswith("/two")] == seen == []
    tab.run("sessionStorage.clear()")


def test_without_a_token_there_are_no_buttons(shared, tab):
    tab.open(f"{shared.url}/#fleet")
    assert tab.run("document.querySelectorAll('.actions').length") == 0
