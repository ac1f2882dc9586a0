"""The processes of the demo: one collector and an agent for every station, as users run them."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "config.yaml"
STATIONS = ROOT / "data" / "beijing-air"
DOORS = ROOT / "data" / "doors"
POLL_SECONDS = 0.2
STOP_SECONDS = 10.0


class DemoFailed(Exception):
    """A process of the demo failed or took too long; the text says which and where its log is."""


def stations() -> list[str]:
    """Names of the bundled stations, which are also the devices' names."""
    return sorted(file.name.removesuffix(".csv.gz") for file in STATIONS.glob("*.csv.gz"))


class LocalFleet:
    """Starts the real programs against a broker, with all their files below `folder`. `http`: where
    the collector answers over HTTP as well, None: nowhere."""

    def __init__(self, broker: str, folder: Path, http: str | None = None) -> None:
        self._folder = folder
        self._environment = {**os.environ, "BROKER": broker, "VAR": str(folder / "var")}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "log").mkdir(parents=True)
        self._collector_config = CONFIG if http is None else _with_http(folder, http)

    def __enter__(self) -> "LocalFleet":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def environment(self, device: str) -> dict[str, str]:
        """The variables that config.yaml asks for, on one device."""
        return {**self._environment, "DEVICE": device, "STATION": device}

    def start_collector(self, deadline: float) -> None:
        """Starts the collector and waits until it listens. Raises DemoFailed."""
        serve = ["-m", "collector", "serve"]
        self._start("collector", serve, self._environment, self._collector_config)
        log = self._log("collector")
        while b"is there" not in log.read_bytes():
            self._check("collector")
            if time.monotonic() > deadline:
                raise DemoFailed(f"the collector found no broker in time; see {log}")
            time.sleep(POLL_SECONDS)

    def start_agent(self, device: str) -> None:
        self._start(device, ["-m", "agent", "run"], self.environment(device))

    def finished(self, devices: Sequence[str]) -> bool:
        """Whether all these agents have ended well. Raises DemoFailed when one has not."""
        self._check("collector")
        ended = [self._check(device) for device in devices]
        return all(ended)

    def collector_command(self, *arguments: str) -> None:
        """Runs one command of the collector to its end. Raises DemoFailed."""
        command = [sys.executable, "-m", "collector", *arguments, "--config", str(CONFIG)]
        done = subprocess.run(
            command, cwd=ROOT, env=self._environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise DemoFailed(done.stderr.strip() or f"{arguments[0]} failed")

    def _start(
        self, name: str, arguments: list[str], environment: dict[str, str], config: Path = CONFIG
    ) -> None:
        command = [sys.executable, *arguments, "--config", str(config)]
        with self._log(name).open("wb") as log:
            self._running[name] = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT
            )

    def _check(self, name: str) -> bool:
        """Whether a process has ended; one that should serve, or that failed, raises DemoFailed."""
        code = self._running[name].poll()
        if code is not None and (code or name == "collector"):
            lines = self._log(name).read_text(errors="replace").splitlines()
            said = lines[-1] if lines else "nothing"
            raise DemoFailed(f"{name} ended with {code}: {said}; see {self._log(name)}")
        return code is not None

    def _log(self, name: str) -> Path:
        return self._folder / "log" / f"{name}.log"


def _with_http(folder: Path, http: str) -> Path:
    """The configuration with an address: of its last section, which is the collector's."""
    found = folder / "collector.yaml"
    text = CONFIG.read_text(encoding="utf-8")
    found.write_text(f'{text.rstrip()}\n  http: "{http}"\n', encoding="utf-8")
    return found
