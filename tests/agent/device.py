"""A device: its folder, its configuration, and its agent in a process of its own."""

import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pansketch_agent.commands.list_outbox import releases_in
from pansketch_agent.outbox.records import Key
from pansketch_fleet.config.loader import Config, ConfigError, load_agent
from testbed.program import Program

CONFIG = """\
fleet: testing
mqtt: {{url: "{url}"}}
agent: {{device: dev-1, profile: pi-zero-2w}}
streams:
  air:
    source: {source}
    window: {window}
    expect: {expect}
    privacy: {privacy}
    attributes:
      temp: {{low: -40, high: 60, unit: degC}}
      wind: {{categories: [calm, N, NO]}}
    sketch: {{depth: 4, k: 4, width: 8, rows: 1, fanout: 2}}
"""
HOURLY = """\
time,temp,wind
2024-01-01T00:30:00Z,11.5,N
2024-01-01T01:30:00Z,12.5,calm
2024-01-01T04:30:00Z,13.5,NO
"""


@dataclass
class Device:
    """One device's folder, its configuration and its program."""

    folder: Path
    started: list[Program] = field(default_factory=list)

    @property
    def config(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def state(self) -> Path:
        return self.folder / "var/agent/dev-1"

    def line_of(self, text: str) -> int:
        """The line of the configuration, from 1, that has the text first."""
        lines = self.config.read_text().splitlines()
        return next(n for n, line in enumerate(lines, 1) if text in line)

    def configure(
        self,
        url: str = "mqtt://127.0.0.1:1",
        source: str = "{type: replay, path: rows.csv}",
        window: str = "1h",
        rows: str = HOURLY,
        privacy: str = "{epsilon: 1.0, unit: reading, intrusion: silent}",
        expect: str = "{}",
    ) -> Config:
        (self.folder / "rows.csv").write_text(rows)
        settings = {"url": url, "source": source, "window": window, "privacy": privacy}
        self.config.write_text(CONFIG.format(**settings, expect=expect))
        return load_agent(self.config, {})

    def configure_blinded(
        self, keys: Iterable[bytes], more: str = "", epsilon: float = 1.0, **settings: str
    ) -> Config:
        """`configure` with a blinded stream. `keys`: of the keepers; `more`: of its privacy."""
        privacy = f"{{epsilon: {epsilon}, aggregation: blinded{more}}}"
        with suppress(ConfigError):  # It lacks the keepers.
            self.configure(privacy=privacy, **settings)
        names = [f"  keeper-{n}: {{key: {key.hex()}}}\n" for n, key in enumerate(keys)]
        self.config.write_text(self.config.read_text() + "keepers:\n" + "".join(names))
        return load_agent(self.config, {})

    def start(
        self,
        *arguments: str,
        program: tuple[str, ...] = ("-m", "pansketch_agent"),
        stdin: int = subprocess.PIPE,
    ) -> Program:
        started = Program(
            [sys.executable, *program, *arguments, "--config", str(self.config)],
            self.folder / f"log-{len(self.started)}",
            folder=self.folder,
            stdin=stdin,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.started.append(started)
        return started

    def outbox(self) -> list[str]:
        """The queued releases, by names: SEQUENCE.STREAM.release."""
        return sorted(key.filename for key in self.releases())

    def releases(self) -> dict[Key, bytes]:
        """The queued releases on disk."""
        return dict(releases_in(self.state / "outbox"))

    def ledger(self) -> list[list[str]]:
        """The debits: [sequence, stream, start, end, micro-epsilon]."""
        lines = (self.state / "ledger").read_text().splitlines()
        return [line.split()[1:6] for line in lines if line.startswith("debit")]
