"""The privacy guarantee for one protected unit, in exact integers.

Neighbouring streams differ by adding or removing one unit (unbounded differential privacy). Budgets
are integers of micro-epsilon, so that a ledger adds them without rounding.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from pansketch.budget import MICRO, split_budget

__all__ = [
    "MAX_EPSILON",
    "MAX_KEEPERS",
    "MICRO",
    "MIN_KEEPERS",
    "Aggregation",
    "Guarantee",
    "Intrusion",
    "Privacy",
    "Span",
    "Unit",
    "readings_of",
    "split_budget",
]

Intrusion = Literal["silent", "announced"]
Aggregation = Literal["local", "blinded"]

MAX_EPSILON = 100
MAX_KEEPERS = 16
MIN_KEEPERS = 2  # One alone could open, with the collector, what its masks hide.


@dataclass(frozen=True)
class Span:
    """A unit of several readings. The caller passes no more readings of one span to a sketch.

    Args:
        seconds: length of the span.
        max_readings: maximum number of readings in any `seconds` in a row.

    Raises:
        ValueError: a number is out of range.
    """

    seconds: int
    max_readings: int

    def __post_init__(self) -> None:
        for name in ("seconds", "max_readings"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"a span's {name} must be a whole number of 1 or more")

    def __str__(self) -> str:
        return f"span of {self.seconds} s with at most {self.max_readings} readings"


Unit = Literal["reading", "key"] | Span


@dataclass(frozen=True)
class Privacy:
    """The privacy guarantee that a configuration asks for.

    Args:
        epsilon: the joint loss of one unit, over a seized state and all releases: 0.000001 to 100.
        unit: what neighbouring streams differ in: one "reading", a `Span` of readings, or all that
            bear one "key" in one window on one device.
        intrusion: "silent" covers one snapshot that the device never notices while it goes on
            publishing. "announced" covers a seized device that publishes no more, and snapshots
            that it knows of.
        aggregation: "local": each device adds all noise itself; "blinded": masks hide the counters
            of readings, and keepers add the noise to answers (docs/decisions/0022).
        local_epsilon: with "blinded", the maximum loss to all keepers and the collector together:
            the devices draw noise for this larger epsilon too. None: they draw none.

    Raises:
        ValueError: any other value, or values that contradict each other.

    Reference:
        Dwork, Naor, Pitassi, Rothblum, Yekhanin, "Pan-private streaming algorithms", ICS 2010.
    """

    epsilon: float
    unit: Unit = "reading"
    intrusion: Intrusion = "silent"
    aggregation: Aggregation = "local"
    local_epsilon: float | None = None

    def __post_init__(self) -> None:
        _check_epsilon("epsilon", self.epsilon)
        if not isinstance(self.unit, Span) and self.unit not in ("reading", "key"):
            raise ValueError(f"unit must be reading, key or a span, not {self.unit!r}")
        if self.intrusion not in get_args(Intrusion):
            known = ", ".join(get_args(Intrusion))
            raise ValueError(f"intrusion must be one of {known}, not {self.intrusion!r}")
        if self.aggregation not in get_args(Aggregation):
            known = ", ".join(get_args(Aggregation))
            raise ValueError(f"aggregation must be one of {known}, not {self.aggregation!r}")
        if self.aggregation == "blinded":
            self._check_blinded()
        elif self.local_epsilon is not None:
            raise ValueError("local_epsilon is for aggregation blinded; local has epsilon alone")

    def _check_blinded(self) -> None:
        if self.unit == "key":
            raise ValueError("masked counters count readings, not keys: use aggregation local")
        if self.intrusion != "silent":
            raise ValueError("masks cover unnoticed snapshots: use intrusion silent with blinded")
        if self.local_epsilon is not None:
            _check_epsilon("local_epsilon", self.local_epsilon)
            if self.local_epsilon <= self.epsilon:
                raise ValueError(
                    "local_epsilon must be larger than epsilon: with as much noise on the device "
                    "aggregation local needs no keepers"
                )

    @property
    def epsilon_micro(self) -> int:
        """Epsilon in whole micro-epsilon, rounded down: noise is never smaller than asked for."""
        return int(Fraction(str(self.epsilon)) * MICRO)

    @property
    def local_micro(self) -> int:
        """`local_epsilon` in whole micro-epsilon, rounded down; 0 without one."""
        return int(Fraction(str(self.local_epsilon or 0)) * MICRO)


def _check_epsilon(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, not {type(value).__name__}")
    if not 1 / MICRO <= value <= MAX_EPSILON:
        raise ValueError(f"{name} must lie between 0.000001 and {MAX_EPSILON}, not {value:g}")


@dataclass(frozen=True)
class Guarantee:
    """The privacy guarantee for one unit of one stream of one device.

    In other streams, and on other devices, a unit spends more epsilon: their releases have noise of
    their own, and the losses add up. A span spends epsilon for each of its readings, in any window.
    A key spends it once in each of its windows on each device.

    `epsilon_micro` bounds snapshot and releases jointly. For linear counters it is their maximum,
    because a reading arrives either before or after the snapshot. For keys it is their sum, because
    a key may appear before and after it. Of masked counters neither shows anything, and an answer
    costs the unit all of it, under the assumption that X25519, BLAKE2b and ChaCha20 hold.

    Args:
        unit: what neighbouring streams differ in.
        intrusion: the snapshots that are covered, as in `Privacy`.
        state_micro: what a snapshot of the state alone costs the unit, in micro-epsilon.
        release_micro: what the release costs by its fresh noise alone, in micro-epsilon; 0: it adds
            none.
        delta: probability that the bound fails: 0 for every family.
        answer_micro: of masked counters, what all answers of one keeper cost together; 0: the
            counters have noise of their own and no masks.
        local_micro: of masked counters, the maximum loss to all keepers and the collector together;
            0: there is no such bound.

    Reference:
        Dwork, Naor, Pitassi, Rothblum, Yekhanin, "Pan-private streaming algorithms", ICS 2010.
    """

    unit: Unit
    intrusion: Intrusion
    state_micro: int
    release_micro: int
    delta: float = 0.0
    answer_micro: int = 0
    local_micro: int = 0

    @classmethod
    def of_linear_counters(cls, privacy: Privacy) -> "Guarantee":
        """The guarantee of counters to which each reading adds a bounded number.

        Args:
            privacy: epsilon, unit and intrusion.

        Returns:
            The guarantee: whole micro-epsilon for each reading of a unit.

        Raises:
            ValueError: the unit is "key", which counters of readings cannot bound, or epsilon is
                too small for the readings of a span.
        """
        if privacy.unit == "key":
            raise ValueError("this sketch counts readings, not keys: use unit reading, or a span")
        readings = readings_of(privacy.unit)
        micro = privacy.epsilon_micro // readings * readings
        if not micro:
            raise ValueError("epsilon is too small to be shared among the readings of a span")
        if privacy.aggregation == "blinded":
            local = privacy.local_micro // readings * readings
            return cls(privacy.unit, privacy.intrusion, 0, 0, 0.0, micro, local)
        fresh = micro if privacy.intrusion == "silent" else 0
        return cls(privacy.unit, privacy.intrusion, micro, fresh)

    @classmethod
    def of_keys(cls, privacy: Privacy, output_share: Fraction) -> "Guarantee":
        """The guarantee of a sketch that counts keys.

        Args:
            privacy: epsilon, unit and intrusion.
            output_share: the share of epsilon for the fresh noise of the release; the state gets
                the rest. With announced intrusions the state gets all of it, for any share.

        Returns:
            The guarantee, in whole micro-epsilon.

        Raises:
            ValueError: the unit is not "key", or the state or the output would get nothing.
        """
        if privacy.unit != "key":
            raise ValueError("this sketch counts keys, not readings: use unit key")
        fresh = 0
        if privacy.intrusion == "silent":
            fresh = int(privacy.epsilon_micro * output_share)
            if not 0 < fresh < privacy.epsilon_micro:
                raise ValueError("epsilon is too small to be shared between state and output")
        return cls(privacy.unit, privacy.intrusion, privacy.epsilon_micro - fresh, fresh)

    @property
    def epsilon_micro(self) -> int:
        if self.unit == "key":
            return self.state_micro + self.release_micro
        return max(self.state_micro, self.release_micro, self.answer_micro)

    @property
    def epsilon(self) -> float:
        return self.epsilon_micro / MICRO

    @property
    def draws(self) -> int:
        """Draws in every counter of a release, if no intrusion was announced: 2 silent, else 1. Of
        masked counters in an answer of the fewest keepers."""
        if self.answer_micro:
            return MIN_KEEPERS
        return 2 if self.release_micro else 1

    @property
    def local_factor(self) -> Fraction:
        """The scale of the devices' own draws under the masks, as a part of the declared one."""
        return Fraction(self.answer_micro, self.local_micro) if self.local_micro else Fraction(0)

    @property
    def reading_micro(self) -> int:
        """Cost of one reading, or of one appearance of a key: it arrives either before or after the
        snapshot. The noise of linear counters is calibrated to it."""
        if self.unit == "key":
            return max(self.state_micro, self.release_micro)
        return self.epsilon_micro // readings_of(self.unit)

    def __str__(self) -> str:
        if self.answer_micro:
            return f"{self._cost()}, delta {self.delta:g}, aggregation blinded: {self._blinded()}"
        covered = {
            "silent": "the release and one unnoticed snapshot of the device, jointly",
            "announced": "the release, or a snapshot of a device that publishes no more",
        }[self.intrusion]
        return f"{self._cost()}, delta {self.delta:g}, intrusion {self.intrusion}: {covered}"

    def _blinded(self) -> str:
        covered = (
            "all answers, releases and snapshots of different epochs, jointly, to an adversary "
            "who holds all keepers but one and breaks neither X25519, BLAKE2b nor ChaCha20"
        )
        if not self.local_micro:
            return f"{covered}; all keepers together read every counter"
        return f"{covered}; epsilon {self.local_micro / MICRO:g} to all keepers together"

    def _cost(self) -> str:
        if self.unit == "key":
            parts = f"state {self.state_micro / MICRO:g} + output {self.release_micro / MICRO:g}"
            return (
                f"epsilon {self.epsilon:g} per key per window per device ({parts}; add or remove "
                "all its appearances), in w windows on d devices w x d times"
            )
        each = f" ({self.reading_micro / MICRO:g} each)" if isinstance(self.unit, Span) else ""
        return f"epsilon {self.epsilon:g} per {self.unit}{each} per stream (add or remove one)"


def readings_of(unit: Unit) -> int:
    """Return the maximum number of readings in a unit.

    Args:
        unit: "reading", "key" or a span.

    Returns:
        The maximum of a span, else 1.
    """
    return unit.max_readings if isinstance(unit, Span) else 1
