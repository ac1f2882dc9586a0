"""The process that answers over HTTP, started by `pansketch-collector serve`.

It reads the database, and writes changes of devices alone, on a socket that is open already. It
ends when its standard input does, that is with the process that started it, whatever ended that
one.
"""

import argparse
import gc
import logging
import os
import resource
import socket
import sys
import threading
from contextlib import suppress

import uvicorn

from pansketch_collector.http.app import application
from pansketch_collector.http.server.access_control import AccessControl, ResponseLimits
from pansketch_collector.http.server.connection_limits import MOST, HttpConnection, LogRateLimit
from pansketch_collector.http.server.executors import Executors
from pansketch_collector.http.supervisor import BrokerState
from pansketch_fleet.config.loader import Config, ConfigError, Http, load_reader
from pansketch_fleet.logs import add_log_options, set_up_log

# The taking in goes first, and readers get something (benchmarks/http/load.py).
NICENESS = 5
LEAVE_SECONDS = 3  # for answers that are under way at the end
MAX_HEAD_BYTES = 131_072  # of a request: all parameters at their longest
MAX_FILES, OWN_FILES = 8192, 128


def main() -> int:
    """Serves until it is told to stop; an exit code."""
    parser = argparse.ArgumentParser(prog="pansketch_collector.http", description=__doc__)
    parser.add_argument("--config", required=True)
    parser.add_argument("--socket", type=int, required=True, help="a file descriptor that listens")
    parser.add_argument("--broker-state", type=int, required=True, help="a file descriptor")
    add_log_options(parser)
    options = parser.parse_args()
    gc.freeze()  # What was imported stays: no collection looks at it, at the end neither.
    set_up_log("pansketch-collector http", options, os.environ)
    # Below that are uvicorn's own words.
    logging.root.setLevel(max(logging.root.level, logging.WARNING))
    for handler in logging.root.handlers:
        handler.addFilter(LogRateLimit())
    try:
        config = load_reader(options.config, os.environ, serves_http=True)
        http = config.collector.http
        if http is None:
            raise config.error("collector.http", "is missing; add an address and a port")
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    os.nice(NICENESS)
    HttpConnection.crowd.most = min(MOST, _allowed_files() - OWN_FILES)
    with socket.socket(fileno=options.socket) as listening:
        _serve(config, http, listening, BrokerState(options.broker_state))
    return 0


def _serve(config: Config, http: Http, listening: socket.socket, broker: BrokerState) -> None:
    desk, room = Executors(config.collector.database), ResponseLimits()
    door = AccessControl(application(config, desk, room, broker), http, room)
    settings = uvicorn.Config(
        door,
        http=HttpConnection,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        timeout_graceful_shutdown=LEAVE_SECONDS,
    )
    server = uvicorn.Server(settings)

    def leave_at_the_end_of_input() -> None:
        while os.read(0, 1024):
            pass
        server.should_exit = True

    threading.Thread(target=leave_at_the_end_of_input, daemon=True).start()
    try:
        server.run(sockets=[listening])
    finally:
        desk.close()


def _allowed_files() -> int:
    """As many open files, and connections, as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


if __name__ == "__main__":
    sys.exit(main())
