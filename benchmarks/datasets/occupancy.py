"""Is the room occupied? A classifier learned from one release of Fourier features.

The bundled occupancy readings are split 90 to 10; the larger part is sketched and released. Points
spread evenly over the domain, weighted by the readings' density as the release tells it (the
paper's implicit M2M), train a logistic regression. Its area under the ROC curve is taken on the
rest.
"""

import csv
import gzip
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pansketch import Attribute, Domain, MomentsSpec, Privacy, os_entropy
from pansketch.generators import M2MModel, Training, m2m
from pansketch.generators.moments.training_points import uniform

FOLDER = Path(__file__).resolve().parents[2] / "data" / "occupancy"
FILES = ("datatraining", "datatest", "datatest2")
HELD_OUT = 0.1
# Typical of such sensors in any office, not measured by these ones.
DOMAIN = Domain(
    [
        Attribute("temperature", low=15, high=30, unit="degC"),
        Attribute("humidity", low=0, high=50, unit="%"),
        Attribute("light", low=0, high=1000, unit="lux"),
        Attribute("co2", low=300, high=2300, unit="ppm"),
        Attribute("humidity ratio", low=0, high=0.01, unit="kg/kg"),
        Attribute("occupied", categories=("no", "yes")),
    ]
)
NUMBERS = DOMAIN.names[:-1]

FloatArray = npt.NDArray[np.float64]


@cache
def readings() -> FloatArray:
    """All readings of the three files, clipped to the domain: float64[n, 6]."""
    rows: list[list[float]] = []
    for name in FILES:
        with gzip.open(FOLDER / f"{name}.txt.gz", "rt", encoding="ascii", newline="") as file:
            lines = csv.reader(file)
            next(lines)
            rows += [[float(value) for value in line[2:]] for line in lines]
    low = [attribute.origin for attribute in DOMAIN.attributes]
    return np.clip(rows, low, [attribute.highest for attribute in DOMAIN.attributes])


def spec_at(epsilon: float) -> MomentsSpec:
    return MomentsSpec(DOMAIN, Privacy(epsilon, intrusion="announced"))


@cache
def training(points: int, as_published: bool = False) -> Training:
    rows = uniform(DOMAIN, points, np.random.default_rng(1))
    return Training(spec_at(1.0), rows, intercept=not as_published)


def split(seed: int) -> tuple[FloatArray, FloatArray]:
    """Readings to sketch, and readings held out."""
    order = np.random.default_rng([20, seed]).permutation(len(readings()))
    held_out = int(HELD_OUT * len(order))
    return readings()[order[held_out:]], readings()[order[:held_out]]


def modelled(rows: FloatArray, epsilon: float, points: int, as_published: bool) -> M2MModel:
    """The model of one release of these readings."""
    sketch = spec_at(epsilon).start(os_entropy())
    sketch.update_many(rows)
    released = sketch.release(os_entropy())
    return m2m(released, training(points, as_published), as_published=as_published)


def auc(seed: int, epsilon: float, points: int, as_published: bool = False) -> float:
    """Area under the curve of a classifier learned from a release."""
    rows, held_out = split(seed)
    model = modelled(rows, epsilon, points, as_published)
    weights = np.maximum(model.weights(), 0.0)
    return _area(_learned(model.rows, weights / weights.mean()), held_out)


def auc_of_readings(seed: int) -> float:
    """Of a classifier that saw the readings themselves."""
    rows, held_out = split(seed)
    return _area(_learned(rows, np.ones(len(rows))), held_out)


def mean_errors(seed: int, epsilon: float, points: int, as_published: bool) -> FloatArray:
    """Errors of the means of the numeric attributes over their bounds' distance, and whether two
    standard errors cover them: float64[2, 5]."""
    rows, _ = split(seed)
    model = modelled(rows, epsilon, points, as_published)
    found = [model.mean(name) for name in NUMBERS]
    errors = np.abs([each.value for each in found] - rows[:, :-1].mean(axis=0))
    covered = errors <= 2 * np.array([each.standard_error for each in found])
    return np.array([errors / [DOMAIN.attributes[i].extent for i in range(5)], covered])


def _learned(rows: FloatArray, weights: FloatArray) -> Any:
    from sklearn.linear_model import LogisticRegression  # No other benchmark needs it.

    scaled = _scaled(rows)
    return LogisticRegression(max_iter=1000).fit(scaled, rows[:, -1] > 0.5, sample_weight=weights)


def _area(classifier: Any, rows: FloatArray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(rows[:, -1] > 0.5, classifier.decision_function(_scaled(rows))))


def _scaled(rows: FloatArray) -> FloatArray:
    """The numbers in unit intervals, which logistic regression's penalty needs."""
    numbers = DOMAIN.attributes[:-1]
    return np.column_stack([(rows[:, i] - a.origin) / a.extent for i, a in enumerate(numbers)])
