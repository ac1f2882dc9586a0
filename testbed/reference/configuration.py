"""docs/reference: every key of config.yaml, of a firmware profile and of keeper.yaml."""

from collections.abc import Iterator
from inspect import cleandoc
from typing import Any, get_args, get_origin

from pansketch_fleet.settings.profiles import ProfileSection, every
from pansketch_fleet.settings.schema import FileSection
from pansketch_fleet.settings.section import Described, KeyDoc, Section, described
from pansketch_fleet.settings.sketch_schema import SKETCHES, SketchTypeSection
from pansketch_fleet.units import number_text, size_text
from pansketch_keeper.settings import KeeperFileSection

HEAD = """\
<!-- Made from fleet/pansketch_fleet/settings by `python -m testbed.reference`: edit it there. -->
# Configuration

For engineers who write `config.yaml` or a firmware profile. This page lists every key with its
type, its default, its meaning and an example. `config.yaml` in the root of the repository is a
complete example, and [stream settings](streams.md) explains the choices of a stream.

* **One file.** Every device and the collector read the same file. A program refuses an unknown key,
  and names file, line and fix. `pansketch-agent validate` checks the file, and
  `pansketch-agent print-config` prints every value in force.
* **References.** A value may contain `${NAME}`, `${NAME:-default}` and `${file:/path/to/secret}`.
  `$$` is a dollar sign. A program fills in what it uses, and reads no other secret: the agent does
  not need `collector`, the collector no source but its `type` and `interval`, and no `agent`. A
  command that reads the database needs no `mqtt` either, and only `serve` needs `collector.token`.
  One line names all missing references.
* **Paths.** A relative path starts at the folder of the file.
* **Durations** are a number and `ms`, `s`, `m`, `h`, `d` or `w`, such as `30d`. **Sizes** are a
  number and `B`, `KiB`, `MiB` or `GiB`, such as `64KiB`.
* **Names** of fleets, devices and streams are 1 to 64 of a-z, 0-9 and -.
* **Editors.** [config.schema.json](config.schema.json) is the JSON Schema of the file. An editor
  with a YAML language server uses it after this first line:
  `# yaml-language-server: $schema=docs/reference/config.schema.json`. An installation has the
  schema below `share/pansketch`. The file that `pansketch-agent init` writes begins with its path.
"""
KEEPER_HEAD = """\
<!-- Made from keeper/pansketch_keeper/settings.py by `python -m testbed.reference`. -->
# Keeper configuration

For operators of a [keeper](glossary.md#keeper). After this page you can write `keeper.yaml`, of
which `pansketch-keeper init` makes a first one. [Run a keeper](../how-to/run-a-keeper.md) has the
steps.

* A keeper refuses an unknown key, and names file, line and fix. `pansketch-keeper check` reads
  the file.
* **References** such as `${file:/path/to/secret}`, **paths** and **names** are those of
  [config.yaml](configuration.md). No private key is in the file.
* [keeper.schema.json](keeper.schema.json) is the JSON Schema of the file, for editors.
"""
PROFILES = """\
## Firmware profiles

A profile is a file of `firmware_profiles/`, and `agent.profile` names it. The agent refuses streams
that do not fit.

| profile | devices | process memory | sketch memory | readings a second | outbox |
|---|---|---|---|---|---|
"""
WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def page() -> str:
    """The whole page."""
    parts = [HEAD, *_sections(FileSection, "", "both programs", set()), _profiles()]
    return "\n".join(parts)


def keeper_page() -> str:
    """The page of keeper.yaml."""
    return "\n".join([KEEPER_HEAD, *_sections(KeeperFileSection, "", "the keeper", set())])


def _profiles() -> str:
    rows = [
        f"| `{p.name}` | {p.description} | {size_text(p.process_memory_bytes)} "
        f"| {size_text(p.sketch_memory_bytes)} | {number_text(p.readings_per_second)} "
        f"| {size_text(p.outbox_bytes)} |\n"
        for p in every()
    ]
    keys = "\n".join(_sections(ProfileSection, "PROFILE.yaml", "both programs", set()))
    return PROFILES + "".join(rows) + "\n" + keys


