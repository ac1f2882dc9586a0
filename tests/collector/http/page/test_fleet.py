"""What the fleet view says of each device, and what `devices --json` says, is the same."""

import json

import pytest

from pansketch_collector.__main__ import main
from pansketch_collector.storage.writer import changing
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import Health, Status, StreamBirth

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
    """Eight devices: d7 counts eight times as much, d0 shares its name, d1 runs other settings, of
    d2 a release was refused, d3 is excluded for a day."""
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
    found.settle([*held, *said, health, refused])
    with changing(found.config.collector.database) as database:
        database.exclude("d3", 3 * 86_400, 4 * 86_400, 0)
    return found


def test_what_is_wrong_with_a_device_is_shown(site, serve, tab, shoot, capsys):
    with serve(site) as server:
        for width in (1280, 400):
            tab.looks(width, 900, "light")
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
    assert said["refused"] == [{"stream": "air", "reason": "size", "messages": 1, "devices": 1}]
    assert said["newest_windows"]["air"]["worst_device"] == "d4"
    by_name = {each["device"]: each for each in said["devices"]}
    assert by_name["d1"]["settings"] == {"air": {"since": None, "now": False}}
    assert by_name["d0"]["settings"]["air"]["now"]
    assert [each["releases"] for each in by_name["d3"]["excluded"]] == [1]
    flagged = {n: each["streams"]["air"]["total"]["out_of_line"] for n, each in by_name.items()}
    assert [name for name, out in flagged.items() if out] == ["d7"]


def test_the_text_says_it_too(site, capsys):
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
