"""YAML text to a tree of nodes, by the YAML 1.2 core schema: NO is a text, 1:30 is no number.

It refuses broken YAML, several documents, anchors and aliases, and deep nesting, with their line.
"""

import re

import yaml

from pansketch_fleet.errors import ConfigError

MAX_NESTING = 20
_TAG = "tag:yaml.org,2002:"
_CORE = {_TAG + kind for kind in ("map", "seq", "str", "null", "bool", "int", "float")}


class _Loader(yaml.SafeLoader):
    """PyYAML's parser with the resolvers of YAML 1.2's core schema instead of YAML 1.1's."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own name and place for them
    nesting = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _refusal(
                "uses an anchor or alias (& or *)", "write the value out", event.start_mark
            )
        if self.nesting > MAX_NESTING:
            raise _refusal("is nested too deeply", "compare with the example", event.start_mark)
        self.nesting += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self.nesting -= 1
        return node


def _refusal(problem: str, fix: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=f"{problem}; {fix}", problem_mark=mark)


for _kind, _pattern, _starts in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
):
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(rf"(?:{_pattern})\Z"), _starts)


# YAML and editors disagree whether these end a line, so line numbers would differ.
_ODD_LINE_END = re.compile("\r(?!\n)|[\x85\u2028\u2029]")


def compose(text: str, file: str) -> yaml.Node | None:
    """Parse one document to a tree, None for an empty one. Raises ConfigError."""
    if odd := _ODD_LINE_END.search(text):
        problem = "holds an unusual line end; save the file with ordinary line ends"
        raise ConfigError(file, text.count("\n", 0, odd.start()) + 1, "", problem)
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, max(error.position, 0)) + 1
        problem = "holds a character that YAML does not allow; remove it"
        raise ConfigError(file, line, "", problem) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        problem = reason if ";" in reason else f"broken YAML: {reason}; {_fix(reason)}"
        raise ConfigError(file, mark.line + 1 if mark else 1, "", problem) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        problem = f"broken YAML: {error}; check quotes and escapes"
        raise ConfigError(file, 1, "", problem) from None


def _fix(reason: str) -> str:
    """Return how to mend what PyYAML's reason states."""
    if r"'\t' that cannot start any token" in reason:
        return "indent with spaces instead of tabs"
    if "that cannot start any token" in reason:
        return "put the text in quotes"
    return "check indents and brackets"


def is_core(node: yaml.Node) -> bool:
    """Return whether a node is of the core schema, without a tag of its own."""
    return node.tag in _CORE


def scalar(kind: str, text: str) -> bool | int | float | str | None:
    """Convert a scalar of a core-schema kind ("int", "null", ...) to a value. Raises ValueError."""
    match kind:
        case "null":
            return None
        case "bool":
            return text in ("true", "True", "TRUE")
        case "int":
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text, 10)
        case "float":
            return float(re.sub(r"\.(inf|nan)\Z", r"\1", text.lower()))
    return text


def kind_of(node: yaml.ScalarNode, text: str) -> str:
    """Return the kind of a scalar: by its tag, or by `text` if a reference was resolved."""
    tag: str = node.tag
    if text != node.value:
        tag = _resolve(text)
    return tag.removeprefix(_TAG)


def _resolve(text: str) -> str:
    candidates = _Loader.yaml_implicit_resolvers.get(text[:1], [])
    return next((tag for tag, pattern in candidates if pattern.match(text)), f"{_TAG}str")
