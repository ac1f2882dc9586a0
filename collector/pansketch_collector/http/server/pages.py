"""The files of the web page, read once, and `/docs`, the interface as a page without scripts.

A request selects one of the files by name; no path is built from it.
"""

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import Response

FOLDER = Path(__file__).parents[1] / "static"
INDEX = "index.html"
PREFIX = "/page/"  # of its other files
VENDOR = "vendor"  # a folder of third-party files
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


def read_files(folder: Path = FOLDER) -> dict[str, Response]:
    """A response for each file of a folder, by name."""
    return {
        file.name: Response(file.read_bytes(), media_type=MEDIA_TYPES[file.suffix])
        for file in sorted(folder.iterdir())
        if file.suffix in MEDIA_TYPES
    }


def add_page(app: FastAPI) -> None:
    """Adds the page at `/` and its files. It contains no figure of the fleet, so it needs no token.

    Its links are relative, so that it also works behind a proxy that adds a prefix.
    """
    files = read_files()
    first = files.pop(INDEX)

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return first

    _add_files(app, PREFIX, files)
    _add_files(app, f"{PREFIX}{VENDOR}/", read_files(FOLDER / VENDOR))


def _add_files(app: FastAPI, prefix: str, files: Mapping[str, Response]) -> None:
    @app.get(prefix + "{name}", include_in_schema=False)
    async def file(name: str) -> Response:
        # A name has no slash, decoded or not, and is a key, never a path.
        if name not in files:
            raise HTTPException(404)
        return files[name]


def is_open(path: str) -> bool:
    """True if a path belongs to the page, which needs no token."""
    return path == "/" or path.startswith(PREFIX)


def as_html(openapi: Mapping[str, Any]) -> str:
    """A plain page from an OpenAPI description."""
    title = escape(openapi["info"]["title"])
    body = "".join(
        _operation(f"{method.upper()} {path}", operation)
        for path, operations in openapi["paths"].items()
        for method, operation in operations.items()
    )
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
        f"<body><h1>{title} {escape(openapi['info']['version'])}</h1>"
        f"<p>{escape(openapi['info']['description'])} "
        '<a href="openapi.json">openapi.json</a></p>'
        f"{body}</body></html>\n"
    )


def _operation(name: str, operation: Mapping[str, Any]) -> str:
    rows = "".join(_row(parameter) for parameter in operation.get("parameters", ()))
    table = (
        f"<table><tr><th>parameter</th><th>type</th><th>meaning</th></tr>{rows}</table>"
        if rows
        else ""
    )
    text = escape(operation.get("description") or operation.get("summary", ""))
    return f"<h2>{escape(name)}</h2><p>{text}</p>{table}"


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


def name_streams(description: dict[str, Any], names: list[str]) -> None:
    """Lists the configured streams in the OpenAPI description; any other one is not found."""
    for operations in description["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "stream":
                    parameter["schema"]["enum"] = names
