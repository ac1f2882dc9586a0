"""Omissions in the docstring of a public name: parameters, results, and exceptions that escape.

The exceptions are read off the syntax tree. They are those of `raise` statements of a function, of
the functions and methods that it calls by name, and of private properties. An `except` around them
may catch them. Calls through other objects are not followed, so a docstring may name more than is
found here.
"""

import ast
import builtins
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from typing import Any

Exceptions = set[type[BaseException]]
OURS = ("pansketch", "tests")
HEADING = re.compile(r"(Args|Attributes|Returns|Raises):")
# The contract of one name may stand in another one's docstring.
REFERENCE = re.compile(r"[Ss]ee `([\w.]+)`")


def sections(doc: str | None) -> dict[str, set[str]]:
    """The names that each section of a Google docstring describes."""
    found: dict[str, set[str]] = {}
    entries: set[str] = set()
    for line in inspect.cleandoc(doc or "").splitlines():
        if heading := HEADING.fullmatch(line):
            entries = found.setdefault(heading[1], set())
        elif line and not line.startswith(" "):
            entries = set()
        elif entry := re.match(r" {4}(\w+):", line):
            entries.add(entry[1])
    return found


def contract(found: Any, names: dict[str, Any]) -> dict[str, set[str]]:
    """The sections of a docstring and of those that it refers to; `names` are the public ones."""
    whole = sections(found.__doc__)
    for name in REFERENCE.findall(found.__doc__ or ""):
        first, *path = name.split(".")
        other = names.get(first)
        for part in path:
            other = inspect.getattr_static(other, part, None)
        for title, entries in sections(getattr(other, "__doc__", None)).items():
            whole[title] = whole.get(title, set()) | entries
    return whole


def gaps(found: Any, names: dict[str, Any]) -> Iterator[str]:
    """Omissions in a class or function, and in the public methods of a class."""
    documented = contract(found, names)
    described = documented.get("Args", set()) | documented.get("Attributes", set())
    yield from (f"argument {name}" for name in parameters(found) if name not in described)
    if not inspect.isclass(found):
        yield from _result(found, documented)
        yield from _unnamed(escaping(found), documented)
        return
    for name in ("__init__", "__post_init__"):
        if made := written(inspect.getattr_static(found, name, None)):
            yield from _unnamed(escaping(made, found), documented)
    for name, member in vars(found).items():
        if not name.startswith("_") and (method := written(member)):
            missing = _unnamed(escaping(method, found), contract(method, names))
            yield from (f"{name}: {each}" for each in missing)


def _result(function: Any, documented: dict[str, set[str]]) -> Iterator[str]:
    """A summary that begins with "Return" describes the result."""
    none = inspect.signature(function).return_annotation in (None, inspect.Signature.empty)
    if (
        not none
        and "Returns" not in documented
        and not (function.__doc__ or "").startswith("Return ")
    ):
        yield "result"


def _unnamed(raised: Exceptions, documented: dict[str, set[str]]) -> Iterator[str]:
    return (
        f"raises {each.__name__}"
        for each in raised
        if each.__name__ not in documented.get("Raises", ())
    )


def parameters(found: Any) -> list[str]:
    """Of a function, or of the constructor of a class that has one of its own."""
    inherited = inspect.isclass(found) and issubclass(found, BaseException)
    if getattr(found, "_is_protocol", False) or (inherited and "__init__" not in vars(found)):
        return []
    return [name for name in inspect.signature(found).parameters if name not in ("self", "cls")]


def written(member: Any) -> Any:
    """The function of a method, property or cached function whose source is ours, or None."""
    if isinstance(member, property):
        member = member.fget
    elif isinstance(member, cached_property):
        member = member.func
    elif isinstance(member, classmethod | staticmethod):
        member = member.__func__
    member = inspect.unwrap(member) if callable(member) else None
    ours = inspect.isfunction(member) and (member.__module__ or "").split(".")[0] in OURS
    # A dataclass compiles its constructor from text; the default of a field may be a lambda.
    generated = ours and ("<string>" in member.__code__.co_filename or "<" in member.__name__)
    return member if ours and not generated else None


def escaping(
    function: Any, owner: type | None = None, seen: frozenset[Any] = frozenset()
) -> Exceptions:
    """The exceptions that leave a function, as far as its names tell."""
    if (function, owner) in seen:
        return set()
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return _Walk(function, owner, seen | {(function, owner)}).all_of(tree.body)


class _Walk:
    def __init__(self, function: Any, owner: type | None, seen: frozenset[Any]) -> None:
        self._names = vars(builtins) | function.__globals__
        self._types = function.__annotations__
        self._owner, self._seen = owner, seen

    def all_of(self, nodes: list[Any]) -> Exceptions:
        return set().union(*map(self._of, nodes))

    def _of(self, node: ast.AST) -> Exceptions:
        if isinstance(node, ast.Try):
            caught = tuple(each for handler in node.handlers for each in self._caught(handler))
            tried = {each for each in self.all_of(node.body) if not issubclass(each, caught)}
            rest = [line for handler in node.handlers for line in handler.body]
            return tried | self.all_of(rest + node.orelse + node.finalbody)
        found = self.all_of(list(ast.iter_child_nodes(node)))
        if isinstance(node, ast.Raise) and node.exc is not None:
            made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            kind = self._names.get(made.id) if isinstance(made, ast.Name) else None
            return found | ({kind} if inspect.isclass(kind) else set())
        if isinstance(node, ast.Call):
            return found | self._through(node.func)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            return found | self._through(node)
        return found

    def _caught(self, handler: ast.ExceptHandler) -> list[type[BaseException]]:
        if handler.type is None:
            return [BaseException]
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        return [self._names[each.id] for each in kinds if isinstance(each, ast.Name)]

    def _through(self, called: ast.AST) -> Exceptions:
        owner = None
        target = self._names.get(called.id) if isinstance(called, ast.Name) else None
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            name = called.value.id
            owner = self._owner if name in ("self", "cls") else self._types.get(name)
            target = (
                inspect.getattr_static(owner, called.attr, None) if inspect.isclass(owner) else None
            )
        function = None if inspect.isclass(target) else written(target)
        return escaping(function, owner, self._seen) if function else set()
