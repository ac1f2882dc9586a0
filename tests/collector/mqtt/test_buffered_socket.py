"""The socket under paho: what it collects, in either direction, and how it tells of an end."""

import socket
from contextlib import suppress

import pytest

from pansketch_collector.mqtt.paho_client import MAX_UNSENT_BYTES, READ_BYTES, BufferedSocket


@pytest.fixture
def ends():
    """A buffered socket, and its plain other end."""
    near, far = socket.socketpair()
    near.setblocking(False)
    yield BufferedSocket(near), far
    near.close()
    far.close()


@pytest.fixture
def connected():
    """The same over TCP, whose buffers are large and which has resets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        near.setblocking(False)
        buffered = BufferedSocket(near)
        yield buffered, far
        buffered.close()
        far.close()


def test_it_returns_only_filled_bytes(ends):
    buffered, far = ends
    far.sendall(b"abcdef")
    with pytest.raises(BlockingIOError):
        buffered.recv(1)
    buffered.fill()
    assert buffered.pending() == 6
    assert [buffered.recv(1), buffered.recv(2), buffered.recv(100)] == [b"a", b"bc", b"def"]
    assert buffered.pending() == 0
    with pytest.raises(BlockingIOError):
        buffered.recv(1)


def test_what_was_not_taken_comes_before_what_is_read_next(ends):
    buffered, far = ends
    far.sendall(b"first")
    buffered.fill()
    assert buffered.recv(2) == b"fi"
    far.sendall(b"second")
    buffered.fill()
    assert buffered.recv(100) == b"rstsecond"


def test_one_reading_is_bounded(connected):
    buffered, far = connected
    far.setblocking(False)
    sent = 0
    with suppress(BlockingIOError):
        while sent < 8 * READ_BYTES:
            sent += far.send(bytes(65_536))
    assert sent > 2 * READ_BYTES
    buffered.fill()
    assert 0 < buffered.pending() < 2 * READ_BYTES


def test_an_end_is_reported_after_the_bytes_before_it(ends):
    buffered, far = ends
    far.sendall(b"last")
    far.close()
    buffered.fill()
    assert buffered.recv(4) == b"last"
    assert buffered.pending()
    assert buffered.recv(1) == b""


def test_a_failure_is_reported_after_the_bytes_before_it(connected):
    buffered, far = connected
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    far.close()  # with a reset
    buffered.send(b"to nobody")
    assert buffered.flush() is False
    buffered.fill()
    assert buffered.pending()
    with pytest.raises(ConnectionError):
        buffered.recv(1)


def test_nothing_is_sent_before_a_flush(ends):
    buffered, far = ends
    far.setblocking(False)
    assert buffered.send(b"one") == 3
    assert buffered.send(bytearray(b"two")) == 3
    with pytest.raises(BlockingIOError):
        far.recv(10)
    assert buffered.flush() is False
    assert far.recv(10) == b"onetwo"


def test_unsent_bytes_are_bounded_and_continue_after_a_stall(ends):
    buffered, far = ends
    piece, sent, got = bytes(range(256)) * 64, 0, bytearray()
    with suppress(BlockingIOError):
        while sent < 64 * MAX_UNSENT_BYTES:
            sent += buffered.send(piece)
            buffered.flush()
    assert sent < 64 * MAX_UNSENT_BYTES
    assert buffered.flush() is True
    far.settimeout(5)
    while len(got) < sent:
        got += far.recv(65_536)
        buffered.flush()
    assert bytes(got) == piece * (sent // len(piece))
    assert buffered.flush() is False


def test_a_close_sends_the_rest(ends):
    buffered, far = ends
    buffered.send(b"goodbye")
    buffered.close()
    assert far.recv(10) == b"goodbye"
    assert far.recv(10) == b""
