"""mosquitto, the broker of the field: where it is on this host, and a running one on loopback."""

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.embedded_broker import free_port
from testbed.notify_socket import ProgramEnded, ProgramTimeout
from testbed.program import Program

# As another user, which root's broker becomes otherwise, it would outlive a program that is killed.
PLAIN = "user root\nlistener {port} 127.0.0.1\nallow_anonymous {anonymous}\n"


def executable() -> str | None:
    """The path of the executable on this host."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


def listens(port: int) -> bool:
    """True if a server accepts connections on this port of the loopback interface."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def mosquitto(
    folder: Path, port: int | None = None, settings: str = "", anonymous: bool = True
) -> Iterator[int]:
    """Runs a broker that listens, and ends it.

    Args:
        folder: takes its configuration file.
        port: of the loopback interface; None: a free one.
        settings: further lines of its configuration.
        anonymous: whether a client may connect without a user name.

    Yields:
        The port.

    Raises:
        OSError: there is no mosquitto, or it ended at its start.
    """
    port = port or free_port()
    with start(folder, port, settings, anonymous):
        yield port


def start(folder: Path, port: int, settings: str = "", anonymous: bool = True) -> Program:
    """Starts a broker that listens, for a caller that ends it. Raises OSError as `mosquitto`."""
    program = executable()
    if program is None:
        raise FileNotFoundError("there is no mosquitto on this machine")
    config = folder / f"mosquitto-{port}.conf"
    plain = PLAIN.format(port=port, anonymous=str(anonymous).lower())
    config.write_text(f"{plain}{settings}\n", encoding="utf-8")
    broker = Program([program, "-c", str(config)], config.with_suffix(".log"))
    try:
        broker.until(lambda: listens(port), f"a listener on port {port}")
    except BaseException as error:
        broker.close()
        if isinstance(error, (ProgramTimeout, ProgramEnded)):
            raise OSError(str(error)) from error
        raise
    return broker
