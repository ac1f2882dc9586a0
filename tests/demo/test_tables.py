"""The demo prints tables for a terminal."""

from io import StringIO

import numpy as np
from rich.console import Console

from demo import tables
from demo.comparison import compare
from pansketch import Attribute, Domain
from pansketch.generators import Fidelity
from pansketch.generators.partition.partition import Partition
from testbed.metrics import Distances

TERMINAL = 80  # columns, which a program has without a terminal, too


def test_each_row_of_fidelity_is_on_one_line_of_a_terminal():
    """Errors of three digits need a wide column."""
    domain = Domain([Attribute("pres", low=970, high=1970)])
    model = Partition(domain, np.array([[0.04]]), np.array([[0.041]]), np.array([420_768.0]))
    truth = np.linspace(1821.0, 1921.0, 101)[:, None]
    sample = model.sample(100, np.random.default_rng(0))
    measured = Distances(np.array([0.2219]), np.array([0.1336]), 0.1223)
    predicted = Fidelity({"pres": 0.0476}, {("pres", "o3"): 0.1411}, {}, 0.1714, ())
    console = Console(file=StringIO(), width=TERMINAL)
    found = compare(model, sample, truth)
    console.print(tables.fidelity(found, measured, predicted, 420_768.0, 420_768))
    _, *lines = console.file.getvalue().splitlines()
    assert len(lines) == 3 + 4 + 3 + 1, lines  # headers, the attribute, all pairs, the last edge
    text = "\n".join(lines)
    assert "…" not in text
    for number in ("1871.00", "1010.50", "-860.50", "predicted 0.1411", "420768"):
        assert f" {number} │" in text, text
