"""`${NAME}`, `${NAME:-default}` and `${file:/path}` inside the values of a configuration.

The path of a file may itself begin with a variable: `${file:${CREDENTIALS_DIRECTORY}/password}`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pansketch_fleet.systemd import missing_credential

MAX_SECRET_BYTES = 65536

# "$$" is one dollar sign; any other "${" must be a complete reference.
_REFERENCE = re.compile(
    r"\$\$|\$\{(?:file:(?P<file>(?:\$\{[A-Za-z_][A-Za-z0-9_]*(?::-[^}$]*)?\})?[^}$]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}$]*))?)\}"
    r"|(?P<broken>\$\{)",
    re.DOTALL,
)


@dataclass(frozen=True)
class InterpolatedValue:
    """A value without references; `origins`: their sources, `secret`: one was a file."""

    text: str
    origins: tuple[str, ...] = ()
    secret: bool = False


def has_reference(text: str) -> bool:
    """Return whether interpolation changes a value."""
    return "${" in text or "$$" in text


def fill(text: str, environ: Mapping[str, str], folder: Path) -> InterpolatedValue:
    """Replace every reference in a value; relative file names are relative to `folder`.

    Raises ValueError, one line `problem; fix`, that never contains the content of a file.
    """
    origins: list[str] = []

    def replacement(match: re.Match[str]) -> str:
        if match["broken"]:
            raise ValueError(
                "holds a ${ that begins no reference; "
                "write ${NAME}, ${NAME:-default} or ${file:/path}, and $$ for a dollar sign"
            )
        if match["file"]:
            file = _REFERENCE.sub(replacement, match["file"])
            origins.append(f"file {file}")
            return _file_text(folder / file)
        if match["name"]:
            return _variable(match["name"], match["default"], environ, origins)
        return "$"

    filled = _REFERENCE.sub(replacement, text)
    return InterpolatedValue(
        filled, tuple(origins), any(origin.startswith("file ") for origin in origins)
    )


def _variable(
    name: str, default: str | None, environ: Mapping[str, str], origins: list[str]
) -> str:
    value = environ.get(name, "")
    if value:
        origins.append(f"environment {name}")
        return value
    if default is None:
        raise ValueError(
            f"the environment variable {name} is not set, or empty; "
            f"set {name}, or write a default as ${{{name}:-value}}"
        )
    return default


def _file_text(path: Path) -> str:
    fix = "put the secret there as one short UTF-8 text, readable by this user"
    try:
        if not path.is_file():
            raise ValueError(f"there is no file {path}; {fix}")
        with path.open("rb") as file:
            data = file.read(MAX_SECRET_BYTES + 1)
        if len(data) > MAX_SECRET_BYTES:
            raise ValueError(f"the file {path} is too large; {fix}")
        if problem := missing_credential(path, data):
            raise ValueError(problem)
        return data.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(f"the file {path} is not UTF-8 text; {fix}") from None
    except OSError as error:
        raise ValueError(f"the file {path} cannot be read: {error.strerror}; {fix}") from None
