"""Kills of brokers, collectors and databases during a run, each at its turn of the releases.

A service manager's part is played as well: what has ended is started again at once.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from testbed.fleet_simulator.server import Server

POLL_SECONDS = 0.02


class Kills:
    """SIGKILLs of one run, spread over its releases.

    Attributes:
        done: kills so far, by the role of the program.
        restarts: programs that ended for another reason, and were started again.
        problem: why a program could not be started again, or "".
    """

    def __init__(
        self, server: Server, many: int, releases: int, acknowledged: Callable[[], int], seed: int
    ) -> None:
        """`many`: kills in all. `acknowledged`: how many of `releases` are."""
        self._server, self._acknowledged = server, acknowledged
        dice = random.Random(seed)
        kinds = list(server.programs) + ["postgresql"] * (server.database is not None)
        turns = (many + len(kinds) - 1) // len(kinds)
        names = [name for _ in range(turns) for name in dice.sample(kinds, len(kinds))]
        places = sorted(dice.randrange(releases) for _ in range(many))
        self._due = list(zip(places, names, strict=False))[::-1]
        self._stop = threading.Event()
        self.done = Counter[str]()
        self.restarts = 0
        self.problem = ""

    @contextmanager
    def during(self) -> Iterator[None]:
        """Kills in the meantime."""
        thread = threading.Thread(target=self._run, name="kills")
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def keep_pace(self) -> None:
        """Waits while more than one kill is overdue, so that a fast run does not outrun them."""
        while self._overdue() > 1 and not self.problem:
            time.sleep(POLL_SECONDS)

    def _run(self) -> None:
        try:
            while not self._stop.wait(POLL_SECONDS):
                self._restart_ended()
                self._kill_due()
            self._kill_due()
        except Exception as error:
            self.problem = f"a killed program does not start again: {error}"

    def _kill_due(self) -> None:
        while self._overdue():
            self._kill(self._due[-1][1])
            self._due.pop()

    def _overdue(self) -> int:
        """The number of kills that the run has passed."""
        acknowledged = self._acknowledged()
        return sum(place <= acknowledged for place, _ in self._due)

    def _kill(self, name: str) -> None:
        victim = self._server.database if name == "postgresql" else self._server.programs[name]
        assert victim is not None  # It is among the kinds.
        victim.kill()
        self.done[name] += 1
        victim.start()

    def _restart_ended(self) -> None:
        for program in self._server.programs.values():
            if program.ended():
                program.start()
                self.restarts += 1
