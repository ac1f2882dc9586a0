"""The options of `python -m testbed.fleet_simulator`."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from pansketch_fleet.settings.sources import Mqtt

CONFIG = Path(__file__).with_name("fleet.yaml")
PORTS = {"mqtt": 1883, "mqtts": 8883}
MAX_DEVICES, MAX_IN_FLIGHT = 10_000_000, 30_000


class WrongInput(Exception):
    """Invalid options; the text names the reason."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "python -m testbed.fleet_simulator",
        description="Publishes the births and releases of a fleet, with the noise and the labels "
        "of real ones, until a collector has acknowledged each. Without --url and --database it "
        "starts a mosquitto and a collector of its own, and a PostgreSQL for --workers. A "
        "collector counts simulated releases "
        "like all others, so use a fleet and a database of their own.",
    )
    add, whole = made.add_argument, _number(int, 1)
    add("--devices", type=_number(int, 1, MAX_DEVICES), default=1000, help="(1000)")
    add("--windows", type=whole, default=24, help="of each device and stream (24)")
    text = "configuration of fleet and streams (testbed/fleet_simulator/fleet.yaml)"
    add("--config", type=Path, default=CONFIG, metavar="FILE", help=text)
    add("--stream", action="append", metavar="NAME", help="of the configuration (all of them)")
    add("--readings", type=whole, default=60, help="of each window (60)")
    where = made.add_mutually_exclusive_group()
    text = "broker of a collector that serves the same configuration"
    where.add_argument("--url", metavar="mqtt://HOST:PORT", help=text)
    text = "store straight into this database, by the collector's own ingest"
    where.add_argument("--database", type=Path, metavar="FILE", help=text)
    text = "messages a second (as fast as releases are acknowledged)"
    add("--rate", type=_number(float, 0.001), help=text)
    text = "the most releases without an acknowledgement (1000)"
    add("--in-flight", type=_number(int, 1, MAX_IN_FLIGHT), default=1000, help=text)
    share = _number(float, 0.0, 1.0)
    add("--outages", type=share, default=0.0, help="share of releases a window late (0)")
    text = "share of releases published again after their acknowledgement (0)"
    add("--duplicates", type=share, default=0.0, help=text)
    text = "health messages of each device and window; agents send one a minute (0)"
    add("--health", type=_number(int, 0), default=0, help=text)
    text = "publish again what is not acknowledged after so long, as agents do (300)"
    add("--resend-after", type=_number(float, 0.1), default=300.0, metavar="SECONDS", help=text)
    text = "end when the collector is silent for so long (900)"
    add("--give-up", type=_number(float, 0.1), default=900.0, metavar="SECONDS", help=text)
    text = "a PostgreSQL of its own, and so many processes that ingest beside the collector"
    where.add_argument("--workers", type=_number(int, 0), metavar="N", help=text)
    text = "kill broker, collector, workers or PostgreSQL so often, and start it again (0)"
    add("--kills", type=_number(int, 0), default=0, help=text)
    text = (
        "queue all windows but the first while the collector is paused, and measure from its resume"
    )
    add("--backlog", action="store_true", help=text)
    text = "of the devices' names (simulated); a second run on one database needs another"
    add("--prefix", default="simulated", help=text)
    add("--seed", type=int, default=1, help="of readings and outages, not of noise (1)")
    text = "a process of this machine whose CPU time is reported"
    add("--pid", type=whole, action="append", default=[], metavar="PID", help=text)
    add("--out", type=Path, metavar="FOLDER", help="keeps database and logs (nowhere)")
    text = "only print what such a fleet publishes, by its configuration"
    add("--arithmetic", action="store_true", help=text)
    add("--json", action="store_true", help="report as JSON")
    return made


def _number(
    kind: type[int] | type[float], low: float, high: float = float("inf")
) -> Callable[[str], float]:
    def read(text: str) -> float:
        number = kind(text)
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"{text} is not from {low:g} to {high:g}")
        return number

    read.__name__ = "whole number" if kind is int else "number"
    return read


def broker_at(given: Mqtt, text: str) -> Mqtt:
    """The broker at this address, with the user and the files that the configuration names."""
    try:
        url = urlsplit(text)
        if url.scheme not in PORTS or not url.hostname or url.path.strip("/") or url.username:
            raise ValueError
        port = url.port or PORTS[url.scheme]
    except ValueError:
        raise WrongInput(f"--url {text[:80]!r}: write mqtt://host:1883 or mqtts://host") from None
    return replace(given, host=url.hostname, port=port, tls=url.scheme == "mqtts")
