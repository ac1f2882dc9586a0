"""The page: its files, read once. A request names one of them or nothing; no path is made of it."""

from collections.abc import Mapping
from pathlib import Path

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

FOLDER = Path(__file__).with_name("static")
PREFIX = "/page"
FIRST = "index.html"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def read_files(folder: Path = FOLDER) -> Mapping[str, Response]:
    """An answer for each file that the page is made of, by name."""
    return {
        file.name: Response(file.read_bytes(), media_type=MEDIA_TYPES[file.suffix])
        for file in sorted(folder.iterdir())
        if file.suffix in MEDIA_TYPES
    }


def add_page(app: FastAPI) -> None:
    """The page below `/page/`. It holds no figure of the fleet, so it needs no token."""
    files = read_files()

    @app.get(PREFIX, include_in_schema=False)
    async def without_slash() -> Response:
        # Relative, so that it also leads there behind a proxy that adds a prefix.
        return RedirectResponse(f"{PREFIX.lstrip('/')}/")

    @app.get(PREFIX + "/", include_in_schema=False)
    async def first() -> Response:
        return files[FIRST]

    @app.get(PREFIX + "/{name}", include_in_schema=False)
    async def file(name: str, request: Request) -> Response:
        # The route takes no slash, decoded or not, and a name is looked up, never opened.
        if name not in files:
            raise HTTPException(404)
        return files[name]


def is_open(path: str) -> bool:
    """Whether a path is the page's own: the same for everybody, with a token or without."""
    return path == PREFIX or path.startswith(PREFIX + "/")
