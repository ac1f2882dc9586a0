"""What happens to a window that is over: debit, release, encode, persist. In this order, once.

A crash after the debit loses the window; none can make a second release of it.
"""

import logging

from pansketch import Entropy, WindowId, encode
from pansketch_agent.host.clock import utc_text
from pansketch_agent.ledger.ledger import Ledger
from pansketch_agent.outbox.outbox import Key, Outbox, OutboxFullError
from pansketch_agent.windows.window import ClosedWindow

LOG = logging.getLogger(__name__)


class ReleaseWriter:
    """Turns the closed windows of one stream into releases in the outbox; `daily_cap_micro`: the
    most micro-epsilon a day, None: no cap.
    """

    def __init__(
        self,
        device: str,
        stream: str,
        rng: Entropy,
        ledger: Ledger,
        outbox: Outbox,
        daily_cap_micro: int | None = None,
    ) -> None:
        self._device, self._stream, self._rng = device, stream, rng
        self._ledger, self._outbox, self._cap_micro = ledger, outbox, daily_cap_micro

    def publish(
        self, closed: ClosedWindow, epsilon_micro: int, clock_synchronised: bool | None = None
    ) -> None:
        """The release says whether the clock was synchronised when its window closed.

        Raises LedgerError when the debit is not on disk, DailyCapError when the stream's cap
        forbids it; then there is no release.

        A release that the outbox cannot take is dropped, in one line: its window is spent.
        """
        start, end = closed.span.start, closed.span.end
        sequence = self._ledger.debit(self._stream, start, end, epsilon_micro, self._cap_micro)
        window = WindowId(
            self._device,
            self._stream,
            sequence,
            start,
            end,
            clock_synchronised,
            self._ledger.incarnation,
        )
        payload = encode(closed.sketch.release(self._rng, window))
        what = f"{self._stream}: window {utc_text(start)} to {utc_text(end)}, release {sequence}"
        try:
            self._outbox.put(Key(sequence, self._stream), payload)
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
