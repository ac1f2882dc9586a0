"""How near the fleet's generator is to the raw readings. Only the demo can ask: it owns them."""

import csv
import gzip
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np
import numpy.typing as npt

from demo.distances import wasserstein
from pansketch import Attribute, Estimate, Partition

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """One attribute: W1 between truth and sample over the truth's deviation, and three answers."""

    attribute: Attribute
    relative_w1: float
    answers: dict[str, tuple[float, Estimate]]


def read_station(file: Path, names: tuple[str, ...]) -> tuple[list[str], FloatArray]:
    """All times of a station's file, and its complete readings, float64[n, d]."""
    with gzip.open(file, "rt", newline="") as text:
        rows = list(csv.DictReader(text))
    values = ([_number(row[name]) for name in names] for row in rows)
    complete = [reading for reading in values if all(map(isfinite, reading))]
    return [row["time"] for row in rows], np.array(complete)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def compare(model: Partition, sample: FloatArray, truth: FloatArray) -> list[Comparison]:
    """One comparison for each attribute; sample and truth are float64[n, d] in real units."""
    return [
        _compared(model, attribute, sample[:, place], truth[:, place])
        for place, attribute in enumerate(model.domain.attributes)
    ]


def _compared(
    model: Partition, attribute: Attribute, sample: FloatArray, truth: FloatArray
) -> Comparison:
    name = attribute.name
    answers = {
        "mean": (float(truth.mean()), model.mean(name)),
        "median": (float(np.median(truth)), model.quantile(name, 0.5)),
        "95th percentile": (float(np.quantile(truth, 0.95)), model.quantile(name, 0.95)),
    }
    return Comparison(attribute, wasserstein(sample, truth) / float(truth.std()), answers)


def attribute_label(attribute: Attribute) -> str:
    return f"{attribute.name} [{attribute.unit}]" if attribute.unit else attribute.name
