"""The end of a window: debit, release, encode, persist. In this order, once.

A crash after the debit loses the window; none can release it twice. For a source with several
sketches, one debit covers all of them, before the first release.

Masks are bound to the label of the release. So a blinded window is debited when it starts, before
its first mask: no label ever has masks of two sketches.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pansketch import Entropy, Spec, WindowId, encode
from pansketch.blinding import BlindedSketch
from pansketch.blinding import start as start_blinded
from pansketch.randomness import KeyEntropy
from pansketch.sketches import LinearSpec
from pansketch.wire import encode_blinded
from pansketch_agent.host.clock import utc_text
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.outbox import Key, Outbox, OutboxFullError
from pansketch_agent.windows.window import ClosedWindow, WindowBounds

LOG = logging.getLogger(__name__)


class ReleaseWriter:
    """Turns the closed windows of one source into releases in the outbox.

    `micro`: micro-epsilon of a release of each stream, in the order of a window's sketches.
    `daily_cap_micro`: the maximum a day of all of them together, None: no cap.
    """

    def __init__(
        self,
        device: str,
        micro: Mapping[str, int],
        rng: Entropy,
        ledger: Ledger,
        outbox: Outbox,
        daily_cap_micro: int | None = None,
    ) -> None:
        self._device, self._micro, self._rng = device, micro, rng
        self._ledger, self._outbox, self._cap_micro = ledger, outbox, daily_cap_micro

    def publish(self, closed: ClosedWindow, clock_synchronised: bool | None = None) -> None:
        """Debit, release and persist a closed window, labelled with the state of the clock.

        Raises LedgerError when the debit is not on disk, DailyCapError when the cap forbids it;
        then there is no release.
        """
        labels = self.debit(closed.span)
        for label, sketch in zip(labels, closed.sketches, strict=True):
            assert not isinstance(sketch, BlindedSketch)
            label = replace(label, clock_synchronised=clock_synchronised)
            self.put(label, encode(sketch.release(self._rng, label)))

    def debit(self, bounds: WindowBounds) -> list[WindowId]:
        """Return the labels of a window, one for each stream, after their debits are on disk.

        Raises as `publish`.
        """
        start, end = bounds.start, bounds.end
        sequences = self._ledger.debit(self._micro, start, end, self._cap_micro)
        incarnation = self._ledger.incarnation
        return [
            WindowId(self._device, stream, sequences[stream], start, end, None, incarnation)
            for stream in self._micro
        ]

    def put(self, label: WindowId, payload: bytes) -> None:
        """Queue a release. If the outbox refuses it, it is dropped with one log line: its window is
        spent.
        """
        span = f"{utc_text(label.start)} to {utc_text(label.end)}"
        what = f"{label.stream}: window {span}, release {label.sequence}"
        try:
            self._outbox.put(Key(label.sequence, label.stream), payload)
        except OutboxFullError:
            LOG.error("%s is dropped: the outbox is full; check the collector", what)
        except OSError as error:
            LOG.error(
                "%s is dropped: the outbox cannot be written (%s); free the disk",
                what,
                error.strerror,
            )
        else:
            LOG.info("%s is in the outbox", what)


class BlindedWriter:
    """Starts the windows of a blinded stream and writes their releases.

    `writer`: has the ledger and the outbox. `keepers`: their public keys.
    """

    def __init__(
        self, writer: ReleaseWriter, rng: KeyEntropy, fleet: str, keepers: tuple[bytes, ...]
    ) -> None:
        self._writer, self._rng, self._fleet, self._keepers = writer, rng, fleet, keepers

    def start(self, specs: Sequence[Spec], bounds: WindowBounds) -> tuple[BlindedSketch, ...]:
        """Debit a window and start its sketches. Raises as `ReleaseWriter.publish`, without a
        sketch.
        """
        found = []
        for label, spec in zip(self._writer.debit(bounds), specs, strict=True):
            assert isinstance(spec, LinearSpec)
            found.append(start_blinded(spec, self._rng, self._fleet, label, self._keepers))
        return tuple(found)

    def publish(self, closed: ClosedWindow, clock_synchronised: bool | None = None) -> None:
        """See `ReleaseWriter.publish`; the debit was at the window's start."""
        for sketch in closed.sketches:
            assert isinstance(sketch, BlindedSketch)
            released = sketch.release(self._rng)
            label = replace(released.window, clock_synchronised=clock_synchronised)
            self._writer.put(label, encode_blinded(replace(released, window=label)))
