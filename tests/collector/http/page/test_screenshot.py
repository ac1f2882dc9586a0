"""`python -m testbed.screenshot`: a picture of the page for the documentation."""

import struct

import pytest

from testbed.screenshot import main


def size_of(file):
    data = file.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", data[16:24])


@pytest.mark.needs("chromium")
def test_a_picture_of_the_page(shared, tmp_path):
    file = tmp_path / "pictures" / "air.png"
    assert main([f"{shared.url}/#stream/air", str(file), "--width", "900", "--height", "700"]) == 0
    assert size_of(file) == (900, 700)
    assert file.stat().st_size > 10_000


@pytest.mark.needs("chromium")
def test_no_page_is_one_line(tmp_path, capsys):
    file = tmp_path / "none.png"
    assert main(["http://127.0.0.1:1/", str(file)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("testbed.screenshot: http://127.0.0.1:1/")
    assert said.count("\n") == 1
    assert not file.exists()


def test_no_browser_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["http://127.0.0.1:1/", str(tmp_path / "none.png")]) == 2
    said = capsys.readouterr().err
    assert "apt install chromium" in said
    assert said.count("\n") == 1
