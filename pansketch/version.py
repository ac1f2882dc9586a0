"""Which code this is: the version, and a digest of the sources.

An audit reports the code that it tested, and a program the code that it runs.
"""

import hashlib
from pathlib import Path

__all__ = ["code_version", "sources_digest"]

__version__ = "0.1.0"  # packaging reads this literal, without an import


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
