"""The table of all targets: everything of the programs that reads bytes from elsewhere.

A target is in the file of what it reads: releases, small messages, the configuration, sensors, a
device's disk, and what people give the collector.
"""

from collections.abc import Mapping

from testbed.fuzz.harness.target import Target, kept
from testbed.fuzz.targets import agent_disk, collector_inputs, messages, releases, sources
from testbed.fuzz.targets import config as of_config

TARGETS: Mapping[str, Target] = {
    **releases.TARGETS,
    **messages.TARGETS,
    **of_config.TARGETS,
    **sources.TARGETS,
    **agent_disk.TARGETS,
    **collector_inputs.TARGETS,
}


def starts(name: str) -> list[bytes]:
    """The inputs to start from, those that were kept included."""
    return [*TARGETS[name].seeds(), *(path.read_bytes() for path in kept(name))]
