"""`/docs`: the interface as a page that needs no script and nothing from another host."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any


def as_html(openapi: Mapping[str, Any]) -> str:
    """A plain page from an OpenAPI description."""
    title = escape(openapi["info"]["title"])
    body = "".join(
        _operation(path, operation)
        for path, operations in openapi["paths"].items()
        for operation in operations.values()
    )
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
        f"<body><h1>{title} {escape(openapi['info']['version'])}</h1>"
        f"<p>{escape(openapi['info']['description'])} "
        '<a href="openapi.json">openapi.json</a></p>'
        f"{body}</body></html>\n"
    )


def _operation(path: str, operation: Mapping[str, Any]) -> str:
    rows = "".join(_row(parameter) for parameter in operation.get("parameters", ()))
    table = (
        f"<table><tr><th>parameter</th><th>type</th><th>meaning</th></tr>{rows}</table>"
        if rows
        else ""
    )
    says = escape(operation.get("description") or operation.get("summary", ""))
    return f"<h2>GET {escape(path)}</h2><p>{says}</p>{table}"


def _row(parameter: Mapping[str, Any]) -> str:
    cells = (
        parameter["name"] + (" (needed)" if parameter.get("required") else ""),
        ", ".join(_types(parameter["schema"])),
        parameter.get("description", ""),
    )
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _types(schema: Mapping[str, Any]) -> Iterator[str]:
    for each in schema.get("anyOf", [schema]):
        kind = each.get("type")
        if kind == "null":
            continue
        if "enum" in each:
            yield " | ".join(map(str, each["enum"]))
        elif kind == "array":
            yield f"several of {' or '.join(_types(each['items']))}"
        else:
            yield str(kind) + _bounds(each)


def _bounds(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    return "" if low is None else f" from {low}" + ("" if high is None else f" to {high}")
