"""A narrow window: a block for each device, and for a screen reader still a table."""

from collections import Counter

import pytest

ROWS = 2  # devices of the shared site
COLUMNS = 12


def roles(tab):
    """The number of nodes of each role in the accessibility tree below the devices."""
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    by_id = {node["nodeId"]: node for node in nodes}
    table = next(n for n in nodes if said(n, "role") == "table" and "devices" in said(n, "name"))
    found, waiting = Counter(), list(table["childIds"])
    while waiting:
        node = by_id[waiting.pop()]
        waiting += node.get("childIds", [])
        if not node["ignored"]:
            found[node["role"]["value"]] += 1
    return found


def said(node, what):
    return node.get(what, {}).get("value", "")


def sideways(tab, selector):
    """By how many pixels something can be scrolled sideways."""
    element = f"document.querySelector('{selector}')"
    return tab.run(f"{element}.scrollWidth - {element}.clientWidth")


@pytest.mark.parametrize("width", [320, 390, 768, 1100, 1160, 1280])
def test_devices_are_a_table_at_every_width_and_nothing_scrolls_sideways(shared, tab, width):
    tab.emulate(width, 900, "light")
    tab.open(f"{shared.url}/#fleet")
    found = roles(tab)
    assert found["row"] == ROWS + 1
    assert found["columnheader"] == COLUMNS
    assert found["rowheader"] == ROWS
    assert found["cell"] + found["gridcell"] == ROWS * (COLUMNS - 1)
    # Names of devices have up to 64 characters.
    for name in ("one", "wanshouxigong", "hall-of-the-upper-floor-" * 2):
        tab.run(f"document.querySelectorAll('tbody th').forEach(e => e.textContent = '{name}')")
        assert sideways(tab, ".scrolling") == 0
        assert sideways(tab, "html") == 0


def test_a_table_that_lost_its_meaning_would_be_noticed(shared, tab):
    """Negative control: rows that are rows to the eye alone."""
    tab.emulate(390, 900, "light")
    tab.open(f"{shared.url}/#fleet")
    tab.run(
        "document.querySelectorAll('.blocks tr, .blocks td, .blocks th')"
        ".forEach(each => each.setAttribute('role', 'presentation'))"
    )
    found = roles(tab)
    assert found["row"] == found["cell"] == found["columnheader"] == 0


def test_each_value_has_its_name_beside_it(shared, tab):
    tab.emulate(390, 900, "light")
    tab.open(f"{shared.url}/#fleet")
    names = tab.run(
        "[...document.querySelector('.blocks').querySelectorAll('thead th')].slice(1)"
        ".map(e => e.textContent)"
    )
    before = (
        "[...document.querySelectorAll('.blocks tbody tr')[0].querySelectorAll('td')].map(e => "
    )
    shown = tab.run(before + "getComputedStyle(e, '::before').content)")
    assert len(names) == COLUMNS - 1
    # Beside its text stands an empty one, for those who have the column's header read to them.
    assert shown == [f'"{name}" / ""' for name in names]
    tab.emulate(1280, 900, "light")
    assert set(tab.run(before + "getComputedStyle(e, '::before').content)")) == {"none"}
