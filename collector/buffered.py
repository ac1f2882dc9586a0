"""A socket that reads and writes in large pieces.

paho takes a packet from its socket in three reads, and sends each of its own by itself: for small
messages these calls are most of the work, of this program and of the broker.
"""

import ssl
from contextlib import suppress
from socket import socket

READ_BYTES = 262_144
MOST_UNSENT_BYTES = 262_144
FAREWELL_SECONDS = 1.0


class BufferedSocket:
    """What paho wants of a socket, over one that does not block.

    `recv` gives what `fill` has read and asks for nothing; `send` keeps what `flush` will send.
    For one thread.
    """

    def __init__(self, inner: socket) -> None:
        self._inner = inner
        self._read, self._place = b"", 0
        self._unsent = bytearray()
        self._end: OSError | None = None
        self._over = False

    def fileno(self) -> int:
        return self._inner.fileno()

    def setblocking(self, blocking: bool) -> None:
        self._inner.setblocking(blocking)

    def pending(self) -> int:
        """How many bytes `recv` has, and one for an end that it has to tell of."""
        return len(self._read) - self._place + (self._over or self._end is not None)

    @property
    def holds_more(self) -> bool:
        """Whether `fill` would find something that no poll tells of: TLS reads ahead."""
        return isinstance(self._inner, ssl.SSLSocket) and self._inner.pending() > 0

    def fill(self) -> None:
        """Reads what is there, up to about READ_BYTES."""
        pieces, total = [self._read[self._place :]], 0
        try:
            # More than once: TLS gives one record at a time.
            while total < READ_BYTES and not self._over:
                pieces.append(self._inner.recv(READ_BYTES))
                total += len(pieces[-1])
                self._over = not pieces[-1]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            self._end = error
        self._read, self._place = b"".join(pieces), 0

    def recv(self, most: int) -> bytes:
        """Raises BlockingIOError when there is nothing, OSError when the connection has failed."""
        found = self._read[self._place : self._place + most]
        if not found:
            if self._end is not None:
                raise self._end
            if not self._over:
                raise BlockingIOError
        self._place += len(found)
        return found

    def send(self, data: bytes | bytearray) -> int:
        """Keeps all of it. Raises BlockingIOError when too much waits already."""
        if len(self._unsent) >= MOST_UNSENT_BYTES:
            raise BlockingIOError
        self._unsent += data
        return len(data)

    def flush(self) -> bool:
        """Sends what it can; whether something is left. A failure is told by `recv`."""
        try:
            while self._unsent:
                del self._unsent[: self._inner.send(self._unsent)]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        except OSError as error:
            self._end = error
            self._unsent.clear()
        return False

    def close(self) -> None:
        """Sends what is left, as far as it goes in a moment."""
        with suppress(OSError):
            self._inner.settimeout(FAREWELL_SECONDS)
            self._inner.sendall(self._unsent)
        self._unsent.clear()
        self._inner.close()
