"""Conjunctions in text: what they mean, and how the others are refused."""

import numpy as np
import pytest

from pansketch import Attribute, Domain
from pansketch.generators.partition.predicate import parse_predicate

STATION = Domain(
    [
        Attribute("temp", low=-40, high=60),
        Attribute("pm 2.5", low=0, high=1000, scale="log"),
        Attribute("wind", categories=("N", "E-NE", "S")),
    ]
)
ROWS = np.array([[20.0, 50.0, 0], [20.5, 49.0, 1], [-7.0, 1000.0, 1], [60.0, 0.0, 2]])


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("temp > 20", [0, 1, 0, 1]),
        ("temp>=20", [1, 1, 0, 1]),
        (" temp < -6.5 ", [0, 0, 1, 0]),
        ("temp <= 2e1", [1, 0, 1, 0]),
        ("pm 2.5 < 50", [0, 1, 0, 1]),
        ("wind = E-NE", [0, 1, 1, 0]),
        ("temp>20&pm 2.5<50&wind=E-NE", [0, 1, 0, 0]),
        ("temp > 20 & temp < 60", [0, 1, 0, 0]),
    ],
)
def test_a_conjunction_holds_where_all_its_comparisons_do(text, true):
    assert parse_predicate(text, STATION).holds(ROWS).tolist() == [bool(each) for each in true]


def test_a_predicate_knows_its_attributes():
    assert parse_predicate("wind = N & temp < 3 & wind = S", STATION).positions == {0, 2}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "'' is not a comparison"),
        ("temp", "'temp' is not a comparison"),
        ("temp > ", "is not a comparison"),
        ("> 20", "is not a comparison"),
        ("temp > 20 &", "'' is not a comparison"),
        ("temp > 20 && pm 2.5 < 3", "'' is not a comparison"),
        ("temp == 20", "is not a comparison"),
        ("0 < temp < 20", "is not a comparison"),
        ("temp > 20 | pm25 < 3", "'20 | pm25 < 3'|not a comparison"),
        ("temp > warm", "temp: 'warm' is not a finite number"),
        ("temp > nan", "temp: 'nan' is not a finite number"),
        ("temp < 1e999", "temp: '1e999' is not a finite number"),
        ("temp = 20", "temp is a number: compare it by <, <=, > or >="),
        ("Temp > 20", "unknown attribute 'Temp'; there is temp, pm 2.5, wind"),
        ("wind = W", "wind has no category 'W': N, E-NE, S"),
        ("wind > N", "wind has categories: write wind = N"),
    ],
)
def test_what_does_not_parse_is_refused_in_one_line(text, error):
    with pytest.raises(ValueError, match=error) as caught:
        parse_predicate(text, STATION)
    assert "\n" not in str(caught.value)
