"""The mutants of a module: Cosmic Ray's operators, and the deletion of a statement.

Annotations and the texts of exceptions are not mutated. A name holds the place of a mutant and the
change of its line, without a number. So it stays valid while the rest of a module changes.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.operators.provider import OperatorProvider
from parso.python.tree import Keyword

ROOT = Path(__file__).parents[2]
# One other operator for each; AddNot turns the sense of a condition.
BINARY = (
    "Add_Sub", "Sub_Add", "Mul_Add", "Div_Mul", "FloorDiv_Mul", "Mod_FloorDiv", "Pow_Mul",
    "RShift_LShift", "LShift_RShift", "BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitOr",
)  # fmt: skip
COMPARISONS = (
    "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is",
)  # fmt: skip
OTHERS = (
    "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr",
    "ReplaceOrWithAnd", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak",
    "NumberReplacer", "ZeroIterationForLoop", "ReplaceUnaryOperator_USub_UAdd",
    "ReplaceUnaryOperator_Delete_Not",
)  # fmt: skip
HEADER = "if 1:\n"  # An indented piece can be parsed below it.
Span = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Name:
    """Which mutant: in `where`, a function or `Class.method`, the line `was` reads `becomes`."""

    module: str
    where: str
    was: str
    becomes: str

    def __str__(self) -> str:
        return f"{self.module} {self.where}: {self.was} -> {self.becomes}"


@dataclass(frozen=True)
class Mutant:
    """One change of a module, and the module's whole source with it."""

    name: Name
    source: str

    @property
    def source_digest(self) -> str:
        return sha256(self.source.encode()).hexdigest()[:16]


class DeleteStatement(Operator):  # type: ignore[misc]
    """A call, a change in place, or a `raise` is left out; Cosmic Ray has no such operator."""

    def mutation_positions(self, node: Any) -> Iterator[Span]:
        if node.parent is not None and node.parent.type == "simple_stmt" and _acts(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        return Keyword("pass", node.start_pos, node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


def _acts(node: Any) -> bool:
    if node.type == "expr_stmt":  # `a += b`, `a.b = c` and `a[b] = c`, but no plain name.
        target, sign = node.children[:2]
        return bool(target.type == "atom_expr" or (sign.type == "operator" and sign.value != "="))
    return str(node.type) in ("atom_expr", "raise_stmt")


def operators() -> list[Operator]:
    known = OperatorProvider()
    named = [
        *(f"ReplaceBinaryOperator_{each}" for each in BINARY),
        *(f"ReplaceComparisonOperator_{each}" for each in COMPARISONS),
        *OTHERS,
    ]
    return [*(known[each]() for each in named), DeleteStatement()]


def mutants_of(module: str, only: frozenset[str] | None = None) -> list[Mutant]:
    """All mutants of a file, by its path in the repository; those of one name once.

    Args:
        module: the path.
        only: of these functions alone.

    Returns:
        The mutants, from top to bottom.
    """
    source = (ROOT / module).read_text()
    lines = source.splitlines(keepends=True)
    found: dict[Name, Mutant] = {}
    for where, first, last in _pieces(ast.parse(source)):
        if only is not None and where not in only:
            continue
        piece = "".join(lines[first:last])
        for changed in _changed(piece):
            was, becomes = _difference(piece, changed)
            name = Name(module, where, was, becomes)
            if was != becomes:
                whole = "".join([*lines[:first], changed, *lines[last:]])
                found.setdefault(name, Mutant(name, whole))
    return list(found.values())


def _pieces(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    """Name, first line from 0, and end of each unit of mutation."""
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        for each in inside:
            if isinstance(each, ast.FunctionDef):
                outer = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
                yield f"{outer}{each.name}", each.lineno - 1, each.end_lineno or 0
            elif isinstance(each, ast.Assign | ast.AnnAssign):
                target = each.targets[0] if isinstance(each, ast.Assign) else each.target
                yield ast.unparse(target), each.lineno - 1, each.end_lineno or 0


def _changed(piece: str) -> Iterator[str]:
    """The piece, once with each mutation."""
    code = HEADER + piece if piece[0].isspace() else piece
    before = len(code) - len(piece)
    protected = list(_protected(ast.parse(code), bool(before)))
    tree = get_ast(code)
    for operator in operators():
        positions = [
            start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node)
        ]
        for occurrence, start in enumerate(positions):
            if not any(low <= start < high for low, high in protected):
                changed = mutate_code(code, operator, occurrence)
                if _parses(changed):
                    yield changed[before:]


def _parses(code: str) -> bool:
    """The `/` and `*` of a signature are operators to Cosmic Ray."""
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def _protected(tree: ast.Module, header: bool) -> Iterator[Span]:
    """Lines without mutation: the header, annotations, and the text of a `raise`."""
    if header:
        yield (1, 0), (2, 0)
    for node in ast.walk(tree):
        for part in (
            getattr(node, "annotation", None),
            getattr(node, "returns", None),
            node.exc if isinstance(node, ast.Raise) else None,
        ):
            if isinstance(part, ast.expr):
                yield (
                    (part.lineno, part.col_offset),
                    (part.end_lineno or 0, part.end_col_offset or 0),
                )


def _difference(piece: str, changed: str) -> tuple[str, str]:
    """The lines that differ, each as one text."""
    old, new = piece.splitlines(), changed.splitlines()
    first = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), len(old))
    while len(old) > first and len(new) > first and old[-1] == new[-1]:
        old.pop(), new.pop()
    return tuple(
        " ".join(" ".join(line.partition("  # ")[0] for line in each[first:]).split())
        for each in (old, new)
    )  # type: ignore[return-value]