def _sections(
    kind: type[Section], path: str, reader: str, done: set[type[Section]], name: str = ""
) -> Iterator[str]:
    """A section and those inside it, each once; `name` distinguishes the kinds of one path."""
    done.add(kind)
    yield _section(kind, path, reader, name)
    for field in described(kind):
        inner = ".".join(part for part in (path, field.name, field.key.named) if part)
        if any(get_origin(each) is list for each in field.kinds):
            inner += "[0]"
        for held in field.key.inner:
            if held not in done:
                who = _reader(field.key) or reader
                yield from _sections(held, inner, who, done, _name(held, field.key))


def _name(kind: type[Section], key: KeyDoc) -> str:
    """The mark of one of several sections of a path: its type, if it has one."""
    sketch = [name for name, each in SKETCHES.items() if each is kind]
    if sketch and SketchTypeSection in key.inner:
        return f"type {sketch[0]}"
    first = described(kind)[0]
    if kind is not SketchTypeSection and first.name == "type":
        return f"type {', '.join(first.key.values)}"
    return "of a key" if len(key.inner) > 1 and kind is key.inner[-1] else ""


def _section(kind: type[Section], path: str, reader: str, name: str) -> str:
    depth = path.replace(".STREAM", "").replace(".ATTRIBUTE", "").replace(".yaml", "").count(".")
    head = f"##{'#' * depth} {_title(path, name)}\n\n{cleandoc(kind.__doc__ or '')}\n\n"
    head += f"Read by {reader}.\n\n"
    rows = "".join(_row(field) for field in described(kind))
    return f"{head}| key | type | default | meaning | example |\n|---|---|---|---|---|\n{rows}"


def _title(path: str, name: str) -> str:
    return (f"`{path}`" if path else "The file") + (f", {name}" if name else "")


def _row(field: Described) -> str:
    key = field.key
    unit = f", {key.unit}" if key.unit else ""
    example = f"`{field.name}: {key.example}`" if key.example else ""
    kinds = " or ".join(_kind(kind, key) for kind in field.kinds)
    return f"| `{field.name}` | {kinds}{unit} | {_default(field)} | {_meaning(key)} | {example} |\n"


def _kind(kind: Any, key: KeyDoc) -> str:
    if kind is str and key.form is not None:
        return key.form
    if kind in WORDS:
        return WORDS[kind]
    inner = get_args(kind)[-1]
    if get_origin(kind) is list:
        if key.holds:
            return "list of sections"
        plural = {str: "texts", float: "numbers", float | str: "numbers and texts"}
        return f"list of {plural.get(inner, 'lists of texts')}"
    if key.named:
        return "section for each name"
    return "section" if key.holds else f"{_kind(inner, key)} for each name"


def _default(field: Described) -> str:
    if field.required:
        return "required"
    if field.default is None:
        return field.key.default
    text = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
    return f"`{text}`" if text else "empty"


def _meaning(key: KeyDoc) -> str:
    parts = [key.meaning]
    if key.values:
        words = [f"`{value}`" for value in key.values]
        parts.append(f"Values: {', '.join(words)}.")
    if bounds := _bounds(key):
        parts.append(f"Range: {bounds}.")
    if key.allowed:
        parts.append(f"Allowed: {key.allowed}.")
    if who := _reader(key):
        parts.append(f"Read by {who}.")
    return " ".join(parts)


def _bounds(key: KeyDoc) -> str:
    low, high = (None if n is None else _number(n) for n in (key.low, key.high))
    if low is not None and high is not None:
        return f"{low} to {high}"
    return f"at least {low}" if low is not None else f"at most {high}" if high is not None else ""


def _number(number: float) -> str:
    """1048576 -> "1,048,576", 1e-06 -> "0.000001"."""
    return f"{number:,.6f}".rstrip("0").rstrip(".")


def _reader(key: KeyDoc) -> str:
    if key.reader is None:
        return ""
    return "both programs" if key.reader == "agent and collector" else f"the {key.reader}"
