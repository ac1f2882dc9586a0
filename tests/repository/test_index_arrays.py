"""Arrays that NumPy indexes with or repeats by have the size of a pointer (`np.intp`).

Arrays of 64-bit integers work on 64-bit machines alone. The test finds them in the source, by the
annotations and calls of each function. `make test-32bit` runs the tests on a 32-bit system; this
test finds the same mistake without one.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pansketch", "fleet", "agent", "collector", "audit", "cli", "keeper")
WIDE = {"int64", "uint64", "longlong", "ulonglong"}
# Which argument holds indices or counts, by the function's last name.
INDEXING = {
    "repeat": 1,
    "bincount": 0,
    "take": 1,
    "take_along_axis": 1,
    "put": 1,
    "put_along_axis": 1,
    "at": 1,
    "reduceat": 1,
    "ravel_multi_index": 0,
    "unravel_index": 0,
}
OF_ARRAYS = {"take", "repeat", "put"}  # also methods, whose indices come first
NARROW = {"argsort", "searchsorted", "flatnonzero", "nonzero", "argmax", "len", "int"}
NARROW |= {"as_indices", "table"}  # ours


class Module:
    """The names of a module that stand for arrays, and whether their integers are wide."""

    def __init__(self, source: str, outside: dict[str, bool]) -> None:
        self.tree = ast.parse(source)
        self.names = {
            alias.asname or alias.name: outside.get(alias.name, False)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.names[node.targets[0].id] = self.is_wide(node.value, {})

    def is_wide(self, found: ast.AST | None, local: dict[str, list[ast.AST]]) -> bool:
        """True if an expression or annotation has 64-bit integers, through names of a function."""
        if found is None:
            return False
        if isinstance(found, ast.Call):
            name = last_name(found.func)
            if name in NARROW:
                return False
            if name in ("astype", "view"):
                return any(self.is_wide(each, local) for each in found.args)
        if isinstance(found, ast.Compare):
            return False
        if isinstance(found, ast.Attribute) and found.attr in WIDE:
            return True
        if isinstance(found, ast.Name):
            known = local.get(found.id)
            if known is None:
                return self.names.get(found.id, False)
            local[found.id] = []  # Ends the recursion of a name that its own value uses.
            wide = any(self.is_wide(each, local) for each in known)
            local[found.id] = [ast.Attribute(ast.Name("np"), "int64")] if wide else []
            return wide
        if isinstance(found, ast.Subscript) and not self.is_wide(found.value, local):
            return self.is_wide(found.slice, local) if in_annotation(found) else False
        return any(self.is_wide(each, local) for each in ast.iter_child_nodes(found))

    def mistakes(self) -> Iterator[tuple[int, str]]:
        for function in ast.walk(self.tree):
            if isinstance(function, ast.FunctionDef):
                local = locals_of(function)
                for call in ast.walk(function):
                    if isinstance(call, ast.Call):
                        for argument in indices_of(call):
                            if self.is_wide(argument, local):
                                yield call.lineno, ast.unparse(call)


def in_annotation(found: ast.Subscript) -> bool:
    return last_name(found.value) in ("NDArray", "ndarray", "dtype", "tuple", "Sequence", "list")


def last_name(found: ast.AST) -> str:
    return getattr(found, "attr", getattr(found, "id", ""))


def locals_of(function: ast.FunctionDef) -> dict[str, list[ast.AST]]:
    """By name, the annotation of a parameter and everything that is assigned to it."""
    found: dict[str, list[ast.AST]] = {}
    arguments = function.args
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        found[each.arg] = [each.annotation] if each.annotation is not None else []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=False))
                for name, value in pairs:
                    if isinstance(name, ast.Name):
                        found.setdefault(name.id, []).append(value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.setdefault(node.target.id, []).append(node.annotation)
    return found


def indices_of(call: ast.Call) -> list[ast.AST]:
    name = last_name(call.func)
    if name not in INDEXING or not isinstance(call.func, ast.Attribute):
        return []
    of_numpy = last_name(call.func.value) == "np" or isinstance(call.func.value, ast.Attribute)
    place = INDEXING[name] if of_numpy or name not in OF_ARRAYS else 0
    named = [each.value for each in call.keywords if each.arg in ("indices", "repeats")]
    return [*call.args[place : place + 1], *named]


@cache
def aliases() -> dict[str, bool]:
    """Names of types of arrays that modules give each other; where two differ, neither counts."""
    found: dict[str, set[bool]] = {}
    for file in files():
        for name, wide in Module(file.read_text(), {}).names.items():
            if name[:1].isupper() and name.lower() != name:
                found.setdefault(name, set()).add(wide)
    return {name: True in wide and name != "Counters" for name, wide in found.items()}


def files() -> list[Path]:
    return [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]


@pytest.mark.parametrize("package", PACKAGES)
def test_indices_and_counts_have_the_size_of_a_pointer(package):
    found = [
        f"{file.relative_to(ROOT)}:{line}: {text}"
        for file in files()
        if file.is_relative_to(ROOT / package)
        for line, text in Module(file.read_text(), aliases()).mistakes()
    ]
    assert not found, "\n".join(found)


def test_calls_are_found_at_all():
    calls = [
        call
        for file in files()
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and indices_of(call)
    ]
    assert len(calls) > 40


WRONG = [
    # The former error of every sampler of boxes.
    """def f(steps, count, shares):
    ends = np.clip(steps, 0, count).astype(np.int64)
    times = np.diff(ends, prepend=0)
    return np.repeat(np.arange(len(shares)), times)""",
    "def f(columns):\n    return np.bincount(columns.view(np.int64))",
    "def f(table, slots: npt.NDArray[np.int64]):\n    return table.take(slots)",
    "Paths = npt.NDArray[np.uint64]\ndef f(row, paths: Paths):\n    np.add.at(row, paths, 1)",
    "def f(values, sizes):\n    first = np.zeros(3, np.int64)\n    np.add.reduceat(values, first)",
    "from x import Words\ndef f(a, w: Words):\n    b = w >> 3\n    np.take(a, indices=b)",
]
RIGHT = [
    """def f(steps, count, shares):
    ends = np.clip(steps, 0, count).astype(np.intp)
    return np.repeat(np.arange(len(shares)), np.diff(ends, prepend=0))""",
    "def f(edges: npt.NDArray[np.uint64], low):\n    np.add.at(c, np.searchsorted(edges, low), 1)",
    "def f(words: npt.NDArray[np.uint64]):\n    return np.bincount(words.astype(np.intp))",
]


@pytest.mark.parametrize("source", WRONG)
def test_mistakes_of_every_kind_are_found(source):
    assert len(list(Module(source, {"Words": True}).mistakes())) == 1


@pytest.mark.parametrize("source", RIGHT)
def test_what_is_right_is_let_be(source):
    assert not list(Module(source, {"Words": True}).mistakes())
