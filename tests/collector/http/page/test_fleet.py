"""The fleet view and `devices --json` agree on each device.

Buttons exclude and forget a device, behind the token and after a question.
"""

import json

import pytest

from pansketch_collector.__main__ import main
from pansketch_collector.storage.writer import changing
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Health, Status, StreamBirth
from tests.collector.http.page.test_page import found_by_axe

BUTTON = "document.querySelector('[aria-label=\"%s\"]')"
DIALOG = "document.querySelector('dialog:not(#asks)')"
HEALTH = Health("s1", "0.1.0", 60, True, 3, 120, 2, 1, 4096, name_conflicts=5)
DEVICES = [f"d{n}" for n in range(8)]
SAYS = (
    "another client uses this name: 5 times",
    "excluded from every answer from 1970-01-04 to 1970-01-05",
    "out of line",
    "current",
    "not served here",
    "not reported",
    "air refused: 1 by size",
)


def birth(site, stream, **other):
    found = next(s for s in site.config.streams if s.name == stream)
    (spec, *_) = site.config.specs(found).values()
    said = {
        "fingerprint": spec.fingerprint.hex(),
        "guarantee": str(spec.guarantee),
        "window_seconds": found.window_seconds,
    }
    return StreamBirth(**{**said, **other})


@pytest.fixture
def site(make_site, arrive):
    """Eight devices: d7 counts eight times as much, d0 shares its name, d1 runs other settings.

    Of d2 a release was rejected; d3 is excluded for a day.
    """
    found = make_site()
    held = [
        arrive(topics.release("testing", d, "air"), found.release(d, "air", n, 1 + 7 * (d == "d7")))
        for d in DEVICES
        for n in (1, 2 + (d != "d4"))
    ]
    births = {"d0": birth(found, "air"), "d1": birth(found, "air", fingerprint="ab" * 8)}
    said = [
        arrive(topics.status("testing", d), Status("online", "s1", {"air": each}).encode())
        for d, each in births.items()
    ]
    health = arrive(topics.health("testing", "d0"), HEALTH.encode())
    refused = arrive(topics.release("testing", "d2", "air"), b"no release")
    found.commit([*held, *said, health, refused])
    with changing(found.config.collector.database) as database:
        database.exclude("d3", 3 * 86_400, 4 * 86_400, 0)
    return found


def test_what_is_wrong_with_a_device_is_shown(site, serve, tab, shoot, capsys):
    with serve(site) as server:
        for width in (1280, 400):
            tab.emulate(width, 900, "light")
            tab.open(f"{server.url}/#fleet")
            text = tab.text()
            for words in SAYS:
                assert words in text, words
            assert tab.run("document.documentElement.scrollWidth <= innerWidth")
            assert tab.errors == []
            assert shoot(f"fleet-told-{width}").stat().st_size > 5000
        with server.client() as client:
            part = client.get("/v1/devices").json()
            again = client.get("/v1/devices")
            etag = {"If-None-Match": again.headers["ETag"]}
            assert client.get("/v1/devices", headers=etag).status_code == 304, "lags are no part"
        assert server.program.stop() == 0
    assert main(["devices", "--json", "--config", str(site.path)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {name: part[name] for name in said}
    (refused,) = said["refused"]
    assert refused == {
        "stream": "air", "reason": "size", "messages": 1, "devices": 1, "names": ["d2"]
    }  # fmt: skip
    assert [(e["now"], e["devices"], e["names"]) for e in said["settings"]] == [
        (True, 1, ["d0"]),
        (False, 1, ["d1"]),
    ]
    assert said["newest_windows"]["air"]["worst_device"] == "d4"
    by_name = {each["device"]: each for each in said["devices"]}
    assert by_name["d1"]["settings"] == {"air": {"since": None, "now": False}}
    assert by_name["d0"]["settings"]["air"]["now"]
    assert [each["releases"] for each in by_name["d3"]["excluded"]] == [1]
    flagged = {n: each["streams"]["air"]["total"]["out_of_line"] for n, each in by_name.items()}
    assert [name for name, out in flagged.items() if out] == ["d7"]


def test_the_text_names_them_too(site, capsys):
    assert main(["devices", "--config", str(site.path)]) == 0
    text = capsys.readouterr().out
    (flagged,) = [line for line in text.splitlines() if "OUT OF LINE" in line]
    assert flagged.startswith("d7 ")
    lines = {tuple(line.split()[:2]): line for line in text.splitlines()}
    assert " ± " in lines["d0", "air"]
    assert lines["d0", "air"].rstrip().endswith("now")
    assert "other ones" in lines["d1", "air"]
    assert "not reported" in lines["d2", "air"]
    assert "(d4)" in lines["lag", "of"]
    assert "excluded from every answer: d3 from 1970-01-04 to 1970-01-05, 1 release" in text
    assert "d0: another client has this name" in text
    assert "in quarantine: d2 air: 1 by size" in text


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
    # Before the token was entered.
    assert all("401" in error for error in tab.errors)
    assert all(token not in url for url in tab.requests)
    tab.run("sessionStorage.clear()")
    said = server.program.output
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


def test_a_large_fleet_has_parts(make_site, serve, tab, arrive):
    site = make_site()
    status = Status("online", "s1", {}).encode()
    site.fill(*(arrive(topics.status("testing", f"d{n:03}"), status) for n in range(60)))
    with serve(site) as server:
        tab.open(f"{server.url}/")
        assert "50 of 62 devices" in tab.text()
        tab.run("[...document.querySelectorAll('.paging a')].at(-1).click()")
        tab.until("document.querySelector('caption')?.textContent.startsWith('12 of 62')")
        assert "d059" in tab.text()
        assert "First devices" in tab.text()
        assert server.program.stop() == 0
