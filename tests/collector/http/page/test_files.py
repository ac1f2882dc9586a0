"""The files of the page: what is served, to whom, and that nothing else can be had by that way."""

import re
import socket
import tomllib
from pathlib import Path, PurePosixPath

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[4]
FOLDER = ROOT / "collector" / "pansketch_collector" / "http" / "static"
NAMES = sorted(f.relative_to(FOLDER).as_posix() for f in FOLDER.rglob("*") if f.is_file())
NOT_SERVED = {"index.html", "vendor/README.md"}  # of those below /page/
PATHS = {"/": "index.html"} | {f"/page/{n}": n for n in NAMES if n not in NOT_SERVED}
TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "txt": "text/plain",
}
BANNER = re.compile(r"\A// https://d3js\.org/\S+ v[0-9.]+ Copyright [0-9-]+ Mike Bostock\n")
# Violations of the policy, functions that read a text as markup, and other hosts.
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


@pytest.mark.parametrize("path", PATHS)
def test_every_file_is_served_with_its_type_and_the_policy(get, path):
    response = get(path)
    file = FOLDER / PATHS[path]
    assert (response.status_code, response.content) == (200, file.read_bytes())
    kind = response.headers["content-type"].split(";")[0]
    assert kind == TYPES[file.suffix.removeprefix(".")]
    policy = response.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", PATHS)
def test_a_cached_file_is_not_sent(shared, path):
    with shared.client() as client:
        whole = client.get(path)
        assert whole.headers["cache-control"] == "no-cache"
        same = client.get(path, headers={"If-None-Match": whole.headers["etag"]})
        other = client.get(path, headers={"If-None-Match": '"0"'})
    assert (same.status_code, same.content) == (304, b"")
    assert same.headers["etag"] == whole.headers["etag"]
    assert (other.status_code, other.content) == (200, whole.content)


def test_no_two_files_have_one_tag(get):
    assert len({get(path).headers["etag"] for path in PATHS}) == len(PATHS)


@pytest.mark.parametrize(
    "path",
    [
        "/page",
        "/page/",
        "/page/index.html",
        "/index.html",
        "/app.js",
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
        "/page/vendor",
        "/page/vendor/",
        "/page/vendor/README.md",
        "/page/vendor/app.js",
        "/page/vendor/../app.js",
        "/page/vendor/..%2fapp.js",
        "/page/vendor//d3-scale.min.js",
        "/page/d3-scale.min.js",
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
        for path in PATHS:
            assert client.get(path).status_code == 200
        for path in (
            "/page",
            "/pagev1/streams",
            "/page/../v1/streams",
            "//v1/streams",
            "/v1/streams",
        ):
            url = httpx.URL(server.url).copy_with(raw_path=path.encode())
            assert client.get(url).status_code == 401, path
        assert client.get("/page/nothing.js").status_code == 404


@pytest.mark.parametrize("name", NAMES)
def test_no_inline_script_and_no_other_host(name):
    """Third-party files too, except for the line that names their author."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    if name.startswith("vendor/"):
        text = BANNER.sub("", text)
    if name != "vendor/README.md":
        assert forbidden(text) == []


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
    patterns = packaged["package-data"]["pansketch_collector.http"]
    assert "pansketch_collector.http" in packaged["packages"]
    for name in NAMES:
        # An asterisk stands for no slash, as it does where packages are built.
        assert any(PurePosixPath(f"static/{name}").match(pattern) for pattern in patterns), name
