"""Caches of the HTTP process: fitted models, their last answers, and the overview of the fleet.

A fit and a full count of a large database take seconds. A cached result expires after a time that
grows with its cost.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from pansketch_collector import clock
from pansketch_collector.http.server.executors import Executors, SharedTask
from pansketch_collector.queries.fleet_model import Model, build
from pansketch_collector.queries.generator_registry import GeneratorChoice, choose
from pansketch_collector.queries.robust_merge import Groups, build_groups
from pansketch_collector.reports.devices import Overview, overview
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.config.loader import Config

MAX_MODELS = 8
MAX_ANSWERS = 64  # of each
SHARE = 5.0  # times as long as its fit and its slowest answer took, a model answers

Answered = Mapping[str, Any]
Asked = tuple[Selection, GeneratorChoice] | tuple[str, tuple[Selection, ...]]
Mark = tuple[tuple[int, int, int], ...]


@dataclass(eq=False)
class CachedModel:
    """A model, or the work on it; or an answer that is made of several models.

    Questions to one model wait for each other: it computes what they share once. `mark` says which
    releases it is made of; `answers`: those given last, by question. `fitted_at`: on the clock that
    never jumps, inf until then; times are seconds.
    """

    mark: Mark
    fit: SharedTask[Any]
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    answers: OrderedDict[str, SharedTask[Answered]] = field(default_factory=OrderedDict)
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
        self, desk: Executors, config: Config, most: int = MAX_MODELS, share: float = SHARE
    ) -> None:
        self._desk, self._config, self._most, self._share = desk, config, most, share
        self._kept: OrderedDict[Asked, CachedModel] = OrderedDict()

    async def model(self, selection: Selection, choice: GeneratorChoice) -> Model:
        """The model of all selected releases that are stored, or were when a model was made that is
        not old yet. Raises CommandError."""
        kept = await self._find(selection, choice)
        model = await kept.fit.wait()
        assert isinstance(model, Model), "check_answers refuses a robust sample"
        return model

    async def ask(
        self,
        selection: Selection,
        choice: GeneratorChoice,
        name: str,
        question: Callable[[Model | Groups], Answered],
    ) -> tuple[Answered, Model | Groups]:
        """What a question makes of the model, and the model; asked once for all of one `name`."""
        kept = await self._find(selection, choice)
        model = await kept.fit.wait()
        found = kept.answers.get(name)
        if found is None:
            found = self._begin_answer(kept, name, lambda: question(model))
        return await found.wait(), model

    def _begin_answer(
        self, kept: CachedModel, name: str, work: Callable[[], Answered]
    ) -> SharedTask[Answered]:
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
        if len(kept.answers) > MAX_ANSWERS:
            kept.answers.popitem(last=False)
        return found

    async def made(
        self, name: str, selections: tuple[Selection, ...], make: Callable[[Reader], Answered]
    ) -> Answered:
        """An answer that is made of releases, and not of one model: a series, or two periods. It is
        made once for all of one `name`. Raises CommandError."""
        kept = await self._kept_of((name, selections), selections, make)
        answered: Answered = await kept.fit.wait()
        return answered

    def forget(self) -> None:
        """Whoever asks next is answered from the releases as they are then."""
        self._kept.clear()

    async def _find(self, selection: Selection, choice: GeneratorChoice) -> CachedModel:
        stream = next(s for s in self._config.streams if s.name == selection.stream)
        choice = replace(choice, name=choose(stream.name, stream.spec.family, choice))
        fit = build_groups if choice.robust else build
        return await self._kept_of(
            (selection, choice),
            (selection,),
            lambda reader: fit(reader, self._config, selection, choice),
        )

    async def _kept_of(
        self, asked: Asked, selections: tuple[Selection, ...], make: Callable[[Reader], Any]
    ) -> CachedModel:
        mark = await self._desk.read(lambda reader: tuple(map(reader.mark, selections)))
        kept = self._kept.get(asked)
        if kept is None or (kept.mark != mark and clock.uptime() >= kept.good_until(self._share)):
            kept = self._begin(asked, mark, make)
        self._kept.move_to_end(asked)
        return kept

    def _begin(self, asked: Asked, mark: Mark, make: Callable[[Reader], Any]) -> CachedModel:
        def fit() -> Any:
            began = clock.uptime()
            model = self._desk.ask(make)
            kept.fitted_at = clock.uptime()
            kept.fitting = kept.fitted_at - began
            return model

        def forget() -> None:
            if self._kept.get(asked) is kept:
                del self._kept[asked]

        kept = CachedModel(mark, self._desk.share(self._desk.fits, fit, forget))
        self._kept[asked] = kept
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return kept


MIN_AGE_SECONDS = 1.0
COUNT_SHARE = 20  # of the time at most, a large database is being counted


@dataclass(frozen=True)
class Count:
    """`found` as it was at `at`, in unix seconds."""

    found: Overview
    at: int


class CachedCount:
    """The last count, renewed when somebody asks and it is old: the older, the longer it took."""

    def __init__(self, desk: Executors, config: Config) -> None:
        self._desk, self._config = desk, config
        self._last: SharedTask[Count] | None = None
        self._good_until = 0.0

    async def count(self) -> Count:
        """Raises CommandError when the database cannot be read."""
        if self._last is None or clock.uptime() >= self._good_until:
            self._good_until = inf  # Until it is made.
            self._last = self._desk.share(self._desk.reads, self._make, self.forget)
        return await self._last.wait()

    def _make(self) -> Count:
        began, at = clock.uptime(), clock.now()
        found = self._desk.ask(lambda reader: overview(reader, self._config))
        took = clock.uptime() - began
        self._good_until = clock.uptime() + max(MIN_AGE_SECONDS, COUNT_SHARE * took)
        return Count(found, at)

    def forget(self) -> None:
        """The next one who asks has it counted anew."""
        self._last = None
