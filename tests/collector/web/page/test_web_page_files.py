"""The files of the page: what is served, to whom, and that nothing else can be had by that way."""

import re
import socket
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[4]
FOLDER = ROOT / "collector" / "web" / "static"
NAMES = sorted(file.name for file in FOLDER.iterdir())
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# What the policy forbids, what reads a text as markup, and every other host.
FORBIDDEN = (
    r"<script(?![^>]*\bsrc=)[^>]*>",
    r"<style|\bstyle=",
    r"\bon[a-z]+=\"",
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function",
    r"localStorage|document\.cookie",
    r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[a-z0-9-]+\.[a-z]",
)


def forbidden(text):
    return [pattern for pattern in FORBIDDEN if re.search(pattern, text)]


@pytest.mark.parametrize("name", ["", *NAMES])
def test_every_file_is_served_with_its_type_and_the_policy(get, name):
    response = get(f"/page/{name}")
    file = FOLDER / (name or "index.html")
    assert (response.status_code, response.content) == (200, file.read_bytes())
    kind = response.headers["content-type"].split(";")[0]
    assert kind == TYPES[file.suffix.removeprefix(".")]
    policy = response.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"


def test_without_its_slash_it_leads_on(get):
    response = get("/page")
    assert (response.status_code, response.headers["location"]) == (307, "page/")


@pytest.mark.parametrize(
    "path",
    [
        "/page/..",
        "/page/../app.py",
        "/page/../../../../../../etc/passwd",
        "/page/%2e%2e/app.py",
        "/page/%2e%2e%2fapp.py",
        "/page/..%2fapp.py",
        "/page/..%5capp.py",
        "/page/%252e%252e%252fapp.py",
        "/page//etc/passwd",
        "/page/%2fetc%2fpasswd",
        "/page/./app.js",
        "/page/app.js/",
        "/page/app.js%00",
        "/page/APP.JS",
        "/page/static/app.js",
        "/page/../static/app.js",
        "/pages",
        "/page.html",
    ],
)
def test_nothing_else_can_be_had_that_way(shared, path):
    """Sent as it stands: a client would tidy a path with dots in it."""
    with socket.create_connection(("127.0.0.1", shared.site.port), 10) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        head, _, body = b"".join(iter(lambda: raw.recv(65536), b"")).partition(b"\r\n\r\n")
    assert head.split()[1] == b"404", head
    assert b"application/problem+json" in head
    assert b"import" not in body
    assert b"root:" not in body


def test_a_token_closes_the_figures_and_not_the_page(make_site, serve, token):
    with serve(make_site(collector=f"token: {token}")) as server, server.client() as client:
        for path in ("/page", "/page/", "/page/app.js"):
            assert client.get(path).status_code in (200, 307)
        for path in ("/pages", "/pagev1/streams", "/page/../v1/streams", "/v1/streams"):
            url = httpx.URL(server.url).copy_with(raw_path=path.encode())
            assert client.get(url).status_code == 401, path
        assert client.get("/page/nothing.js").status_code == 404


@pytest.mark.parametrize("name", NAMES)
def test_no_inline_script_and_no_other_host(name):
    assert forbidden((FOLDER / name).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        '<p style="color: red">',
        '<p onclick="go()">',
        "element.innerHTML = name",
        "localStorage.setItem(KEY, token)",
        'import "https://cdn.example/chart.js"',
        'fetch("//elsewhere.example")',
    ],
)
def test_the_search_for_them_would_notice(text):
    """Negative control."""
    assert forbidden(text)


def test_an_installed_package_holds_every_file():
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = packaged["package-data"]["collector.web"]
    assert "collector.web" in packaged["packages"]
    for name in NAMES:
        assert any(fnmatch(f"static/{name}", pattern) for pattern in patterns), name
