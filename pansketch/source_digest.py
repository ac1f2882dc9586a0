"""Which code it was: what an audit has tested, and what a program runs."""

import hashlib
from pathlib import Path

from pansketch.version import __version__

__all__ = ["code_version", "sources_digest"]


def sources_digest() -> str:
    """BLAKE2b-64 of the library's sources, names and contents.

    Returns:
        16 hexadecimal digits.
    """
    root = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def code_version() -> str:
    """The version and the digest, for people.

    Returns:
        "pansketch VERSION, sources DIGEST".
    """
    return f"pansketch {__version__}, sources {sources_digest()}"
