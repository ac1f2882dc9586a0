"""Two neighbouring inputs, or two very different ones: only the payload of a release may differ."""

import re
import threading
from dataclasses import replace

import numpy as np
import pytest

from pansketch import os_entropy
from pansketch_agent.host.clock import Clock
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.outbox import Outbox
from pansketch_agent.runtime.stream_builder import StreamBuilder
from pansketch_agent.sources.readings import Readings

SPAN = "{epsilon: 1, unit: {span: 10m, max_readings: 5}}"
READING = "{epsilon: 1}"
# The first and the last row are the same everywhere: a replay's own times are public.
FIRST, LAST = "2024-01-01T00:30:00Z,11.5,N\n", "2024-01-01T04:30:00Z,13.5,NO\n"
ONE_MORE = "2024-01-01T02:15:00Z,59.9,calm\n"
MANY = "".join(f"2024-01-01T0{1 + n // 60}:{n % 60:02d}:00Z,-3,N\n" for n in range(180))
BROKEN = "2024-01-01T02:15:00Z,x,?\n2024-01-01T02:16:00Z\nsoon,1,N\n"
HOUR, BEGIN = 3600.0, 1_704_067_200.0


def seen_outside(device, collector_of, url: str, middle: str, privacy: str) -> dict[str, object]:
    """All traces of a run except payloads: on disk, in the log, on the wire."""
    rows = f"time,temp,wind\n{FIRST}{middle}{LAST}"
    device.configure(url, rows=rows, privacy=privacy)
    agent = device.start("run", "--drain", "0")
    agent.wait()
    offline = {"names": device.outbox(), "offline": wiped(agent.output)}
    with collector_of(url) as collector:
        agent = device.start("run")
        assert agent.wait() == 0, agent.output
        return offline | {
            # The number without acknowledgement by then depends on the network and the disk.
            "log": [line for line in wiped(agent.output) if "waiting for the coll" not in line],
            # Without the header, which has the ledger's random incarnation.
            "ledger": (device.state / "ledger").read_bytes().partition(b"\n")[2],
            "files": sorted(path.name for path in device.state.rglob("*")),
            "order": [replace(window, incarnation=b"") for window in collector.windows()],
            "status": [(s.state, s.streams) for s in collector.statuses],
        }


def wiped(said: str) -> list[str]:
    """The log without the times of its lines and the folder of the test, and without when and how
    the network connects."""
    lines = re.sub(r"/\S*/d\d+/|^\S+Z ", "", said, flags=re.M).splitlines()
    of_the_network = "connected to the broker", "does not support MQTT 5"
    return [line for line in lines if not any(words in line for words in of_the_network)]


@pytest.mark.parametrize("privacy", [READING, SPAN])
@pytest.mark.parametrize("middle", [ONE_MORE, MANY, BROKEN], ids=["one more", "many", "broken"])
def test_nothing_but_the_payload_depends_on_the_readings(
    device, broker, peer, tmp_path, privacy, middle
):
    seen = []
    for number, between in enumerate(("", middle)):
        each = type(device)(tmp_path / f"d{number}", device.started)
        each.folder.mkdir()
        seen.append(seen_outside(each, peer, broker.url, between, privacy))
    # Statuses depend on when the collector joins, not on readings: the last one counts.
    for each in seen:
        each["status"] = each["status"][-1:]
    assert seen[0] == seen[1]
    assert len(seen[0]["order"]) == 5


def test_other_times_of_windows_would_be_seen(device, broker, peer, tmp_path):
    """The control: what differs in public does show in the comparison."""
    seen = []
    for number, privacy in enumerate((READING, "{epsilon: 2}")):
        each = type(device)(tmp_path / f"d{number}", device.started)
        each.folder.mkdir()
        seen.append(seen_outside(each, peer, broker.url, "", privacy))
    assert seen[0]["ledger"] != seen[1]["ledger"]


def live_events(device, clock_text: list[float], readings: dict[int, int], folder: str):
    """The ledger and outbox of a live stream whose clock goes as given, with so many readings."""
    config = device.configure(source="{type: stdin}", window="1h", privacy=SPAN)
    now = {"wall": clock_text[0], "up": 0.0}
    clock = Clock(lambda: now["wall"], lambda: now["up"], lambda *_: True)
    state = device.folder / folder
    with Ledger(state) as ledger:
        outbox, stop = Outbox(state / "outbox", 10**7), threading.Event()
        work = StreamBuilder("testing", "dev-1", ledger, outbox, clock, stop, False, None).build(
            config.streams[:1], os_entropy()
        )
        for step, wall in enumerate(clock_text):
            now.update(wall=wall, up=600.0 * step)
            work.tick(clock)
            count = readings.get(step, 0)
            work.absorb(Readings(np.full(count, wall), np.ones((count, 2))), clock)
        assert work.failure == ""
        return (state / "ledger").read_bytes().partition(b"\n")[2], [
            key.filename for key in outbox.queued()
        ]


def test_a_live_clock_set_back_a_year_releases_no_window_twice(device):
    forward = [BEGIN + HOUR * n for n in range(5)]
    back = [BEGIN - 365 * 24 * HOUR + HOUR * n for n in range(5)]
    later = [BEGIN + HOUR * n for n in range(3, 8)]
    ledger, files = live_events(device, forward + back + later, {2: 3, 7: 50, 12: 1}, "a")
    starts = [int(line.split()[3]) for line in ledger.decode().splitlines()]
    assert len(set(starts)) == len(starts) == len(files) == 7
    assert starts == sorted(starts)
    assert live_events(device, forward + back + later, {}, "b") == (ledger, files)
