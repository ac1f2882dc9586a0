"""A configuration: its text, and its plain values with their file, line and origin."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

import yaml

from pansketch_fleet.errors import ConfigError
from pansketch_fleet.yaml.interpolation import InterpolatedValue
from pansketch_fleet.yaml.parser import compose, is_core, kind_of, scalar

MAX_FILE_BYTES = 1 << 20
MAX_CHARACTERS = 4096  # of one value
MAX_FILES = 100  # of a folder
SUFFIX = ".yaml"
KeyPath = tuple[str | int, ...]
Fill = Callable[[KeyPath, str], InterpolatedValue | None]
Texts = tuple[tuple[str, ...], ...]


def read_text(path: Path) -> str:
    """Read a configuration file. Raises ConfigError if it is missing, too large or not UTF-8."""
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


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder that are one configuration, by name.

    Raises ConfigError: there are none, or too many, or the folder cannot be read.
    """
    try:
        names = [each for each in folder.iterdir() if not each.name.startswith(".")]
    except OSError as error:
        problem = f"cannot be read: {error.strerror}; name a readable folder or file"
        raise ConfigError(str(folder), 0, "", problem) from None
    found = sorted(each for each in names if each.suffix == SUFFIX)
    if other := min((each for each in names if each.suffix == ".yml"), default=None):
        problem = f"is not read; rename it to {other.stem}{SUFFIX}, or to .{other.name}"
        raise ConfigError(str(other), 0, "", problem)
    if not found:
        raise ConfigError(str(folder), 0, "", f"has no file *{SUFFIX}; write one, or name a file")
    if len(found) > MAX_FILES:
        problem = f"has {len(found)} files *{SUFFIX}, above {MAX_FILES}; remove those not in use"
        raise ConfigError(str(folder), 0, "", problem)
    return found


def is_file(path: Path) -> bool:
    """Return whether a file exists; also for names that no file system allows, and in closed
    folders.
    """
    try:
        return path.is_file()
    except OSError:
        return False


@dataclass(frozen=True)
class Entry:
    """The line of one key, and the origin of an interpolated value.

    `path`: in the file, if the document has it at another path. `file`: which one of a folder, if
    it is not the document's.
    """

    line: int
    origins: tuple[str, ...] = ()
    secret: bool = False
    path: str = ""
    file: str = ""


@dataclass(frozen=True, repr=False)
class Document:
    """Plain values of a file or a folder, with the entry of every key by its dotted path.

    `value` may contain secrets, so the representation omits it. `unfilled`: why a reference was not
    resolved, by the path of its value; empty if the program does not use it.
    """

    file: str
    value: Any
    entries: Mapping[str, Entry] = field(default_factory=dict)
    unfilled: Mapping[str, str] = field(default_factory=dict)

    def entry(self, where: str) -> Entry:
        """Return the entry of a path, or of the nearest key around it in the file."""
        return self.entries.get(self._nearest(where), Entry(1))

    def _nearest(self, where: str) -> str:
        while where and where not in self.entries:
            where = where[: max(where.rfind("."), where.rfind("["), 0)]
        return where

    def at(self, where: str) -> tuple[str, int]:
        """Return file and line of a path, or of the nearest key around it."""
        entry = self.entry(where)
        return entry.file or self.file, entry.line

    def error(self, where: str, problem: str) -> ConfigError:
        """Return a ConfigError at a path; `problem` reads `problem; fix`."""
        entry, known = self.entry(where), self._nearest(where)
        shown = entry.path + where[len(known) :] if entry.path else where
        if where == known and entry.origins:
            problem = f"{problem} (the value is of {', '.join(entry.origins)})"
        return ConfigError(entry.file or self.file, entry.line, shown, problem)

    def moved(self, origin: str, target: str) -> "Document":
        """Return a document with the keys at `origin` also at `target`, instead of those there."""
        entries = {k: entry for k, entry in self.entries.items() if not _within(k, target)}
        for path, entry in self.entries.items():
            if _within(path, origin):
                entries[target + path[len(origin) :]] = replace(entry, path=entry.path or path)
        return replace(self, entries=entries)

    def demand(self, used: Callable[[str], bool] = lambda where: True) -> None:
        """Refuse unresolved references, at paths that are `used`.

        Raises ConfigError at the first one; its text names the others.
        """
        found = [where for where, problem in self.unfilled.items() if problem and used(where)]
        if not found:
            return
        first, *others = found
        problem = self.unfilled[first]
        if others:
            names = (f"{where} ({self._place(where)})" for where in others)
            problem += f"; the same is wrong with {', '.join(names)}"
        raise self.error(first, problem)

    def _place(self, where: str) -> str:
        entry = self.entry(where)
        return f"{entry.file}:{entry.line}" if entry.file else f"line {entry.line}"


