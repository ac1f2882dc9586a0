"""The HTTP process, started by `pansketch-collector serve`.

It reads the database and writes only changes of devices. Its parent opened the listening socket. It
ends with its standard input, so also when the parent is killed.
"""

import argparse
import asyncio
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
from pansketch_collector.http.server.connection_limits import (
    MAX_CONNECTIONS,
    HttpConnection,
    LogRateLimit,
)
from pansketch_collector.http.server.executors import Executors
from pansketch_collector.http.supervisor import BrokerState
from pansketch_fleet.config.loader import Config, ConfigError, Http, load_reader
from pansketch_fleet.logs import add_log_options, set_up_log

# Ingestion has priority, and readers still get a share (benchmarks/http/load.py).
NICENESS = 5
SHUTDOWN_SECONDS = 3  # for unfinished answers at the end
MAX_HEAD_BYTES = 131_072  # of a request with all parameters at their maximum
MAX_FILES, RESERVED_FILES = 8192, 128


def main() -> int:
    """Serves until the standard input ends; returns an exit code."""
    parser = argparse.ArgumentParser(prog="pansketch_collector.http", description=__doc__)
    parser.add_argument("--config", required=True)
    parser.add_argument("--socket", type=int, required=True, help="a file descriptor that listens")
    parser.add_argument("--broker-state", type=int, required=True, help="a file descriptor")
    add_log_options(parser)
    options = parser.parse_args()
    gc.freeze()  # Modules stay: no collection visits them, also at exit.
    set_up_log("pansketch-collector http", options, os.environ)
    # Below that level are uvicorn's own messages.
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
    HttpConnection.limits.maximum = min(MAX_CONNECTIONS, _allowed_files() - RESERVED_FILES)
    with socket.socket(fileno=options.socket) as listening:
        _serve(config, http, listening, BrokerState(options.broker_state))
    return 0


def _serve(config: Config, http: Http, listening: socket.socket, broker: BrokerState) -> None:
    executors, limits = Executors(config.collector.database), ResponseLimits()
    app = application(config, executors, limits, broker)
    guarded = AccessControl(app, http, limits)
    settings = uvicorn.Config(
        guarded,
        http=HttpConnection,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = uvicorn.Server(settings)

    def exit_at_end_of_input() -> None:
        while os.read(0, 1024):
            pass
        server.should_exit = True

    async def serve() -> None:
        warming = asyncio.create_task(app.state.warm_up())
        try:
            await server.serve(sockets=[listening])
        finally:
            warming.cancel()

    threading.Thread(target=exit_at_end_of_input, daemon=True).start()
    try:
        asyncio.run(serve())
    finally:
        executors.close()


def _allowed_files() -> int:
    """Raises the limit of open files as far as the system allows, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


if __name__ == "__main__":
    sys.exit(main())
