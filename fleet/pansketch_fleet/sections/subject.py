"""The subject of a stream: readings with `attributes:`, or events with a `key:`."""

from pansketch import Domain
from pansketch_fleet.sections.attributes import MAX_NAME, read_domain
from pansketch_fleet.settings.section import join
from pansketch_fleet.settings.sources import (
    PolledSource,
    Source,
    kind_of,
)
from pansketch_fleet.settings.stream_schema import StreamSection
from pansketch_fleet.yaml.document import Document

TIME = "time"


def read_subject(document: Document, where: str, stream: StreamSection) -> Domain | str:
    """Return the domain of the readings, or the name of the key. Raises ConfigError."""
    if stream.key is None:
        if stream.attributes is None:
            fix = "add attributes (readings), or key (whose different values are counted)"
            raise document.error(where, f"has neither attributes nor a key; {fix}")
        return read_domain(document, where, stream.attributes, stream.views)
    if stream.attributes is not None:
        problem = "does not go with attributes; give the key a stream of its own"
        raise document.error(join(where, "key"), problem)
    if stream.views is not None:
        raise document.error(join(where, "views"), "does not go with a key; remove it")
    return _key(document, where, stream.key)


def _key(document: Document, where: str, name: str) -> str:
    place = join(where, "key")
    if not name or len(name) > MAX_NAME:
        problem = f"is no name; write 1 to {MAX_NAME} characters, such as badge_id"
        raise document.error(place, problem)
    if name == TIME:
        problem = "'time' is when an event was; name what holds its key"
        raise document.error(place, problem)
    return name


def check_key(document: Document, where: str, source: Source) -> None:
    """Raise ConfigError for a stream of keys with a source that has none."""
    if isinstance(source, PolledSource):
        kind = kind_of(source)
        fix = "use replay, stdin, exec, mqtt or http"
        problem = f"is {kind}, and sensors bear no keys; {fix}"
        raise document.error(join(where, "type"), problem)
