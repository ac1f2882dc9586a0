"""Synthetic readings as CSV, JSON or Parquet, streamed: memory does not grow with the rows.

All three contain the same texts of the same draws, so one seed gives the same rows in each.
"""

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Literal

import numpy as np
from starlette.responses import Response, StreamingResponse

from pansketch import Attribute, Domain
from pansketch_collector.errors import CommandError
from pansketch_collector.http.endpoints.parameters import SampleParameters
from pansketch_collector.http.server.executors import Executors
from pansketch_collector.queries.answers import basis, source
from pansketch_collector.queries.fleet_model import Model
from pansketch_collector.queries.sample import (
    Named,
    chunk_sizes,
    csv_header,
    csv_lines,
    drawn,
    quoted,
)

Format = Literal["csv", "json", "parquet"]
SEED_BYTES = 4
Draw = Callable[[Named], Iterator[Sequence[Sequence[str]]]]


@dataclass(frozen=True)
class RowFormat:
    """`write`: yields the pieces of a file, from the model and a source of text columns.

    `needs`: an optional library.
    """

    media_type: str
    write: Callable[[Model, Draw], Iterator[bytes]]
    needs: str | None = None

    def check(self) -> None:
        """Raises CommandError if its library is not installed."""
        if self.needs is not None:
            try:
                import_module(self.needs)
            except ModuleNotFoundError as error:
                raise CommandError(
                    f"format: this server has no {self.needs}: install pansketch[parquet] there, "
                    "or ask csv or json",
                    2,
                ) from error


def pieces(model: Model, shape: RowFormat, rows: int, seed: int) -> Iterator[bytes]:
    """The file, drawn while it is read.

    Before the first piece it raises NotYet if noise outweighs the readings, CommandError if a
    library is not installed.
    """
    shape.check()
    model.check_sample()
    domain, sampler = model.fitted.domain, model.fitted.sampler()
    rng = np.random.default_rng(seed)
    return shape.write(model, lambda named: drawn(domain, sampler, chunk_sizes(rows), rng, named))


def _csv(model: Model, draw: Draw) -> Iterator[bytes]:
    yield csv_header(model.fitted.domain).encode()
    for texts in draw(quoted):
        lines = "".join(csv_lines(texts)).encode()
        del texts  # Free the chunk before the next one is drawn.
        yield lines


def _json(model: Model, draw: Draw) -> Iterator[bytes]:
    keys = [json.dumps(name) for name in model.fitted.domain.names]
    pattern = "{" + ", ".join(f"{key.replace('%', '%%')}: %s" for key in keys) + "}"
    before = "[\n"
    for texts in draw(json.dumps):
        lines = (before + ",\n".join(pattern % line for line in zip(*texts, strict=True))).encode()
        del texts  # Free the chunk before the next one is drawn.
        yield lines
        before = ",\n"
    yield b"\n]\n"


def _parquet(model: Model, draw: Draw) -> Iterator[bytes]:
    """A row group for each chunk. The file's metadata has the basis of the model."""
    import pyarrow as pa
    from pyarrow import parquet

    domain, out = model.fitted.domain, ChunkBuffer()
    fields = [pa.field(a.name, _arrow_type(a), nullable=a.can_miss) for a in domain.attributes]
    schema = pa.schema(fields, {"pansketch": json.dumps(basis(model))})
    with parquet.ParquetWriter(pa.PythonFile(out, "w"), schema) as writer:
        for texts in draw(lambda name: name or ""):
            writer.write_table(pa.Table.from_arrays(_arrays(domain, texts), schema=schema))
            del texts  # Free the chunk before the next one is drawn.
            yield out.take()
    yield out.take()


def _arrow_type(attribute: Attribute) -> object:
    import pyarrow as pa

    return pa.float64() if attribute.categories is None else pa.string()


def _arrays(domain: Domain, texts: Sequence[Sequence[str]]) -> list[object]:
    return [_array(a, column) for a, column in zip(domain.attributes, texts, strict=True)]


def _array(attribute: Attribute, column: Sequence[str]) -> object:
    import pyarrow as pa

    if attribute.can_miss:
        number = str if attribute.categories is not None else float
        return pa.array([number(text) if text else None for text in column], _arrow_type(attribute))
    if attribute.categories is not None:
        return pa.array(column)
    return pa.array(np.array(column, dtype=np.float64))


class ChunkBuffer:
    """A file that buffers written bytes until `take`."""

    closed = False

    def __init__(self) -> None:
        self._written, self._position = bytearray(), 0

    def write(self, data: bytes) -> int:
        self._written += data
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing to do: `write` is unbuffered."""

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        found = bytes(self._written)
        self._written.clear()
        return found


SHAPES: dict[Format, RowFormat] = {
    "csv": RowFormat("text/csv; charset=utf-8", _csv),
    "json": RowFormat("application/json", _json),
    "parquet": RowFormat("application/vnd.apache.parquet", _parquet, "pyarrow"),
}


async def file_response(
    pools: Executors, model: Model, stream: str, asked: SampleParameters
) -> Response:
    """A file that is drawn as fast as its reader takes it. Raises as `pieces` does."""
    shape, seed = SHAPES[asked.format], asked.seed
    if seed is None:
        seed = int.from_bytes(os.urandom(SEED_BYTES), "big")
    found = await pools.run(pools.draws, partial(pieces, model, shape, asked.rows, seed))
    headers = {
        "Content-Disposition": f'attachment; filename="{stream}.{asked.format}"',
        "Pansketch-Seed": str(seed),
        "Pansketch-Source": source(model).encode("ascii", "replace").decode(),
    }
    return StreamingResponse(_draw(pools, found), headers=headers, media_type=shape.media_type)


async def _draw(pools: Executors, found: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Draws the next piece when the last one is sent: a slow reader slows the drawing."""
    while (piece := await pools.run(pools.draws, lambda: next(found, None))) is not None:
        yield piece
