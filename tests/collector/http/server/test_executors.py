"""Large files, readers that go away, and more readers than there is room for."""

import asyncio
import io
import socket
from collections import Counter
from pathlib import Path

import httpx
import pyarrow.parquet
import pytest

from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.protocol import topics
from testbed.embedded_broker import EmbeddedBroker
from tests.waiting import SECONDS

ROWS = 1_000_000
PARQUET = "/v1/streams/air/sample?format=parquet&seed=1&rows="
ENDLESS = "/v1/streams/air/sample?rows=100000000"
MAX_GROWTH = 24 << 20
PARALLEL = 250
ABANDONED = 100


def peak_bytes(pid):
    """The most memory that a process ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def busy_ticks(pid):
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_million_rows_need_no_more_memory_than_a_few_chunks(make_site, serve):
    """As texts alone the rows would be above 100 MB."""
    site = make_site()
    site.fill()
    with serve(site) as server, server.client() as client:
        assert client.get(PARQUET + "200000").status_code == 200
        before = peak_bytes(server.web_pid)
        whole = client.get(PARQUET + str(ROWS)).content
        assert pyarrow.parquet.ParquetFile(io.BytesIO(whole)).metadata.num_rows == ROWS
        assert peak_bytes(server.web_pid) - before < MAX_GROWTH


def test_a_reader_that_goes_away_leaves_no_work_behind(shared, until):
    """More of them than there is room for at a time, so every place was given back."""
    pid = shared.web_pid

    def is_idle():
        before = busy_ticks(pid)
        client.get("/healthz")
        asyncio.run(asyncio.sleep(0.3))
        return busy_ticks(pid) - before <= 2

    with shared.client() as client:
        for _ in range(10):
            with client.stream("GET", ENDLESS) as response:
                assert response.status_code == 200
                next(response.iter_raw())
        until(is_idle)
        assert client.get("/v1/streams/air/sample?rows=1").status_code == 200


def test_questions_of_disconnected_readers_use_no_slot_and_no_time(make_site, serve, until):
    """Each asks for a model of its own, and there are more of them than slots."""
    site = make_site()
    site.fill()
    asked = "/v1/streams/air/query?question=mean&attribute=temp&from="
    with serve(site) as server, server.client() as client:
        assert client.get(f"{asked}1").status_code == 200
        before = busy_ticks(server.web_pid)
        assert client.get(f"{asked}2").status_code == 200
        one = busy_ticks(server.web_pid) - before
        before = busy_ticks(server.web_pid)
        for number in range(ABANDONED):
            leave_at_once(site.port, f"{asked}{number + 3}")
        until(lambda: client.get(f"{asked}1").status_code == 200)
        assert busy_ticks(server.web_pid) - before < ABANDONED * max(one, 1) / 2


def leave_at_once(port, path):
    with socket.create_connection(("127.0.0.1", port)) as reader:
        reader.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())


def test_downloads_beyond_the_room_are_refused_and_answers_go_on(shared):
    async def go():
        async with httpx.AsyncClient(base_url=shared.url, timeout=SECONDS) as client:
            held = [
                await client.send(client.build_request("GET", ENDLESS), stream=True)
                for _ in range(8)
            ]
            answer = await client.get("/v1/streams")
            health = await client.get("/healthz")
            for response in held:
                await response.aclose()
            return held, answer.status_code, health.status_code

    held, *others = asyncio.run(go())
    assert Counter(response.status_code for response in held) == {200: 6, 503: 2}
    assert all(int(r.headers["retry-after"]) > 0 for r in held if r.status_code == 503)
    assert others == [200, 200]


@pytest.fixture
def broker():
    with EmbeddedBroker(None) as running:
        yield running


def test_releases_are_ingested_while_many_clients_read(broker, make_site, serve, connect, until):
    """Nothing is lost or locked, and each reader is served or told to come again."""
    site = make_site(url=broker.url)
    site.fill()
    days = range(5, 25)
    sent = {day: site.release("one", "air", day) for day in days}
    paths = [
        "/v1/streams/air/query?question=mean&attribute=temp",
        "/v1/streams/pairs/query?question=quantile&attribute=temp&q=0.5",
        "/v1/streams/air/sample?rows=1000",
        "/v1/devices",
        "/v1/releases?stream=air",
        "/metrics",
    ]

    async def read_all():
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=server.url, timeout=SECONDS, limits=limits) as client:
            asked = [client.get(paths[n % len(paths)]) for n in range(PARALLEL)]
            taking = asyncio.to_thread(take_in)
            *responses, acks = await asyncio.gather(*asked, taking)
            return responses, acks

    def take_in():
        topic = topics.release("testing", "one", "air")
        return [peer.exchange(topic, payload).status for payload in sent.values()]

    with serve(site) as server, connect(broker.port, "testing", "one") as peer:
        server.program.wait_until_connected()
        responses, acks = asyncio.run(read_all())
        found = Counter(response.status_code for response in responses)
        assert set(found) <= {200, 503}
        assert found[200] >= 1
        assert all(int(r.headers["retry-after"]) > 0 for r in responses if r.status_code == 503)
        assert set(acks) <= {"stored", "duplicate"}
        with reading(site.config.collector.database) as reader:
            stored = {r.payload for r in reader.releases(Selection("air"))}
        assert set(sent.values()) <= stored
        with server.client() as client:
            asked = {"question": "mean", "attribute": "temp"}

            def is_whole():
                answer = client.get("/v1/streams/air/query", params=asked).json()
                return answer["releases"] == 6 + len(sent)

            until(is_whole)
        assert server.program.stop() == 0
        assert "locked" not in server.program.output
        assert "Traceback" not in server.program.output
