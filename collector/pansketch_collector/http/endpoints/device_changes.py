"""Requests that change something: exclude a device, undo that, and delete a device.

They exist only if `collector.token` is set, and each must have the token, even if reading needs
none. A page of another site cannot send that header: this server allows no other origin. Each does
the same as the command of its name, in one short transaction beside the ingest loop.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Path, Query
from pydantic import Field

from pansketch_collector import clock
from pansketch_collector.errors import wrong
from pansketch_collector.http.endpoints.parameters import Moment, StrictParameters
from pansketch_collector.http.server.executors import Executors
from pansketch_collector.queries.selection import when
from pansketch_collector.storage.store import Store
from pansketch_collector.storage.writer import changing

Device = Annotated[str, Path(pattern="^[a-z0-9][a-z0-9-]{0,63}$", description="its name")]
Result = TypeVar("Result")

log = logging.getLogger("collector")


class RangeParameters(StrictParameters):
    """Selects windows of a device: all of them by default, including future ones."""

    since: Moment | None = Field(None, alias="from", description="windows that start then or later")
    to: Moment | None = Field(None, description="windows that start before this")

    def span(self) -> tuple[int | None, int | None]:
        """Start and end in unix seconds. Raises CommandError."""
        since = None if self.since is None else when(self.since)
        until = None if self.to is None else when(self.to)
        if since is not None and until is not None and since >= until:
            raise wrong("--from must be before --to")
        return since, until


class ForgetParameters(StrictParameters):
    """Selects the data of a device to delete."""

    releases: bool = Field(False, description="its stored releases as well, for good")
    confirm: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="with releases: the name of the device once more"
    )


def add_changes(
    app: FastAPI, executors: Executors, changed: Iterable[Callable[[], object]]
) -> None:
    """Adds the endpoints. Each function in `changed` is called after each change."""

    async def change(work: Callable[[Store], Result]) -> Result:
        def write() -> Result:
            with changing(executors.database) as store:
                return work(store)

        done = await executors.run(executors.reads, write)
        for forget_answers in changed:
            forget_answers()
        return done

    @app.post(
        "/v1/devices/{device}/exclusions",
        summary="Leave a device's releases out of every answer; nothing is deleted",
    )
    async def exclude(device: Device, asked: Annotated[RangeParameters, Query()]) -> dict[str, Any]:
        since, until = asked.span()
        count = await change(lambda store: store.exclude(device, since, until, clock.now()))
        log.warning("over HTTP: %s is excluded from answers, %d releases", device, count)
        return {"device": device, "releases": count}

    @app.delete(
        "/v1/devices/{device}/exclusions",
        summary="Count a device's releases again: those of exactly this range, or all",
    )
    async def undo(device: Device, asked: Annotated[RangeParameters, Query()]) -> dict[str, Any]:
        since, until = asked.span()
        count = await change(lambda store: store.undo(device, since, until))
        log.warning("over HTTP: %d exclusions of %s are undone", count, device)
        return {"device": device, "undone": count}

    @app.delete(
        "/v1/devices/{device}",
        summary="Delete what a device reported, and where asked for all that is stored of it",
    )
    async def forget(device: Device, asked: Annotated[ForgetParameters, Query()]) -> dict[str, Any]:
        if asked.releases and asked.confirm != device:
            raise wrong("releases are deleted for good: add confirm with the name of the device")
        deleted = await change(lambda store: store.forget(device, asked.releases))
        log.warning("over HTTP: %s is forgotten, %d releases deleted", device, deleted.releases)
        return {"device": device, **asdict(deleted)}
