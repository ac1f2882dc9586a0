"""What error a generator will have, predicted before any reading: from cells, noise and number.

Two errors act against each other. Cells hide what is inside them: halving them lowers that error.
Noise is the same on every cell, so more cells carry more of it. What is assumed of the readings is
common among sensors: they fill about a third of the public bounds, and attributes depend on each
other. Readings that fill less, or lie on few values, have larger errors.

The constants are measured (docs/explanation/views.md). Everything is computed with sums, products,
quotients and square roots, which are the same on every machine, because plans follow from it.
"""

from dataclasses import dataclass
from math import sqrt

BINS = 16  # of an attribute: its quantiles, on which errors of pairs are stated
OCCUPIED = 1 / 3  # of the cells between the public bounds, for one attribute or two
SPREAD = 6.9  # the bounds' distance in standard deviations, for readings that fill a third of it

LEFT = 0.32  # total variation over noise: half its mean absolute value, less what is fitted away
HIDDEN_PAIR = 0.33  # total variation of a pair for each attribute in one cell, over its cells
HIDDEN_ALONE = 3.0  # W1 of normal readings from being even inside cells, times the cells' square
COARSE = 1.7  # W1 of a cell that holds all readings, times the cells in their range
ROUGH = 0.06  # W1 of readings that are not as smooth, times the cells
BRIDGE = 0.26  # mean absolute error of a noisy running sum, in standard deviations of its noise
CARRIED = 2.0  # total variation of a pair that one standard deviation of W1 of a margin makes
SAMPLED = 0.018  # total variation between readings and the particles that agree with views
SHRUNK = 0.14  # total variation that noise adds at most, because tables are shrunk
BLUR = 3.0  # error of a correlation, in noise per cell times the cells along an attribute
UNRELATED = 0.2  # error of a correlation that noise adds at most
LOST = 1.8  # of a correlation of 0.4, from independence inside cells, times the cells' square
NEARLY = 0.001  # W1 of a sample and of what it was drawn from, in standard deviations
EVEN = 0.5  # W1 that noise adds at most, in standard deviations


@dataclass(frozen=True)
class Errors:
    """Predicted errors of a model; 0 where there is nothing to be wrong about.

    Attributes:
        pair: mean total variation over all pairs of attributes on 16 x 16 quantile bins.
        marginal: mean W1 of the attributes, in their standard deviations.
        correlation: mean absolute error over all pairs of numbers.
    """

    pair: float
    marginal: float
    correlation: float

    @property
    def score(self) -> int:
        """What is least for the best plan: in whole millionths, so that machines agree."""
        return round(1e6 * (self.pair + 2 * self.marginal + self.correlation / 4))


def marginal_error(noise: float, hidden: float, least: float = NEARLY) -> float:
    """W1 of one attribute, in standard deviations. `noise`: standard deviation of a running sum of
    its cells, over the number of readings. `hidden`: what is inside its cells (`hidden_alone`).
    `least`: what is left without either."""
    return least + _at_most(SPREAD * BRIDGE * noise, EVEN) + hidden


def hidden_alone(cells: float, whole: bool) -> float:
    """W1 of one attribute from what is inside its cells, in standard deviations. `cells`: those in
    the range of the readings. `whole`: its cells are its values."""
    if whole:
        return 0.0
    # A cell wider than the range hides where in it the readings are: its size, not its square.
    return min(HIDDEN_ALONE / cells, COARSE) / cells + ROUGH / cells


def bins_of(cells: float) -> float:
    """How many bins a pair's occupied cells can tell apart."""
    return min(float(BINS * BINS), max(1.0, OCCUPIED * cells))


def pair_error(
    noise: float,
    bins: float,
    hidden: float,
    margins: float,
    least: float = SAMPLED,
    limit: float = SHRUNK,
) -> float:
    """Total variation of a pair. `noise`: standard deviation of a bin's, over the number of
    readings. `bins`: that its cells tell apart. `hidden`: of its attributes together
    (`hidden_in`). `margins`: mean of their W1. `least`: what is left without any of them. `limit`:
    what noise adds at most."""
    shrunk = _at_most(LEFT * bins * noise, limit)
    carried = CARRIED * margins
    # Two shares have a distance of 1 at most.
    return _at_most(
        sqrt(shrunk * shrunk + hidden * hidden + carried * carried + least * least), 1.0
    )


def hidden_in(cells: float, whole: bool) -> float:
    """Total variation of a pair that one attribute adds, from what is inside its cells. `cells`:
    those in the range of the readings."""
    return 0.0 if whole else HIDDEN_PAIR / cells


def correlation_error(noise: float, left: float, right: float, told: float) -> float:
    """Of two attributes in so many cells each. `noise`: standard deviation of that of one joint
    cell, over the number of readings. `told`: cells in the range of the readings that are told
    apart, of the attribute with fewer."""
    bounded = _at_most(BLUR * noise * sqrt(left * right), UNRELATED)
    lost = _at_most(LOST / (told * told), 1.0)
    return sqrt(bounded * bounded + lost * lost)


def _at_most(noise: float, limit: float) -> float:
    """Noise that generators shrink where it is larger than what it hides."""
    return noise * limit / sqrt(noise * noise + limit * limit)
