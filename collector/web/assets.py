"""The page: its files, read once. A request names one of them or nothing; no path is made of it."""

from collections.abc import Mapping
from pathlib import Path

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import Response

FOLDER = Path(__file__).with_name("static")
FIRST = "index.html"
PREFIX = "/page/"  # of its other files
VENDOR = "vendor"  # a folder of files that others wrote
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


def read_files(folder: Path = FOLDER) -> dict[str, Response]:
    """An answer for each file that the page is made of, by name."""
    return {
        file.name: Response(file.read_bytes(), media_type=MEDIA_TYPES[file.suffix])
        for file in sorted(folder.iterdir())
        if file.suffix in MEDIA_TYPES
    }


def add_page(app: FastAPI) -> None:
    """The page at `/`, its files below. It holds no figure of the fleet, so it needs no token.

    Its links are relative, so that it also works behind a proxy that adds a prefix.
    """
    files = read_files()
    first = files.pop(FIRST)

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return first

    _add_files(app, PREFIX, files)
    _add_files(app, f"{PREFIX}{VENDOR}/", read_files(FOLDER / VENDOR))


def _add_files(app: FastAPI, prefix: str, files: Mapping[str, Response]) -> None:
    @app.get(prefix + "{name}", include_in_schema=False)
    async def file(name: str) -> Response:
        # A name holds no slash, decoded or not, and is looked up, never opened.
        if name not in files:
            raise HTTPException(404)
        return files[name]


def is_open(path: str) -> bool:
    """Whether a path is the page's own: the same for everybody, with a token or without."""
    return path == "/" or path.startswith(PREFIX)
