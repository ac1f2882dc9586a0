"""How much of a profile's memory a planned sketch may take."""

from fleet.document import Document
from fleet.profiles import Profile
from fleet.quantities import size_bytes

# What one stream may take of a profile's sketch memory does not depend on the other streams: adding
# one must not change the sketch of another, whose releases would no longer add up with older ones.
VIEWS_PART = 2
HIERARCHY_PART = 4


def share_of(profile: Profile, part: int, stated: int | None) -> int:
    """Bytes: what is stated, or one `part`-th of the profile's sketch memory."""
    return profile.sketch_memory_bytes // part if stated is None else stated


def read_memory(document: Document, where: str, text: str | None) -> int | None:
    """A stated `memory:`. Raises ConfigError."""
    if text is None:
        return None
    try:
        size = size_bytes(text)
    except ValueError as error:
        raise document.error(where, str(error)) from None
    if size < 1:
        raise document.error(where, "is nothing; write a positive size, such as 16KiB")
    return size
