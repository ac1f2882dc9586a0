"""The pan-private distinct counter: the number of distinct keys in a window.

Digalakis, Karystinos and Garofalakis, "Improved pan-private stream density estimation" (PPDS and
OptBern), after Dwork et al., "Pan-private streaming algorithms" (ICS 2010). A tracked key has one
bit. It is drawn at first with one probability, and again with a higher one at each appearance.

Three things differ from the papers (docs/explanation/privacy.md). The tracked keys are public and
fixed before the stream. The noise of the output is fitted to the output's real sensitivity. A key's
slot is its address, so the state consists of bits alone.

Without a guess of the number of keys, slots are on levels that sample ever fewer keys, and every
level exists from the start. A key's level is a function of its public hash alone.
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import get_args

from pansketch.estimate import Estimate
from pansketch.privacy import MICRO, Guarantee, Privacy
from pansketch.randomness.exact_noise import Chance, Entropy, LogOdds
from pansketch.randomness.keyed_hash import derive_word, form_digest
from pansketch.sketches.counter_bounds import ALLOWANCE, CounterBounds, bit_bounds, sum_quantile
from pansketch.sketches.distinct.sketch import DistinctSketch
from pansketch.sketches.distinct.variants import (
    Form,
    Variant,
    chances,
    key_guarantee,
    output_variance,
)
from pansketch.sketches.level_occupancy import LevelEstimator, level_sizes
from pansketch.sketches.release_model import Release
from pansketch.sketches.slot_occupancy import Channel, KeyEstimator

MAX_KEYS = 1 << 40
MAX_BYTES = 1 << 24
MAX_BITMAP_BYTES = 1 << 19


@dataclass(frozen=True)
class DistinctSpec:
    """Public description of a distinct counter. At most one of `universe` and `expected_keys`;
    with neither its slots lie on several levels, for any number of keys, texts or integers.

    Args:
        privacy: epsilon, unit (a key) and intrusion.
        universe: keys are the integers below it; a random sample of them is tracked, one bit each.
        expected_keys: the number of distinct keys in a window; of all devices together if releases
            are united. Keys are any texts or integers, hashed to slots. With a right guess the
            error is smaller than that of levels, with a wrong one larger.
        memory: maximum bytes of the state.
        variant: "ppds", "optbern" or "dwork".
        release: a "count", which merges over devices that share no keys, or a "bitmap", whose
            merge is the union.
        turnstile: keys can be removed.
        output_share: share of epsilon for the noise of the release; None: the best one.
        hash_key: public 64-bit key of the sample and of the hashing.

    Attributes:
        tracked: slots that have a bit each.
        slots: all slots: the universe, or tracked * 2**level; of levels, the tracked ones.
        levels: how many slots each level has; none with `universe` or `expected_keys`.

    Raises:
        ValueError: the arguments contradict each other, or a number is out of range.

    Reference:
        "Improved Pan-Private Stream Density Estimation" (arXiv 2111.08784): PPDS, OptBern. Dwork
        et al., "Pan-private streaming algorithms" (ICS 2010). Levels: Estan, Varghese and Fisk,
        "Bitmap algorithms for counting active flows on high-speed links" (IMC 2003).
    """

    privacy: Privacy
    universe: int | None = None
    expected_keys: int | None = None
    memory: int = 4096
    variant: Variant = "ppds"
    release: Form = "count"
    turnstile: bool = False
    output_share: Fraction | None = None
    hash_key: int = 0
    family: str = field(default="distinct", init=False)
    tracked: int = field(default=0, init=False, repr=False, compare=False)
    level: int = field(default=0, init=False, repr=False, compare=False)
    levels: tuple[int, ...] = field(default=(), init=False, repr=False, compare=False)
    guarantee: Guarantee = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check()
        # Twice as many slots as keys is best: with more, empty slots add noise and nothing else.
        tracked = min(8 * self.memory, self.universe or 2 * (self.expected_keys or MAX_KEYS))
        levels = (
            level_sizes(tracked) if self.universe is None and self.expected_keys is None else ()
        )
        level = 0
        while self.expected_keys is not None and tracked << level < self.expected_keys:
            level += 1
        guarantee = key_guarantee(
            self.privacy, self.variant, self.release, levels or (tracked,), self.output_share
        )
        for name, value in (
            ("tracked", tracked),
            ("level", level),
            ("levels", levels),
            ("guarantee", guarantee),
        ):
            object.__setattr__(self, name, value)

    def _check(self) -> None:
        if self.universe is not None and self.expected_keys is not None:
            raise ValueError("give either universe (keys are numbered) or expected_keys, not both")
        memory = MAX_BITMAP_BYTES if self.release == "bitmap" else MAX_BYTES
        for name, low, high in (
            ("universe", 1, MAX_KEYS),
            ("expected_keys", 1, MAX_KEYS),
            ("memory", 1, memory),
            ("hash_key", 0, (1 << 64) - 1),
        ):
            value = getattr(self, name)
            if value is None and name in ("universe", "expected_keys"):
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name} must be a whole number, not {type(value).__name__}")
            if not low <= value <= high:
                raise ValueError(f"{name} must lie between {low} and {high}, not {value}")
        for name, known in (("variant", get_args(Variant)), ("release", get_args(Form))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}")
        if self.universe is None and (self.variant != "ppds" or self.turnstile):
            raise ValueError(
                "a removal would erase other keys of its slot: a turnstile needs a universe"
                if self.turnstile
                else f"{self.variant} samples an enumerated universe: give universe, or use ppds"
            )

    @property
    def slots(self) -> int:
        """Number of slots, tracked or not."""
        return self.universe or self.tracked << self.level

    @property
    def chances(self) -> tuple[Chance, Chance]:
        """P(a bit is 1): at first, and after an appearance of a key of its slot."""
        return chances(self.variant, self.guarantee.state_micro)

    @property
    def blocks(self) -> tuple[int, ...]:
        return (self.tracked if self.release == "bitmap" else max(1, len(self.levels)),)

    @property
    def additive(self) -> bool:
        """Counts of hashed keys are not: two keys in one slot count as one in it."""
        return self.release == "bitmap" or self.universe is not None

    @property
    def nbytes(self) -> int:
        """Bytes of the secret state, from its first instant to its last."""
        return -(-self.tracked // 8)

    @property
    def release_nbytes(self) -> int:
        """Bytes of one release on the wire, nearly."""
        counts = 4 * len(self.levels) or 8
        return 144 + (self.nbytes if self.release == "bitmap" else counts)

    @property
    def max_release_nbytes(self) -> int:
        """A bound that no honest release of one window exceeds; a receiver refuses what is
        longer."""
        return 4096 + 2 * self.release_nbytes

    @cached_property
    def fingerprint(self) -> bytes:
        """8 bytes over all that decides what the counters mean and how they are protected."""
        guarantee = self.guarantee
        form = {
            "family": self.family,
            "privacy": [
                guarantee.state_micro,
                guarantee.release_micro,
                str(guarantee.unit),
                guarantee.intrusion,
            ],
            "sizes": [self.universe or 0, self.tracked, self.level],
            **({"levels": list(self.levels)} if self.levels else {}),
            "form": [self.variant, self.release, self.turnstile],
            "hash_key": self.hash_key,
        }
        return form_digest(form)

    def for_window(self, index: int) -> "DistinctSpec":
        """The spec of one public window. Keys have other slots in each window, so that an observer
        cannot follow a key from window to window. Releases of different windows do not merge."""
        return replace(self, hash_key=derive_word(self.hash_key, f"window/{index}"))

    def counter_bounds(self, readings: int, draws: int) -> CounterBounds:
        """See `Spec.counter_bounds`: neither readings nor draws move a bound, since a slot is full
        or empty and an announced intrusion draws nothing."""
        noise = 0
        if self.release == "count" and self.guarantee.release_micro:
            scale = Fraction(MICRO, self.guarantee.release_micro)
            noise = sum_quantile(scale, 1, ALLOWANCE / 4 / max(1, len(self.levels)))
        return bit_bounds(self.estimator, self.levels or (self.tracked,), noise)

    def start(self, rng: Entropy) -> "DistinctSketch":
        """A sketch of an empty window, noisy from its first instant. It draws from `rng` again at
        each update."""
        return DistinctSketch(self, rng)

    def distinct(self, release: Release) -> Estimate:
        """See `Release.distinct`."""
        devices = release.count
        if self.levels:
            return self.level_estimator.keys(release.counters, devices)
        found = self.estimator.occupancy(release.counters, devices)
        return self.estimator.keys(found, devices)

    def density(self, release: Release) -> Estimate:
        """See `Release.density`.

        Raises:
            ValueError: the universe is open.
            NoEstimate: a ValueError; the noise outweighs the estimate.
        """
        if self.universe is None:
            raise ValueError(
                "an open universe has no density: ask how many distinct keys there are"
            )
        keys = self.distinct(release)
        return Estimate(keys.value / self.universe, keys.standard_error / self.universe)

    def planned_error(self, keys: int) -> float:
        """The standard error to expect of one release of a window.

        Args:
            keys: number of distinct keys in the window.

        Returns:
            The standard error, in keys.

        Raises:
            NoEstimate: a ValueError; the slots cannot tell so many keys apart.
        """
        found = self.level_estimator if self.levels else self.estimator
        return found.planned_error(keys)

    @property
    def flip(self) -> Chance | None:
        """P(a bit is turned over at the release): randomised response, for a silent bitmap."""
        if self.release == "count" or not self.guarantee.release_micro:
            return None
        return LogOdds(-Fraction(self.guarantee.release_micro, MICRO))

    @property
    def estimator(self) -> KeyEstimator:
        """Estimator of the number of keys from this spec's releases; of levels, each
        independently."""
        bitmap = self.release == "bitmap"
        channel = Channel(*(chance.probability for chance in self.chances))
        if self.flip is not None:
            channel = channel.flipped(self.flip.probability)
        noise = 0.0 if bitmap else float(output_variance(self.guarantee.release_micro))
        return KeyEstimator(self.universe, self.slots, self.tracked, bitmap, channel, noise)

    @property
    def level_estimator(self) -> LevelEstimator:
        """Estimator of one number of keys from releases of several levels."""
        each = self.estimator
        return LevelEstimator(self.levels, each.bitmap, each.channel, each.output_variance)
