"""Names that travel: of fleets, devices and streams."""

import re

ID_RULE = "1 to 64 of a-z, 0-9 and -"
_ID = re.compile(r"[a-z0-9-]{1,64}")


def is_id(text: str) -> bool:
    """Whether a text may name a fleet, a device or a stream."""
    return _ID.fullmatch(text) is not None
