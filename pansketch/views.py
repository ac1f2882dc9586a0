"""Many small views of one stream: a private histogram of every attribute and of pairs of them.

With three attributes or more one joint hierarchy is coarse, for its cells are shared among all
attributes. So the stream's budget is shared among views instead, each a regular grid of cells over
one, two or a few attributes, and what they say together is found afterwards
(generators/pairwise.py). The marginals of Zhang, Wang, Honorio, Zhang, Backes, Chen and Zhang,
"PrivSyn: Differentially Private Data Synthesis" (USENIX Security 2021), kept as linear counters:
noise is drawn as for hierarchies, once at the start and, in `silent` mode, once more at the release
(docs/privacy.md).

A reading adds 1 to one cell of every view. A view whose share is a part s of epsilon therefore has
noise DLap(1 / (s epsilon)), and all of them together cost a reading epsilon.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pansketch.counting import COUNTER
from pansketch.domain import Domain
from pansketch.hashing import form_digest
from pansketch.linear import LinearCounters, linear_form
from pansketch.noise import Entropy
from pansketch.positions import PositionEncoder
from pansketch.privacy import Guarantee, Privacy
from pansketch.sketch import Release, WindowId, expected_nbytes
from pansketch.view import View, ViewCells

MOST_VIEWS = 1024
MOST_CELLS = 1 << 22  # of all views together
READINGS_AT_ONCE = 8192  # Their scratch stays in the second-level cache.


@dataclass(frozen=True)
class ViewsSpec:
    """Public description of the views of one stream.

    The parts of the views add up to what a reading may cost. An attribute may be in many views, at
    different resolutions. Raises ValueError, in one line, on views that cannot be.
    """

    domain: Domain
    privacy: Privacy
    views: tuple[View, ...]
    family: str = field(default="views", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "views", tuple(self.views))
        if not 1 <= len(self.views) <= MOST_VIEWS:
            raise ValueError(f"views must be 1 to {MOST_VIEWS}, not {len(self.views)}")
        for view in self.views:
            for name, bits in zip(view.names, view.bits, strict=True):
                most = self.domain.attributes[self.domain.index(name)].most_bits
                if bits > most:
                    raise ValueError(f"view {view}: {name} has {most} bits at most")
        parts, whole = sum(view.micro for view in self.views), self.guarantee.reading_micro
        if parts != whole:
            raise ValueError(f"the views cost {parts} micro-epsilon together, not {whole}")
        if sum(self.blocks) > MOST_CELLS:
            raise ValueError(f"the views have {sum(self.blocks)} cells, more than {MOST_CELLS}")

    @property
    def blocks(self) -> tuple[int, ...]:
        """Numbers of cells, view by view."""
        return tuple(view.size for view in self.views)

    @property
    def scales(self) -> tuple[Fraction, ...]:
        """The noise scale of each view."""
        return tuple(view.scale for view in self.views)

    @property
    def nbytes(self) -> int:
        """Bytes of the secret state, from its first instant to its last."""
        return sum(self.blocks) * COUNTER.itemsize

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.of_linear_counters(self.privacy)

    @property
    def release_nbytes(self) -> int:
        """Bytes of one release on the wire, as expected from the entropy of its noise."""
        return expected_nbytes(self.blocks, self.scales, self.guarantee.draws)

    @property
    def max_release_nbytes(self) -> int:
        """A bound that no honest release of one window exceeds; a receiver refuses what is
        longer."""
        return 4096 + 2 * self.release_nbytes + self.nbytes

    @cached_property
    def fingerprint(self) -> bytes:
        """8 bytes over all that decides what the counters mean and how they are protected."""
        views = [[list(view.names), list(view.bits), view.micro] for view in self.views]
        return form_digest(linear_form(self) | {"views": views})

    @property
    def additive(self) -> bool:
        return True

    def for_window(self, index: int) -> "ViewsSpec":
        """The spec of one window: the same for all, so that windows add up."""
        return self

    def start(self, rng: Entropy) -> "ViewsSketch":
        """A sketch of an empty window, noisy from its first instant."""
        return ViewsSketch(self, rng)


class ViewsSketch:
    """The secret state of one window: exactly `spec.nbytes` bytes of counters, and scratch."""

    def __init__(self, spec: ViewsSpec, rng: Entropy) -> None:
        self._spec = spec
        self._held = LinearCounters(spec, COUNTER, rng)
        self._counters = self._held.values
        self._encoder = PositionEncoder(spec.domain, READINGS_AT_ONCE)
        self._cells = ViewCells(spec.domain, spec.views, READINGS_AT_ONCE)

    def __repr__(self) -> str:
        return f"ViewsSketch({self._spec!r})"

    def __reduce__(self) -> str:
        raise TypeError("a sketch is secret: it is never copied or stored")

    def update_many(self, readings: npt.NDArray[np.float64]) -> None:
        """Absorb readings, float64[n, d] in the domain's units: 1 is added to one cell of every
        view.

        A reading with a NaN or an infinity is dropped, a value out of bounds is clipped. Raises
        ValueError for another shape, SketchClosed after the release.
        """
        self._held.check_open()
        for positions in self._encoder.encode(readings):
            self._cells.count(positions, self._counters)

    def rerandomise(self, rng: Entropy) -> None:
        """An announced intrusion: a fresh draw on every counter, as large as the first."""
        self._held.check_open()
        self._held.add_noise(rng)

    def release(self, rng: Entropy, window: WindowId | None = None) -> Release:
        """The noisy counters of this window, once; the sketch is closed and its memory erased.

        `window` labels the release; without it a random identifier does. Raises SketchClosed.
        """
        return self._held.release(rng, window)
