"""Specs as values of JSON, and back to the same fingerprint."""

import json
from fractions import Fraction

import pytest

from pansketch import (
    Attribute,
    CellsSpec,
    DistinctSpec,
    Domain,
    HierarchySpec,
    MomentsSpec,
    Privacy,
    Span,
    View,
    ViewsSpec,
)
from pansketch.wire.spec_form import FAMILIES, differences, form_of, spec_of

DOMAIN = Domain(
    [
        Attribute("temp", low=-40, high=60, unit="degC", step=0.1),
        Attribute("pm25", low=0, high=1000, scale="log", resolution=2.0),
        Attribute("wind", categories=("calm", "N", "NO")),
        Attribute("way", low=0, high=360, cyclic=True),
        Attribute("site", constant=3.0),
    ]
)
SPECS = [
    HierarchySpec(DOMAIN, Privacy(0.3), depth=8, k=16, width=32, rows=2, fanout=2, hash_key=9),
    HierarchySpec(DOMAIN, Privacy(3.0, Span(3600, 3), "announced")),
    CellsSpec(DOMAIN, Privacy(1.0), hash_key=2**64 - 1),
    MomentsSpec(DOMAIN, Privacy(1.0), features="rff"),
    MomentsSpec(DOMAIN, Privacy(1.0), features="hist", bins=7),
    ViewsSpec(
        DOMAIN,
        Privacy(1.0),
        (View(("temp",), (4,), 400_000), View(("pm25", "wind"), (3, 2), 600_000)),
    ),
    DistinctSpec(Privacy(2.0, "key"), universe=1000, output_share=Fraction(1, 3)),
    DistinctSpec(Privacy(2.0, "key"), expected_keys=500, release="bitmap", hash_key=5),
    DistinctSpec(Privacy(2.0, "key"), memory=64, release="bitmap"),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.family)
def test_a_form_is_json_and_makes_the_same_spec(spec):
    form = json.loads(json.dumps(form_of(spec)))
    again = spec_of(form)
    assert again == spec
    assert again.fingerprint == spec.fingerprint
    assert again.blocks == spec.blocks
    assert str(again.guarantee) == str(spec.guarantee)


def test_every_family_has_a_form():
    assert {spec.family for spec in SPECS} == set(FAMILIES)


@pytest.mark.parametrize(
    "change",
    [
        {"family": "unknown"},
        {"depth": 9},
        {"fingerprint": "00" * 8},
        {"more": 1},
        {"domain": {"attributes": [{"name": "temp"}]}},
        {"domain": 3},
        {"privacy": {"epsilon": 0.3}},
    ],
)
def test_a_form_of_another_spec_or_none_is_refused_with_a_single_line_error(change):
    with pytest.raises(ValueError, match=r".") as refused:
        spec_of({**form_of(SPECS[0]), **change})
    assert "\n" not in str(refused.value)


def test_differences_are_named():
    domain = Domain([Attribute("temp", low=-40, high=80, unit="degC"), *DOMAIN.attributes[1:]])
    other = HierarchySpec(
        domain, Privacy(2.0), depth=8, k=16, width=64, rows=2, fanout=2, hash_key=7
    )
    assert differences(form_of(SPECS[0]), form_of(other)) == [
        "domain.attributes.temp.high 60 and 80",
        "domain.attributes.temp.step 0.1 and none",
        "privacy.epsilon 0.3 and 2",
        "width 32 and 64",
    ]
    assert differences(form_of(other), form_of(other)) == []
    more = Domain([*domain.attributes, Attribute("extra", low=0, high=100)])
    added = HierarchySpec(more, Privacy(2.0), depth=8, k=16, width=64, rows=2, fanout=2, hash_key=7)
    attribute = "domain.attributes.extra"
    assert differences(form_of(other), form_of(added)) == [f"{attribute} none and present"]
    assert differences(form_of(added), form_of(other)) == [f"{attribute} present and none"]
