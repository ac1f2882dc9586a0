"""Fitted models, kept: fitting takes seconds, and answering from a model hardly any time."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from collector.generators import Choice, choose
from collector.model import Model, build
from collector.reader import Selection
from collector.web.desk import Desk
from fleet.config import Config

MOST_MODELS = 8
MOST_ANSWERS = 64  # of each

Answered = Mapping[str, Any]
Asked = tuple[Selection, Choice]
Mark = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Kept:
    """A model, or the work on it. Questions to one model wait for each other: it computes what they
    share once. `mark` says which releases it is made of; `answers`: those given last, by question.
    """

    mark: Mark
    task: "asyncio.Task[Model]"
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    answers: OrderedDict[str, Answered] = field(default_factory=OrderedDict)


class Models:
    """The newest models by what was asked: one for a selection and a generator, and one fit at a
    time for each. For one event loop."""

    def __init__(self, desk: Desk, config: Config, most: int = MOST_MODELS) -> None:
        self._desk, self._config, self._most = desk, config, most
        self._kept: OrderedDict[Asked, Kept] = OrderedDict()

    async def model(self, selection: Selection, choice: Choice) -> Model:
        """The model of all selected releases that are stored now. Raises CommandError."""
        kept = await self._find(selection, choice)
        # Whoever goes away meanwhile leaves the fit to the others that wait for it.
        return await asyncio.shield(kept.task)

    async def ask(
        self,
        selection: Selection,
        choice: Choice,
        name: str,
        question: Callable[[Model], Answered],
    ) -> tuple[Answered, Model]:
        """What a question makes of the model, and the model; asked once for all of one `name`."""
        kept = await self._find(selection, choice)
        model = await asyncio.shield(kept.task)
        async with kept.turn:
            if name not in kept.answers:
                found = await self._desk.run(self._desk.fits, lambda: question(model))
                kept.answers[name] = found
                if len(kept.answers) > MOST_ANSWERS:
                    kept.answers.popitem(last=False)
            return kept.answers[name], model

    async def _find(self, selection: Selection, choice: Choice) -> Kept:
        stream = next(s for s in self._config.streams if s.name == selection.stream)
        asked = selection, replace(choice, name=choose(stream.name, stream.spec.family, choice))
        mark = await self._desk.read(lambda reader: reader.mark(selection))
        kept = self._kept.get(asked)
        if kept is None or kept.mark != mark:
            kept = self._begin(asked, mark)
        self._kept.move_to_end(asked)
        return kept

    def _begin(self, asked: Asked, mark: Mark) -> Kept:
        kept = Kept(mark, asyncio.create_task(self._fit(*asked)))
        self._kept[asked] = kept
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

        def drop_failed(task: "asyncio.Task[Model]") -> None:
            failed = task.cancelled() or task.exception() is not None
            if failed and self._kept.get(asked) is kept:
                del self._kept[asked]

        kept.task.add_done_callback(drop_failed)
        return kept

    async def _fit(self, selection: Selection, choice: Choice) -> Model:
        def fit() -> Model:
            return self._desk.ask(lambda reader: build(reader, self._config, selection, choice))

        return await self._desk.run(self._desk.fits, fit)
