"""The hook that ends the build of a site whose pages request another host."""

import importlib.util
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[2] / ".ci/offline_site.py"
SPEC = importlib.util.spec_from_file_location("offline_site", HOOK)
assert SPEC is not None
assert SPEC.loader is not None
offline_site = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(offline_site)


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example/mermaid.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css?family=Roboto">',
        '<link rel="preconnect" href="https://fonts.example" crossorigin>',
        '<img alt="" src="http://example.org/a.png">',
        '<img alt="" srcset="a.png 1x, https://example.org/b.png 2x">',
        '<iframe src="https://example.org"></iframe>',
        '<p style="background: url(https://example.org/a.png)">text</p>',
        '<style>@import "https://example.org/a.css";</style>',
        '<pre class="mermaid"><code>graph</code></pre>',
    ],
)
def test_a_request_to_another_host_is_found(html):
    assert len(offline_site.requests_elsewhere(html)) == 1


@pytest.mark.parametrize(
    "html",
    [
        '<a href="https://opendp.org">OpenDP</a>',
        '<script src="../assets/bundle.js"></script><link rel="stylesheet" href="a.css">',
        '<link rel="canonical" href="https://example.org/page">',
        '<img alt="" src="../images/walk.svg"><style>p { color: red }</style>',
        "<code>&lt;script src=&quot;https://example.org&quot;&gt;</code>",
    ],
)
def test_what_stays_on_this_host_is_not(html):
    assert offline_site.requests_elsewhere(html) == []


def test_the_build_fails_with_a_line_for_each_request(tmp_path):
    (tmp_path / "index.html").write_text('<img alt="" src="https://example.org/a.png">')
    (tmp_path / "main.css").write_text("p { background: url('https://example.org/b.png') }")
    with pytest.raises(SystemExit) as ended:
        offline_site.on_post_build({"site_dir": str(tmp_path)})
    assert str(ended.value).splitlines()[1:] == [
        "index.html: <img src=https://example.org/a.png>",
        "main.css: https://example.org/b.png",
    ]
    (tmp_path / "index.html").unlink()
    (tmp_path / "main.css").unlink()
    offline_site.on_post_build({"site_dir": str(tmp_path)})
