"""What happens to a window that is over: debit, release, encode, persist. In this order, once.

A crash after the debit loses the window; none can make a second release of it. Of a source with
several sketches one debit pays for all of them, before the first release.
"""

import logging
from collections.abc import Mapping

from pansketch import Entropy, WindowId, encode
from pansketch_agent.host.clock import utc_text
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.outbox import Key, Outbox, OutboxFullError
from pansketch_agent.windows.window import ClosedWindow

LOG = logging.getLogger(__name__)


class ReleaseWriter:
    """Turns the closed windows of one source into releases in the outbox.

    `micro`: what a release of each of its streams costs, in the order of a window's sketches;
    `daily_cap_micro`: the most micro-epsilon a day of all of them together, None: no cap.
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
        """The releases say whether the clock was synchronised when their window closed.

        Raises LedgerError when the debit of all of them is not on disk, DailyCapError when the cap
        forbids it; then there is no release.
        """
        start, end = closed.span.start, closed.span.end
        sequences = self._ledger.debit(self._micro, start, end, self._cap_micro)
        for stream, sketch in zip(self._micro, closed.sketches, strict=True):
            label = WindowId(
                self._device,
                stream,
                sequences[stream],
                start,
                end,
                clock_synchronised,
                self._ledger.incarnation,
            )
            self._put(label, encode(sketch.release(self._rng, label)))

    def _put(self, label: WindowId, payload: bytes) -> None:
        """A release that the outbox cannot take is dropped, in one line: its window is spent."""
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
