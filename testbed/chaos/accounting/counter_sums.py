"""The merged counters of the collector beside the sum of what the devices made, each once."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np

from pansketch import MergeError, Release, Spec, WireError, decode, merge, read_header
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.config.loader import Config, load_collector
from testbed.chaos.accounting.evidence import Evidence
from testbed.chaos.environment.configuration import MASKED


def wrong_sums(folder: Path, evidence: Evidence) -> Iterator[str]:
    """A line for each stream and spec whose merge is not the sum of the bytes that were seen."""
    config = load_collector(folder / "collector.yaml", {})
    specs = {key: s for stream in config.streams for key, s in config.specs(stream).items()}
    made = _made(evidence)
    for stream in config.streams:
        for key in sorted({key for name, key in made if name == stream.name}):
            spec = cast(Spec, specs[key])
            try:
                ours = merge(decode(payload, spec) for payload in made[stream.name, key])
                theirs = merge(_stored(config, stream.name, key, spec))
            except (MergeError, WireError) as error:
                yield f"{stream.name}: the releases do not merge: {error}"
                continue
            if not np.array_equal(ours.counters, theirs.counters):
                yield f"{stream.name}: the merged counters are not the sum of what was made"


def _made(evidence: Evidence) -> dict[tuple[str, bytes], list[bytes]]:
    """The bytes that were seen of every stored release, by stream and spec. Not the masked ones,
    whose sums are in `testbed.chaos.accounting.answers`."""
    found: dict[tuple[str, bytes], list[bytes]] = defaultdict(list)
    for name, seen in {(row.name, row.digest) for row in evidence.stored}:
        payload = evidence.made.get(name, {}).get(seen)
        if payload is not None and name.stream != MASKED:
            found[name.stream, read_header(payload).fingerprint].append(payload)
    return found


def _stored(config: Config, stream: str, fingerprint: bytes, spec: Spec) -> Iterator[Release]:
    with reading(config.collector.database) as reader:
        for stored in reader.releases(Selection(stream), fingerprint):
            yield decode(stored.payload, spec)
