"""An `Entropy` without entropy."""

import numpy as np
import numpy.typing as npt

from pansketch.randomness import Chance


class NoNoise:
    """An `Entropy` without entropy: what the counters would be, and every bit the likelier one."""

    def add_discrete_laplace(self, scale: object, counters: object) -> None:
        return None

    def fill_bernoulli(self, chance: Chance, bits: npt.NDArray[np.uint8]) -> None:
        bits.fill(chance.probability > 0.5)

    def identifier(self) -> int:
        return 1
