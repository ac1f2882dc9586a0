"""Fitted models, kept: fitting takes seconds, and answering from a model hardly any time."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from collector import clock
from collector.generators import Choice, choose
from collector.model import Model, build
from collector.reader import Selection
from collector.web.desk import Desk
from collector.web.shared import Shared
from fleet.config import Config

MOST_MODELS = 8
MOST_ANSWERS = 64  # of each
SHARE = 5.0  # times as long as its fit and its slowest answer took, a model answers

Answered = Mapping[str, Any]
Asked = tuple[Selection, Choice]
Mark = tuple[int, int, int]


@dataclass(eq=False)
class Kept:
    """A model, or the work on it. Questions to one model wait for each other: it computes what they
    share once. `mark` says which releases it is made of; `answers`: those given last, by question.
    `fitted_at`: on the clock that never jumps, inf until then; times are seconds.
    """

    mark: Mark
    fit: Shared[Model]
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    answers: OrderedDict[str, Shared[Answered]] = field(default_factory=OrderedDict)
    fitted_at: float = inf
    fitting: float = 0.0
    slowest_answer: float = 0.0

    def good_until(self, share: float) -> float:
        """Until when it answers also for releases that came later."""
        return self.fitted_at + share * (self.fitting + self.slowest_answer)


class Models:
    """The newest models by what was asked: one for a selection and a generator, and one fit at a
    time for each. For one event loop."""

    def __init__(
        self, desk: Desk, config: Config, most: int = MOST_MODELS, share: float = SHARE
    ) -> None:
        self._desk, self._config, self._most, self._share = desk, config, most, share
        self._kept: OrderedDict[Asked, Kept] = OrderedDict()

    async def model(self, selection: Selection, choice: Choice) -> Model:
        """The model of all selected releases that are stored, or were when a model was made that is
        not old yet. Raises CommandError."""
        kept = await self._find(selection, choice)
        return await kept.fit.wait()

    async def ask(
        self,
        selection: Selection,
        choice: Choice,
        name: str,
        question: Callable[[Model], Answered],
    ) -> tuple[Answered, Model]:
        """What a question makes of the model, and the model; asked once for all of one `name`."""
        kept = await self._find(selection, choice)
        model = await kept.fit.wait()
        found = kept.answers.get(name)
        if found is None:
            found = self._begin_answer(kept, name, lambda: question(model))
        return await found.wait(), model

    def _begin_answer(
        self, kept: Kept, name: str, work: Callable[[], Answered]
    ) -> Shared[Answered]:
        def forget() -> None:
            if kept.answers.get(name) is found:
                del kept.answers[name]

        def timed() -> Answered:
            began = clock.uptime()
            answered = work()
            kept.slowest_answer = max(kept.slowest_answer, clock.uptime() - began)
            return answered

        found = self._desk.share(self._desk.fits, timed, forget, kept.turn)
        kept.answers[name] = found
        if len(kept.answers) > MOST_ANSWERS:
            kept.answers.popitem(last=False)
        return found

    async def _find(self, selection: Selection, choice: Choice) -> Kept:
        stream = next(s for s in self._config.streams if s.name == selection.stream)
        asked = selection, replace(choice, name=choose(stream.name, stream.spec.family, choice))
        mark = await self._desk.read(lambda reader: reader.mark(selection))
        kept = self._kept.get(asked)
        if kept is None or (kept.mark != mark and clock.uptime() >= kept.good_until(self._share)):
            kept = self._begin(asked, mark)
        self._kept.move_to_end(asked)
        return kept

    def _begin(self, asked: Asked, mark: Mark) -> Kept:
        def fit() -> Model:
            began = clock.uptime()
            model = self._desk.ask(lambda reader: build(reader, self._config, *asked))
            kept.fitted_at = clock.uptime()
            kept.fitting = kept.fitted_at - began
            return model

        def forget() -> None:
            if self._kept.get(asked) is kept:
                del self._kept[asked]

        kept = Kept(mark, self._desk.share(self._desk.fits, fit, forget))
        self._kept[asked] = kept
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return kept