def read(path: Path, fill: Fill, texts: Texts) -> Document:
    """Return the document of a file, or of a folder's files: their sections are joined.

    For `fill`, `texts` and further errors see `parse`. Raises ConfigError if a file cannot be read,
    and if two files state one value.
    """
    if not path.is_dir():
        return parse(read_text(path), str(path), fill, texts)
    whole = Document(str(path), None, {"": Entry(0)})
    for file in files_of(path):
        each = parse(read_text(file), str(file), fill, texts)
        if not isinstance(each.value, dict | None):
            raise each.error("", "is not a mapping; write sections such as streams:")
        entries = {where: replace(entry, file=each.file) for where, entry in each.entries.items()}
        each = replace(each, entries=entries)
        for where in each.unfilled:
            _refuse_second(whole, each, where)
        value = _joined(whole, each, whole.value, each.value, "")
        unfilled = {**whole.unfilled, **each.unfilled}
        whole = Document(str(path), value, {**entries, **whole.entries}, unfilled)
    return whole


def _joined(before: Document, after: Document, one: Any, other: Any, where: str) -> Any:
    if one is None or other is None:
        return other if one is None else one
    if not (isinstance(one, dict) and isinstance(other, dict)):
        _refuse_second(before, after, where)
    found = dict(one)
    for key, value in other.items():
        path = f"{where}.{key}".removeprefix(".")
        if path in before.unfilled:
            _refuse_second(before, after, path)
        found[key] = _joined(before, after, found.get(key), value, path)
    return found


def _refuse_second(before: Document, after: Document, where: str) -> None:
    if where in before.entries:
        file, line = before.at(where)
        raise after.error(where, f"is repeated, first in {file}:{line}; keep one of them")


def parse(text: str, file: str, fill: Fill, texts: Texts) -> Document:
    """Parse a document. Values at paths that match `texts` ("*": any key) stay as written.

    If `fill` refuses a reference, or returns None, a text stays as written, and any other value is
    omitted. `Document.demand` refuses the former. Raises ConfigError on broken YAML and on a
    repeated key.
    """
    walk = _Walk(file, fill, texts, {}, {})
    node = compose(text, file)
    value = walk.value(node, (), 1) if node else None
    return Document(file, value, walk.entries, walk.unfilled)


def dotted(path: KeyPath) -> str:
    """`("streams", "air", "views", 0)` -> `streams.air.views[0]`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part[:80]}" for part in path)
    return "".join(parts).removeprefix(".")


def _within(where: str, section: str) -> bool:
    return where == section or where.startswith((f"{section}.", f"{section}["))


_LEFT_OUT = object()


@dataclass(frozen=True, repr=False)
class _Walk:
    file: str
    fill: Fill
    texts: Texts
    entries: dict[str, Entry]
    unfilled: dict[str, str]

    def value(self, node: yaml.Node, path: KeyPath, line: int) -> Any:
        self.entries[dotted(path)] = Entry(line)
        if not is_core(node):
            problem = "has a tag of its own (!); remove the tag, or quote the text"
            raise ConfigError(self.file, line, dotted(path), problem)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            items = enumerate(node.value)
            return [self.value(item, (*path, i), item.start_mark.line + 1) for i, item in items]
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node, path, line)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, child in node.value:
            line = key.start_mark.line + 1
            name = self._key(key, path, line)
            if name in found:
                problem = f"is repeated, first on line {lines[name]}; keep one of them"
                raise ConfigError(self.file, line, dotted((*path, name)), problem)
            lines[name] = line
            value = self.value(child, (*path, name), line)
            if value is not _LEFT_OUT:
                found[name] = value
        return found

    def _key(self, key: yaml.Node, path: KeyPath, line: int) -> str:
        usable = isinstance(key, yaml.ScalarNode) and key.value and key.value.isprintable()
        if not usable:
            raise ConfigError(self.file, line, dotted(path), "has a key that is no name; name it")
        return str(key.value)

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath, line: int) -> Any:
        where = dotted(path)
        try:
            filled = self.fill(path, node.value)
        except ValueError as error:
            filled, self.unfilled[where] = None, str(error)
        if filled is None:
            self.unfilled.setdefault(where, "")
            return node.value if self._is_text(path) else _LEFT_OUT
        self.entries[where] = Entry(line, filled.origins, filled.secret)
        if not filled.text.isprintable() or len(filled.text) > MAX_CHARACTERS:
            problem = "holds a line break, a control character or too much text; shorten it"
            raise ConfigError(self.file, line, where, problem)
        kind = kind_of(node, filled.text)
        if self._is_text(path):
            return filled.text or (None if kind == "null" else "")
        try:
            value = scalar(kind, filled.text)
        except ValueError:
            raise ConfigError(
                self.file, line, where, "is no number; write a plain number"
            ) from None
        if isinstance(value, float) and not isfinite(value):
            raise ConfigError(self.file, line, where, "is not finite; write a finite number")
        return value

    def _is_text(self, path: KeyPath) -> bool:
        return any(
            len(path) == len(pattern)
            and all(wanted in ("*", part) for wanted, part in zip(pattern, path, strict=True))
            for pattern in self.texts
        )
