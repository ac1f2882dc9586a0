"""A hook of MkDocs: the build fails if a page or style sheet of the site requests another host."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

# What a browser requests by itself; a link (`a href`) is a reader's own decision.
REQUESTED = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "object": ("data",),
    "use": ("href", "xlink:href"),
    "image": ("href", "xlink:href"),
}
NOT_LOADED = {"canonical", "prev", "next", "alternate"}
ELSEWHERE = re.compile(r"(https?:)?//[^/\s]")
STYLE = re.compile(r"(?:@import\s+|url\(\s*)['\"]?((?:https?:)?//[^'\")\s]+)")


class _Requests(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if "mermaid" in (values.get("class") or "").split():
            self.found.append(f"<{tag} class=mermaid>, for which the theme loads a script")
        if tag == "link" and NOT_LOADED & set((values.get("rel") or "").split()):
            return
        for name in REQUESTED.get(tag, ()):
            if ELSEWHERE.search(values.get(name) or ""):
                self.found.append(f"<{tag} {name}={values[name]}>")
        self.found += [f"style: {url}" for url in STYLE.findall(values.get("style") or "")]


def requests_elsewhere(html: str) -> list[str]:
    """What a page makes a browser request from another host."""
    parser = _Requests()
    parser.feed(html)
    styles = re.findall(r"<style[^>]*>(.*?)</style>", html, re.S)
    return [*parser.found, *(f"style: {url}" for text in styles for url in STYLE.findall(text))]


def problems(site: Path) -> Iterator[str]:
    """One line for each request to another host, of all pages and style sheets of a built site."""
    for file in sorted(site.rglob("*.html")):
        for request in requests_elsewhere(file.read_text(encoding="utf-8")):
            yield f"{file.relative_to(site)}: {request}"
    for file in sorted(site.rglob("*.css")):
        for url in STYLE.findall(file.read_text(encoding="utf-8")):
            yield f"{file.relative_to(site)}: {url}"


def on_post_build(config: Any, **_: Any) -> None:
    """Called by MkDocs at the end. Raises SystemExit, with a line for each request."""
    found = list(problems(Path(config["site_dir"])))
    if found:
        raise SystemExit("\n".join(["the site requests other hosts:", *found]))
