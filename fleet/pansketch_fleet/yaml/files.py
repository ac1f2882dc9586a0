"""Files that a configuration is, or names."""

from pathlib import Path

from pansketch_fleet.errors import ConfigError

MAX_FILE_BYTES = 1 << 20


def read_text(path: Path) -> str:
    """The text of a configuration file. Raises ConfigError: there is none, it is not UTF-8."""
    file = str(path)
    try:
        with path.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(file, 0, "", "is larger than 1 MiB; name a configuration file")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(file, line, "", "is not UTF-8 text; save the file as UTF-8") from None
    except FileNotFoundError:
        problem = "does not exist; write it, or name another file with --config"
        raise ConfigError(file, 0, "", problem) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no file has such a name"
        problem = f"cannot be read: {reason}; name a readable file with --config"
        raise ConfigError(file, 0, "", problem) from None


def is_file(path: Path) -> bool:
    """Whether a file is there; also of names that no file system takes, and in shut folders."""
    try:
        return path.is_file()
    except OSError:
        return False
