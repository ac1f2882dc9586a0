"""The process that answers over HTTP, started by `pansketch-collector serve`.

It reads the database and nothing else, on a socket that is open already. It ends when its standard
input does, that is with the process that started it, whatever ended that one.
"""

import argparse
import logging
import os
import resource
import socket
import sys
import threading
from contextlib import suppress

import uvicorn

from collector.web.app import application
from collector.web.desk import Desk
from collector.web.door import Door, Room
from collector.web.told import Told, listen
from fleet.config import Config, ConfigError, load

NICENESS = 5  # The taking in goes first, and readers get something (benchmarks/web_beside.py).
LEAVE_SECONDS = 3  # for answers that are under way at the end
MOST_CONNECTIONS = 2048
MOST_HEAD_BYTES = 131_072  # of a request: all parameters at their longest
MOST_FILES = 8192


def main() -> int:
    """Serves until it is told to stop; an exit code."""
    parser = argparse.ArgumentParser(prog="collector.web", description=__doc__)
    parser.add_argument("--config", required=True)
    parser.add_argument("--socket", type=int, required=True, help="a file descriptor that listens")
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s http: %(message)s")
    try:
        config = load(options.config, "collector", os.environ)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    os.nice(NICENESS)
    _allow_files()
    with socket.socket(fileno=options.socket) as listening:
        _serve(config, listening)
    return 0


def _serve(config: Config, listening: socket.socket) -> None:
    assert config.collector.http is not None
    desk, room, told = Desk(config.collector.database), Room(), Told()
    door = Door(application(config, desk, room, told), config.collector.http, room)
    settings = uvicorn.Config(
        door,
        http="h11",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=MOST_HEAD_BYTES,
        timeout_graceful_shutdown=LEAVE_SECONDS,
    )
    server = uvicorn.Server(settings)

    def leave_at_the_end_of_input() -> None:
        listen(0, told)
        server.should_exit = True

    threading.Thread(target=leave_at_the_end_of_input, daemon=True).start()
    try:
        server.run(sockets=[listening])
    finally:
        desk.close()


def _allow_files() -> None:
    """As many open connections as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


if __name__ == "__main__":
    sys.exit(main())
