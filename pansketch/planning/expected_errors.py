"""Predict a generator's error before any reading: from cells, noise and number of readings.

Two errors act against each other. Cells hide what is inside them: halving them lowers that error.
Noise is the same on every cell, so more cells carry more of it. The assumptions about readings are
common among sensors: they fill about a third of the public bounds, and attributes depend on each
other. Readings that fill less, or lie on few values, have larger errors.

The constants are measured (docs/explanation/views.md). Everything is computed with sums, products,
quotients and square roots, which are the same on every machine, because plans follow from it. Every
amount is a number, or an array with one entry for each case of a computation.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pansketch.domain.domain import FloatArray

Amount = float | FloatArray
Truth = bool | npt.NDArray[np.bool_]

BINS = 16  # of an attribute: its quantiles, on which errors of pairs are stated
OCCUPIED = 1 / 3  # of the cells between the public bounds, for one attribute or two
SPREAD = 6.9  # the bounds' distance in standard deviations, for readings that fill a third of it

LEFT = 0.32  # total variation over noise: half its mean absolute value, less what is fitted away
HIDDEN_PAIR = 0.33  # total variation of a pair for each attribute in one cell, over its cells.
HIDDEN_ALONE = 3.0  # W1 of normal readings from being even inside cells, times the cells' square
COARSE = 1.7  # W1 of a cell that holds all readings, times the cells in their range
ROUGH = 0.06  # W1 of readings that are not as smooth, times the cells
BRIDGE = 0.26  # mean absolute error of a noisy running sum, in standard deviations of its noise
FLATTENED = 0.7  # total variation of an attribute that is even inside cells, times the cells
BINNED = 24.0  # cells that are as wide as bins: what narrower ones hide, bins do not see either
SAMPLED = 0.018  # total variation between readings and the particles that agree with views
SHRUNK = 0.18  # total variation that noise adds at most, because tables are shrunk
BLUR = 3.0  # error of a correlation, in noise per cell times the cells along an attribute
UNRELATED = 0.3  # error of a correlation that noise adds at most
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
        """The objective, minimal for the best plan: in whole millionths, so that machines agree."""
        return int(score(self.pair, self.marginal, self.correlation))


def score(pair: Amount, marginal: Amount, correlation: Amount) -> Amount:
    """See `Errors`."""
    return np.rint(1e6 * (pair + 2 * marginal + correlation / 4))


def marginal_error(noise: Amount, hidden: Amount, least: float = NEARLY) -> Amount:
    """W1 of one attribute, in standard deviations. `noise`: standard deviation of a running sum of
    its cells, over the number of readings. `hidden`: what is inside its cells (`hidden_alone`).
    `least`: what is left without either."""
    return least + noise_alone(noise) + hidden


def noise_alone(noise: Amount) -> Amount:
    """The part of `marginal_error` that is of noise."""
    return _at_most(SPREAD * BRIDGE * noise, EVEN)


def hidden_alone(cells: Amount, whole: Truth) -> Amount:
    """W1 of one attribute from what is inside its cells, in standard deviations. `cells`: those in
    the range of the readings. `whole`: its cells are its values."""
    # A cell wider than the range hides where in it the readings are: its size, not its square.
    found = np.minimum(HIDDEN_ALONE / cells, COARSE) / cells + ROUGH / cells
    return np.where(whole, 0.0, found)


def flattened(cells: Amount, whole: Truth) -> Amount:
    """Total variation of one attribute from what is inside its cells. For the arguments see
    `hidden_alone`."""
    found = FLATTENED * np.minimum(BINNED / cells, 1.0) / cells
    return np.where(whole, 0.0, np.minimum(found, 1.0))


def bins_of(cells: Amount) -> Amount:
    """Number of bins that a pair's occupied cells can separate."""
    return np.minimum(float(BINS * BINS), np.maximum(1.0, OCCUPIED * cells))


def pair_error(
    noise: Amount,
    bins: Amount,
    hidden: Amount,
    margins: Amount,
    least: float = SAMPLED,
    limit: Amount = SHRUNK,
) -> Amount:
    """Total variation of a pair. `noise`: standard deviation of a bin's, over the number of
    readings. `bins`: that its cells tell apart. `hidden`: of its attributes together
    (`hidden_in`). `margins`: total variation that its margins have alone. `least`: what is left
    without any of them. `limit`: what noise adds at most."""
    shrunk = _at_most(LEFT * bins * noise, limit)
    squares = shrunk * shrunk + hidden * hidden + margins * margins + least * least
    # Two shares have a distance of 1 at most.
    return _at_most(np.sqrt(squares), 1.0)


def hidden_in(cells: Amount, whole: Truth) -> Amount:
    """Total variation of a pair that one attribute adds, from what is inside its cells. `cells`:
    those in the range of the readings."""
    return np.where(whole, 0.0, HIDDEN_PAIR / cells)


def correlation_error(
    noise: Amount, left: Amount, right: Amount, resolved: Amount, limit: Amount = UNRELATED
) -> Amount:
    """Of two attributes in so many cells each. `noise`: standard deviation of that of one joint
    cell, over the number of readings. `resolved`: cells in the range of the readings that noise
    leaves distinct, of the attribute with fewer. `limit`: what noise adds at most."""
    bounded = _at_most(BLUR * noise * np.sqrt(left * right), limit)
    lost = _at_most(LOST / (resolved * resolved), 1.0)
    return np.asarray(np.sqrt(bounded * bounded + lost * lost))


def _at_most(noise: Amount, limit: Amount) -> Amount:
    """Noise that generators shrink where it is larger than what it hides."""
    return noise * limit / np.sqrt(noise * noise + limit * limit)
