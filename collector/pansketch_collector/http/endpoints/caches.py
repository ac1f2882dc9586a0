"""Caches of the HTTP process: fitted models, their last answers, and rows of series.

A fit of a large database takes seconds. A cached result expires after a time that grows with its
cost.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from pansketch_collector import clock
from pansketch_collector.http.server.etag import newer_releases
from pansketch_collector.http.server.executors import Executors, SharedTask
from pansketch_collector.periods.series import Found
from pansketch_collector.queries.fleet_model import Merged, Model, build
from pansketch_collector.queries.generator_registry import GeneratorChoice, choose
from pansketch_collector.queries.robust_merge import Groups, build_groups
from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.records import Selection
from pansketch_fleet.config.loader import Config

MAX_MODELS = 8
# Series and comparisons hold no model. The page asks a dozen of them for one stream.
MAX_DERIVED = 64
MAX_ANSWERS = 64  # of each model
LIFETIME_FACTOR = 5.0  # lifetime of a model, relative to its fit and its slowest answer

AnswerObject = Mapping[str, Any]
CacheKey = tuple[Selection, GeneratorChoice] | tuple[str, tuple[Selection, ...]]
Mark = tuple[int, int, int]


@dataclass(eq=False)
class CachedModel:
    """A model, or the work on it; or an answer that is derived from several models.

    Questions to one model run one after another, since they share computed results. `mark`: names
    its releases. `answers`: the last ones, by question. `fitted_at`: monotonic seconds, inf until
    then.
    """

    mark: tuple[Mark, ...]
    fit: SharedTask[Any]
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    answers: OrderedDict[str, SharedTask[AnswerObject]] = field(default_factory=OrderedDict)
    fitted_at: float = inf
    fit_seconds: float = 0.0
    slowest_answer: float = 0.0

    def expires_at(self, lifetime_factor: float) -> float:
        """Until then the model answers, even if newer releases are stored."""
        return self.fitted_at + lifetime_factor * (self.fit_seconds + self.slowest_answer)


class Entries(OrderedDict[CacheKey, CachedModel]):
    """The last used entries, at most so many."""

    def __init__(self, maximum: int) -> None:
        super().__init__()
        self._maximum = maximum

    def add(self, key: CacheKey, entry: CachedModel) -> None:
        """Adds an entry as the last used one, and removes those beyond the maximum."""
        self[key] = entry
        while len(self) > self._maximum:
            self.popitem(last=False)


MAX_ROWS_SIZE = 200_000  # in names of devices and reasons of omissions, of about 100 bytes each
BARE_ROW_SIZE = 20  # of a row without any


@dataclass(frozen=True)
class _CachedRow:
    marks: tuple[Mark, ...]
    exact: tuple[object, ...]
    found: Found
    size: int


class SeriesRows:
    """The last used rows of series, for several threads.

    A row is computed again once its releases change. If a stream goes on, these are the rows of the
    newest windows. The first marks of windows within one hour change together, so such a row has
    exact ones as well.
    """

    def __init__(self, max_size: int = MAX_ROWS_SIZE) -> None:
        self._max_size, self._size, self._lock = max_size, 0, threading.Lock()
        self._rows: OrderedDict[Hashable, _CachedRow] = OrderedDict()

    def answering(
        self,
        reader: Reader,
        name: Hashable,
        releases: Sequence[Selection],
        answer: Callable[[], Found],
    ) -> Found:
        """The cached row of this name, otherwise the row that `answer` returns."""
        marks = tuple(map(reader.mark, releases))
        with self._lock:
            row = self._rows.get(name)
            if row is not None and row.marks == marks:
                self._rows.move_to_end(name)
                return row.found
        exact = tuple(map(reader.exact_mark, releases))
        unchanged = row is not None and None not in exact and row.exact == exact
        found = row.found if row is not None and unchanged else answer()
        with self._lock:
            self._remove(name)
            self._rows[name] = row = _CachedRow(marks, exact, found, _size(found, releases))
            self._size += row.size
            while self._size > self._max_size:
                self._remove(next(iter(self._rows)))
        return found

    def _remove(self, name: Hashable) -> None:
        row = self._rows.pop(name, None)
        if row is not None:
            self._size -= row.size

    def forget(self) -> None:
        """Clears the cache."""
        with self._lock:
            self._rows.clear()
            self._size = 0


def _size(found: Found, releases: Sequence[Selection]) -> int:
    """The memory of a row and its name, in names of devices."""
    _, basis = found
    selected = sum(len(each.devices or ()) for each in releases)
    if basis is None:
        return BARE_ROW_SIZE + selected
    named = len(basis.named) if isinstance(basis, Merged) else 0
    return BARE_ROW_SIZE + selected + named + len(basis.left)


class Models:
    """The last used models, one for each selection and generator, with one fit at a time for each.

    Also the last used answers of no single model, and `rows`, those of series. For one event loop.
    """

    def __init__(
        self,
        executors: Executors,
        config: Config,
        max_models: int = MAX_MODELS,
        lifetime_factor: float = LIFETIME_FACTOR,
    ) -> None:
        self._executors, self._config, self._lifetime_factor = executors, config, lifetime_factor
        self._models, self._derived = Entries(max_models), Entries(MAX_DERIVED)
        self.rows = SeriesRows()

    async def model(self, selection: Selection, choice: GeneratorChoice) -> Model:
        """The model of all selected releases, or a cached one that has not expired. Raises
        CommandError."""
        entry = await self._find(selection, choice)
        model = await entry.fit.wait()
        assert isinstance(model, Model), "check_answers refuses a robust sample"
        return model

    async def ask(
        self,
        selection: Selection,
        choice: GeneratorChoice,
        name: str,
        question: Callable[[Model | Groups], AnswerObject],
    ) -> tuple[AnswerObject, Model | Groups]:
        """The answer of a model to a question, and the model; concurrent callers of one `name`
        share it."""
        entry = await self._find(selection, choice)
        model = await entry.fit.wait()
        found = entry.answers.get(name)
        if found is None:
            found = self._begin_answer(entry, name, lambda: question(model))
        return await found.wait(), model

    def _begin_answer(
        self, entry: CachedModel, name: str, work: Callable[[], AnswerObject]
    ) -> SharedTask[AnswerObject]:
        def forget() -> None:
            if entry.answers.get(name) is found:
                del entry.answers[name]

        def timed() -> AnswerObject:
            began = clock.uptime()
            result = work()
            entry.slowest_answer = max(entry.slowest_answer, clock.uptime() - began)
            return result

        found = self._executors.share(self._executors.fits, timed, forget, entry.lock)
        entry.answers[name] = found
        if len(entry.answers) > MAX_ANSWERS:
            entry.answers.popitem(last=False)
        return found

    async def derived(
        self, name: str, selections: tuple[Selection, ...], make: Callable[[Reader], AnswerObject]
    ) -> AnswerObject:
        """An answer from releases rather than from one model: a series, or two periods.

        Concurrent callers of one `name` share it. Raises CommandError.
        """
        entry = await self._entry(self._derived, (name, selections), selections, make)
        result: AnswerObject = await entry.fit.wait()
        return result

    def forget(self) -> None:
        """Clears the caches: later answers use the current releases."""
        self._models.clear()
        self._derived.clear()
        self.rows.forget()

    async def _find(self, selection: Selection, choice: GeneratorChoice) -> CachedModel:
        stream = next(s for s in self._config.streams if s.name == selection.stream)
        choice = replace(choice, name=choose(stream.name, stream.spec.family, choice))
        fit = build_groups if choice.robust else build
        return await self._entry(
            self._models,
            (selection, choice),
            (selection,),
            lambda reader: fit(reader, self._config, selection, choice),
        )

    async def _entry(
        self,
        entries: Entries,
        asked: CacheKey,
        selections: tuple[Selection, ...],
        make: Callable[[Reader], Any],
    ) -> CachedModel:
        mark = await self._executors.read(lambda reader: tuple(map(reader.mark, selections)))
        entry = entries.get(asked)
        if entry is None or (
            entry.mark != mark and clock.uptime() >= entry.expires_at(self._lifetime_factor)
        ):
            entry = self._begin(entries, asked, mark, make)
        if entry.mark != mark:
            newer_releases.set(True)
        entries.move_to_end(asked)
        return entry

    def _begin(
        self,
        entries: Entries,
        asked: CacheKey,
        mark: tuple[Mark, ...],
        make: Callable[[Reader], Any],
    ) -> CachedModel:
        def fit() -> Any:
            began = clock.uptime()
            model = self._executors.read_blocking(make)
            entry.fitted_at = clock.uptime()
            entry.fit_seconds = entry.fitted_at - began
            return model

        def forget() -> None:
            if entries.get(asked) is entry:
                del entries[asked]

        entry = CachedModel(mark, self._executors.share(self._executors.fits, fit, forget))
        entries.add(asked, entry)
        return entry
