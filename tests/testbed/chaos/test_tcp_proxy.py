"""The network of `make chaos`: each way in which a link fails, and the end of each fault."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from testbed.mqtt_packets import AnswerReader
from testbed.tcp_proxy import Network
from tests.waiting import SECONDS

QUIET_SECONDS = 0.3


class Echo:
    """A server that sends back what it gets, and keeps what it got of each connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.got: list[bytearray] = []
        self.ended = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self.got.append(bytearray())
                threading.Thread(target=self._serve, args=(peer, self.got[-1]), daemon=True).start()

    def _serve(self, peer: socket.socket, got: bytearray) -> None:
        with peer, suppress(OSError):
            while content := peer.recv(4096):
                got += content
                peer.sendall(content)
        self.ended.set()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.close()


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as made:
        yield made


def connected(link) -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", link.port), SECONDS)
    peer.settimeout(SECONDS)
    return peer


def answered(peer: socket.socket, content: bytes) -> bytes:
    peer.sendall(content)
    return received(peer, len(content))


def received(peer: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size and (content := peer.recv(size - len(got))):
        got += content
    return got


def is_silent(peer: socket.socket) -> bool:
    peer.settimeout(QUIET_SECONDS)
    try:
        return not peer.recv(1) and False
    except TimeoutError:
        return True
    finally:
        peer.settimeout(SECONDS)


def is_reset(peer: socket.socket) -> bool:
    try:
        peer.recv(1)
    except ConnectionResetError:
        return True
    return False


def test_a_whole_link_carries_everything_both_ways(network, echo):
    observed = bytearray()
    link = network.link(echo.port, lambda: observed.extend)
    content = bytes(range(256)) * 4000
    with connected(link) as peer:
        sender = threading.Thread(target=peer.sendall, args=(content,))
        sender.start()
        assert received(peer, len(content)) == content
        sender.join()
    assert bytes(observed) == content == bytes(echo.got[0])


def test_an_end_reaches_the_other_side(network, echo):
    with connected(network.link(echo.port)) as peer:
        assert answered(peer, b"hello") == b"hello"
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(1) == b""
    assert echo.ended.wait(SECONDS)


def test_without_a_broker_a_connection_ends(network):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = probe.getsockname()[1]
    with connected(network.link(nobody)) as peer:
        assert peer.recv(1) == b""


def test_a_cut_link_resets_what_is_open_and_takes_nothing(network, echo):
    link = network.link(echo.port)
    with connected(link) as peer:
        assert answered(peer, b"hello") == b"hello"
        link.cut()
        assert is_reset(peer)
    with connected(link) as peer, suppress(ConnectionResetError):
        assert peer.recv(1) == b""
    assert len(echo.got) == 1
    link.mend()
    with connected(link) as peer:
        assert answered(peer, b"again") == b"again"


@pytest.mark.parametrize(("way", "arrives"), [("up", b""), ("down", b"lost")])
def test_a_half_open_link_loses_one_direction_and_never_resumes(network, echo, way, arrives):
    link = network.link(echo.port)
    with connected(link) as peer:
        assert answered(peer, b"hello") == b"hello"
        link.silence(way)
        peer.sendall(b"lost")
        assert is_silent(peer)
        link.mend()
        # A parser would misread the bytes after lost ones.
        assert is_reset(peer)
    assert bytes(echo.got[0]) == b"hello" + arrives
    with connected(link) as peer:
        assert answered(peer, b"again") == b"again"


def test_a_silent_link_lets_nothing_through_and_refuses_nobody(network, echo):
    link = network.link(echo.port)
    link.silence("up", "down")
    with connected(link) as peer:
        peer.sendall(b"hello")
        assert is_silent(peer)
        link.mend()
        assert is_reset(peer)
    assert not any(echo.got)


def test_a_slow_link_is_late_and_loses_nothing(network, echo):
    link = network.link(echo.port)
    with connected(link) as peer:
        link.slow(QUIET_SECONDS)
        peer.sendall(b"hello")
        assert is_silent(peer)  # There and back takes twice as long.
        assert received(peer, 5) == b"hello"
        link.mend()
        assert answered(peer, b"again") == b"again"


def test_a_packet_is_truncated_and_the_connection_ends(network, echo):
    link = network.link(echo.port)
    with connected(link) as peer:
        assert answered(peer, b"hello") == b"hello"
        link.truncate(3)
        peer.sendall(b"truncated")
        assert received(peer, 9) == b"tru"
        assert echo.ended.wait(SECONDS)
    assert bytes(echo.got[0]) == b"hellotru"
    with connected(link) as peer:
        assert answered(peer, b"truncated once") == b"truncated once"


def test_a_reset_ends_what_is_open_and_nothing_else(network, echo):
    link = network.link(echo.port)
    with connected(link) as peer:
        assert answered(peer, b"hello") == b"hello"
        link.reset()
        assert is_reset(peer)
    with connected(link) as peer:
        assert answered(peer, b"again") == b"again"


def test_links_fail_one_by_one(network, echo):
    cut, whole = network.link(echo.port), network.link(echo.port)
    with connected(cut) as peer, connected(whole) as other:
        assert answered(peer, b"a") == b"a"
        assert answered(other, b"b") == b"b"
        cut.cut()
        assert is_reset(peer)
        assert answered(other, b"c") == b"c"


def test_the_network_ends_with_its_block(echo):
    with Network() as network:
        link = network.link(echo.port)
        peer = connected(link)
        assert answered(peer, b"hello") == b"hello"
        silent = network.link(echo.port)
        silent.silence("up", "down")
        waiting = connected(silent)
        assert is_silent(waiting)
    with peer, waiting:
        assert is_reset(peer)
        assert is_reset(waiting)
    with pytest.raises(ConnectionRefusedError):
        connected(link)
    assert echo.ended.wait(SECONDS)
    assert not [t for t in threading.enumerate() if t.name == "network"]


ACCEPTED, REFUSED, ACCEPTED_BY_5 = b"\x20\x02\x00\x00", b"\x20\x02\x00\x05", b"\x20\x03\x00\x00\x00"


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize(
    ("content", "accepted"),
    [(ACCEPTED, 1), (ACCEPTED_BY_5, 1), (REFUSED, 0), (ACCEPTED[:3], 0), (b"\x30" * 9, 0)],
)
def test_a_bystander_sees_whether_a_broker_accepts(content, accepted, step):
    reader, later = AnswerReader(), content + ACCEPTED
    assert sum(reader.feed(content[at : at + step]) for at in range(0, len(content), step)) == (
        accepted
    )
    assert len(content) < len(ACCEPTED) or not reader.feed(later)


def test_a_link_counts_the_connections_that_were_accepted(network, echo):
    link = network.link(echo.port)
    with connected(link) as peer:
        answered(peer, REFUSED)
    assert link.accepted == 0
    for count in (1, 2):
        with connected(link) as peer:
            answered(peer, ACCEPTED)
            answered(peer, ACCEPTED)
        assert link.accepted == count
