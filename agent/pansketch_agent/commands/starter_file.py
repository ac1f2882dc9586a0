"""`pansketch-agent init`: a commented configuration to start from, valid without any edit."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from pansketch_fleet.config.loader import ConfigError, load_agent

SCHEMA = Path("share/pansketch/config.schema.json")
NO_SCHEMA = "config.schema.json"
TEXT = """\
# yaml-language-server: $schema={schema}
# The one file of the fleet: every device and the collector read it. `pansketch-agent validate`
# checks it. A value may be ${{NAME}}, ${{NAME:-default}} or ${{file:/path/to/secret}}.

fleet: {fleet}                      # a-z, 0-9 and -; part of every topic

mqtt:
  url: "{url}"
  # mqtts:// is TLS. Then also, as far as the broker wants them:
  # ca_file: /etc/pansketch/ca.crt
  # username: "${{DEVICE}}"
  # password: "${{file:/etc/pansketch/credentials/password}}"

agent:
  device: "${{DEVICE:-{device}}}"   # unique in the fleet; the variable DEVICE wins
  state: "{state}/${{DEVICE:-{device}}}"   # ledger and outbox
  # profile: pi-zero-2w             # limits of memory and disk (default: generic-linux)

# groups:                           # names for lists of devices
#   upstairs: [attic, "bed-*"]

streams:
  board:                            # this host itself: a stream that works everywhere
    # devices: [upstairs]           # who sends it (default: every device)
    source: {{type: system, interval: 10s}}
    window: 1h                      # one release per window, empty or not
    privacy:
      epsilon: 1.0                  # of each reading; smaller is more private and noisier
    attributes:                     # public bounds, not learned from data; beyond them is clipped
      load1: {{low: 0, high: 16, scale: log}}
      memory_percent: {{low: 0, high: 100, unit: "%"}}
  # room:                           # a sensor; `pansketch-agent sources` lists those of this host
  #   source: {{type: iio, sensors: {{temp: bme280/temp}}, interval: 10s}}
  #   window: 1h
  #   privacy: {{epsilon: 1.0}}
  #   attributes: {{temp: {{low: -20, high: 50, unit: degC, step: 0.1}}}}

# devices:                          # what one device has otherwise than the others
#   attic:
#     profile: pi-zero-2w
#     streams: {{board: {{source: {{type: system, interval: 1m}}}}}}

collector:
  database: var/collector.sqlite
  # http: 127.0.0.1:8080            # the dashboard
"""


def write_starter(
    path: Path, fleet: str, device: str, url: str, state: str, environ: Mapping[str, str]
) -> str:
    """Write the file and return the next step.

    Raises:
        ConfigError: the file exists, cannot be written, or one of the values is refused.
    """
    schema = Path(sys.prefix) / SCHEMA
    text = TEXT.format(
        schema=schema if schema.is_file() else NO_SCHEMA,
        fleet=fleet,
        device=device,
        url=_quoted(url),
        state=_quoted(state),
    )
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        problem = "is there already; name another file with --config"
        raise ConfigError(str(path), 0, "", problem) from None
    except OSError as error:
        problem = f"cannot be written: {error.strerror}; name another file with --config"
        raise ConfigError(str(path), 0, "", problem) from None
    try:
        load_agent(path, environ)
    except BaseException:
        path.unlink()
        raise
    return f"{path}: written; next: edit it, then pansketch-agent validate --config {path}"


def own_name() -> str:
    """Return this host's short name as a device name."""
    name = re.sub(r"[^a-z0-9-]", "-", os.uname().nodename.partition(".")[0].lower())[:64]
    return name.strip("-") or "device-1"


def _quoted(text: str) -> str:
    """Escape a text for double quotes of YAML."""
    return text.replace("\\", "\\\\").replace('"', '\\"')
