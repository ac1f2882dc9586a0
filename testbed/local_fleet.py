"""The processes of the demo: one collector and an agent for every station, as users run them."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from pansketch_fleet.child_process import run_child
from testbed.notify_socket import ProgramEnded, ProgramTimeout
from testbed.program import ROOT, Program

CONFIG = ROOT / "config.yaml"
STATIONS = ROOT / "data" / "beijing-air"
DOORS = ROOT / "data" / "doors"
POLL_SECONDS = 0.2
STOP_SECONDS = 10.0


class DemoFailed(Exception):
    """A process of the demo failed or exceeded its time; the message names it and its log."""


def stations() -> list[str]:
    """Names of the bundled stations, which are also the devices' names."""
    return sorted(file.name.removesuffix(".csv.gz") for file in STATIONS.glob("*.csv.gz"))


class LocalFleet:
    """Starts the real programs against a broker, with all their files below `folder`. `http`: where
    the collector answers over HTTP as well, None: nowhere. `config`: what all of them read, with
    `variables` beside those of broker, files and station."""

    def __init__(
        self,
        broker: str,
        folder: Path,
        http: str | None = None,
        config: Path = CONFIG,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._folder, self._config = folder, config
        self._environment = {**(variables or {}), "BROKER": broker, "VAR": str(folder / "var")}
        self._running: dict[str, Program] = {}
        (folder / "log").mkdir(parents=True)
        self._collector_config = config if http is None else _with_http(config, folder, http)

    def __enter__(self) -> "LocalFleet":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for program in self._running.values():
            program.process.terminate()
        for program in self._running.values():
            with suppress(ProgramTimeout):
                program.wait(STOP_SECONDS)
            program.close()

    def environment(self, device: str) -> dict[str, str]:
        """The variables that config.yaml asks for, on one device."""
        return {**self._environment, "DEVICE": device, "STATION": device}

    def start_collector(self, deadline: float) -> None:
        """Starts the collector and waits until it has its subscription. Raises DemoFailed."""
        serve = ["-m", "pansketch_collector", "serve"]
        self._start("collector", [*serve, "--config", str(self._collector_config)], {})
        try:
            self._running["collector"].wait_until_connected(seconds=deadline - time.monotonic())
        except ProgramEnded as error:
            raise DemoFailed(self._end("collector")) from error
        except ProgramTimeout as error:
            log = self._running["collector"].log
            raise DemoFailed(f"the collector found no broker in time; see {log}") from error

    def start_agent(self, device: str) -> None:
        run = ["-m", "pansketch_agent", "run", "--config", str(self._config)]
        self._start(device, run, self.environment(device))

    def start_keeper(self, name: str, config: Path) -> None:
        """Starts a keeper of a blinded fleet, which has a configuration of its own."""
        self._start(name, ["-m", "pansketch_keeper", "run", "--config", str(config)], {})

    def finished(self, devices: Sequence[str]) -> bool:
        """True if all these agents ended with exit code 0. Raises DemoFailed if one failed."""
        self._check("collector")
        ended = [self._check(device) for device in devices]
        return all(ended)

    def collector_command(self, *arguments: str) -> None:
        """Runs one command of the collector to its end. Raises DemoFailed."""
        command = [sys.executable, "-m", "pansketch_collector", *arguments]
        command += ["--config", str(self._config)]
        environment = {**os.environ, **self._environment}
        done = run_child(command, cwd=ROOT, env=environment, text=True)
        if done.returncode:
            raise DemoFailed(done.stderr.strip() or f"{arguments[0]} failed")

    def _start(self, name: str, arguments: list[str], environment: Mapping[str, str]) -> None:
        log = self._folder / "log" / f"{name}.log"
        known = {**self._environment, **environment}
        self._running[name] = Program([sys.executable, *arguments], log, environment=known)

    def _check(self, name: str) -> bool:
        """True if a process has ended. Raises DemoFailed for a server that ended and for a
        failure."""
        ended = self._running[name].ended()
        if ended and (self._running[name].process.returncode or name == "collector"):
            raise DemoFailed(self._end(name))
        return ended

    def _end(self, name: str) -> str:
        """Describe the end of a process: its exit code and its last line."""
        program = self._running[name]
        last_line, code = (
            (program.output.splitlines() or ["nothing"])[-1],
            program.process.returncode,
        )
        return f"{name} ended with {code}: {last_line}; see {program.log}"


def _with_http(config: Path, folder: Path, http: str) -> Path:
    """The configuration with an address: of its last section, which is the collector's."""
    found = folder / "collector.yaml"
    text = config.read_text(encoding="utf-8")
    found.write_text(f'{text.rstrip()}\n  http: "{http}"\n', encoding="utf-8")
    return found
