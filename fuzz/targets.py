"""The table of all targets: everything of the programs that reads bytes from elsewhere.

A target is in the file of what it reads: releases, small messages, the configuration, sensors, a
device's disk, and what people give the collector.
"""

from collections.abc import Mapping

from fuzz import of_collector, of_config, of_disk, of_messages, of_releases, of_sources
from fuzz.seeds import kept
from fuzz.target import Target

TARGETS: Mapping[str, Target] = {
    **of_releases.TARGETS,
    **of_messages.TARGETS,
    **of_config.TARGETS,
    **of_sources.TARGETS,
    **of_disk.TARGETS,
    **of_collector.TARGETS,
}


def starts(name: str) -> list[bytes]:
    """The inputs to start from, those that were kept included."""
    return [*TARGETS[name].seeds(), *(path.read_bytes() for path in kept(name))]
