"""Third-party files of the page: unchanged, licensed, and used only for drawing."""

import re
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
STATIC = ROOT / "collector" / "pansketch_collector" / "http" / "static"
VENDOR = STATIC / "vendor"
ROW = re.compile(r"^\| (d3[a-z-]*) \| ([0-9.]+) \| ([0-9a-f]{64}) \|$", re.M)
STATED = {
    name: (version, digest)
    for name, version, digest in ROW.findall((VENDOR / "README.md").read_text(encoding="utf-8"))
}


def differs(name, data):
    """True if a file differs from the stated one."""
    version, digest = STATED[name]
    banner = f"// https://d3js.org/{name}/ v{version} ".encode()
    return sha256(data).hexdigest() != digest or not data.startswith(banner)


@pytest.mark.parametrize("name", STATED)
def test_each_file_is_the_one_that_is_stated(name):
    data = (VENDOR / f"{name}.min.js").read_bytes()
    assert not differs(name, data)
    assert differs(name, data + b"\n")  # Negative control.


def test_nothing_else_is_there_and_nothing_is_left_out():
    files = {file.name for file in VENDOR.iterdir()}
    texts = {"README.md", "LICENSE.txt", "LICENSE-d3-path.txt"}
    assert files == {f"{name}.min.js" for name in STATED} | texts
    imported = re.findall(r'^import "\./vendor/(.*)";$', (STATIC / "d3.js").read_text(), re.M)
    assert sorted(imported) == sorted(files - texts)


@pytest.mark.parametrize("licence", ["LICENSE.txt", "LICENSE-d3-path.txt"])
def test_its_licence_is_sent_with_it(get, licence):
    text = get(f"/page/vendor/{licence}").text
    assert "Mike Bostock" in text
    assert "this permission notice appear in all copies" in text


def vendored(tab):
    return sorted({url.rsplit("/", 1)[1] for url in tab.requests if "/page/vendor/" in url})


@pytest.mark.parametrize("view", ["fleet", "privacy", "api"])
def test_only_the_view_of_a_stream_loads_it(shared, tab, view):
    tab.open(f"{shared.url}/#{view}")
    assert vendored(tab) == []
    assert tab.run("typeof d3") == "undefined"
    tab.run("location.hash = '#stream/air'")
    tab.until("document.querySelectorAll('figure svg').length >= 2")
    assert vendored(tab) == sorted(f"{name}.min.js" for name in STATED)
    assert tab.errors == []


def imported_first():
    """The modules that the page's own one imports, directly or not."""
    found, left = set(), ["app.js"]
    while left:
        text = (STATIC / left.pop()).read_text()
        new = {*re.findall(r' from "\./(.+)";$', text, re.M)} - found
        found |= new
        left.extend(new)
    return found


def test_the_page_fetches_its_modules_at_once_and_nothing_that_draws():
    """Otherwise each level of imports waits for the one before."""
    index = (STATIC / "index.html").read_text()
    preloaded = re.findall(r'<link rel="modulepreload" href="page/(.+)">', index)
    assert preloaded == sorted(imported_first())
    assert "d3.js" not in preloaded
