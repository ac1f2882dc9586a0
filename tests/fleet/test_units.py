"""Durations and sizes as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pansketch_fleet.units import (
    about_text,
    duration_text,
    lag_text,
    rounded_duration_text,
    rounded_size_text,
    seconds,
    size_bytes,
    size_text,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30d", 2592000), ("10m", 600), ("5s", 5), ("250ms", 0.25), ("1.5h", 5400), ("2 w", 1209600)],
)
def test_durations(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("4KiB", 4096), ("1.5 MiB", 1572864), ("512B", 512), ("1GiB", 2**30)]
)
def test_sizes(text, expected):
    assert size_bytes(text) == expected


BAD = [
    "",
    " ",
    "5",
    "s",
    "-5s",
    "+5s",
    "5 s s",
    "1e3s",
    "5S",
    "0x5s",
    "5s\n",
    "\u0665s",
    "nan s",
    "1:30",
]


@pytest.mark.parametrize("text", [*BAD, "9" * 16 + "s", "5KiB", "5M", "5months"])
def test_an_error_of_a_duration_has_an_example(text):
    with pytest.raises(ValueError, match=r"; .*such as 30d, 10m or 5s$"):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "fix"),
    [("5MB", "write 5MiB"), ("5 kb", "write 5KiB"), ("5T", "use B, KiB, MiB or GiB")],
)
def test_a_decimal_size_names_its_binary_neighbour(text, fix):
    with pytest.raises(ValueError, match=f"; {fix}$"):
        size_bytes(text)


@given(st.integers(0, 10**9))
def test_texts_are_read_back(number):
    assert seconds(duration_text(number)) == number
    assert size_bytes(size_text(number)) == number


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (rounded_duration_text(200_000), "2d"),
        (rounded_duration_text(119), "119s"),
        (lag_text(9000), "2.5 h"),
        (about_text(7200), "2h"),
        (about_text(90), "90s"),
        (about_text(8450), "2.3 h"),
        (about_text(423 * 60), "7 h"),
        (about_text(900 * 86_400), "900d"),
        (lag_text(86_400), "1 d"),
        (lag_text(-5), "0 s"),
        (rounded_size_text(1536), "1.5 KiB"),
        (rounded_size_text(1023), "1023 bytes"),
    ],
)
def test_rounded_texts(text, shown):
    assert text == shown
