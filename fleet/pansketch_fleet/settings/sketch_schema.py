"""The keys of a sketch: the sizes that each kind may state."""

from typing import Annotated, get_args

from pansketch.sketches import Features, Form, Variant
from pansketch_fleet.settings.section import KeyDoc, Section

PLANNED = "planned"


def _whole(
    meaning: str, example: int, low: int, high: int, *, default: str = PLANNED, allowed: str = ""
) -> KeyDoc:
    return KeyDoc(meaning, str(example), low=low, high=high, default=default, allowed=allowed)


DEPTH = _whole("The number of halvings of the attributes' bounds.", 12, 1, 48)
FANOUT = KeyDoc(
    "The children of a node: each level divides a cell into so many.",
    "4",
    allowed="2, 4, 8 or 16",
    default=PLANNED,
)
K = _whole(
    "The cells that the generator refines at each level; levels of up to `k` cells are exact.",
    256,
    1,
    1 << 20,
)
WIDTH = _whole("The columns of a hashed table.", 1024, 2, 1 << 20, allowed="a power of two")
ROWS = _whole("The rows of a hashed table.", 3, 1, 16)


class SketchSection(Section, frozen=True):
    """A hierarchy: counters of halved cells, for one or two attributes."""

    depth: Annotated[int | None, DEPTH] = None
    fanout: Annotated[int | None, FANOUT] = None
    k: Annotated[int | None, K] = None
    width: Annotated[int | None, WIDTH] = None
    rows: Annotated[int | None, ROWS] = None
    memory: Annotated[
        str | None,
        KeyDoc(
            "The maximum size of the state, for the planner.",
            "16KiB",
            form="size",
            default="a third of the profile's `sketch_memory`; of one attribute a hundredth",
        ),
    ] = None


class ViewsSection(Section, frozen=True):
    """Views: grids of single attributes and of pairs, for many attributes."""

    single_bits: Annotated[
        int | None,
        _whole("The cells of a single attribute, as a power of two.", 6, 1, 12),
    ] = None
    pair_bits: Annotated[
        int | None,
        _whole("The cells of each attribute of a pair, as a power of two.", 4, 1, 12),
    ] = None
    single_share: Annotated[
        int | None,
        KeyDoc(
            "The share of epsilon for all single attributes; pairs have the rest.",
            "40",
            low=1,
            high=99,
            unit="per cent",
            default=PLANNED,
        ),
    ] = None
    memory: Annotated[
        str | None,
        KeyDoc(
            "The maximum size of the state, for the planner.",
            "32KiB",
            form="size",
            default="half of the profile's `sketch_memory`",
        ),
    ] = None


class CellsSection(Section, frozen=True):
    """A density sketch: a count-sketch of a fine histogram."""

    depth: Annotated[
        int | None,
        _whole(
            "The number of halvings of the attributes' bounds.",
            12,
            1,
            48,
            default="12, or all that the attributes allow if that is less",
        ),
    ] = None
    width: Annotated[
        int | None,
        _whole(
            "The columns of the table.",
            2048,
            2,
            1 << 20,
            allowed="a power of two",
            default="2048",
        ),
    ] = None
    rows: Annotated[int | None, _whole("The rows of the table.", 3, 1, 16, default="3")] = None


class MomentsSection(Section, frozen=True):
    """A moment sketch: sums of features of the readings."""

    features: Annotated[
        str | None,
        KeyDoc(
            "The features: random Fourier features, RACE, or a histogram of each attribute.",
            "rff",
            values=get_args(Features),
            default="`rff`",
        ),
    ] = None
    m: Annotated[
        int | None,
        _whole(
            "The number of random Fourier features.",
            200,
            2,
            4096,
            default="200",
            allowed="even; only with `rff`",
        ),
    ] = None
    sigma: Annotated[
        float | None,
        KeyDoc(
            "The bandwidth of the kernel, in units of an attribute's range.",
            "1",
            low=1 / 64,
            high=64,
            allowed="only with `rff` and `race`",
            default="1",
        ),
    ] = None
    rows: Annotated[
        int | None,
        _whole("The rows of RACE.", 80, 1, 1024, default="80", allowed="only with `race`"),
    ] = None
    width: Annotated[
        int | None,
        _whole("The columns of RACE.", 80, 2, 4096, default="80", allowed="only with `race`"),
    ] = None
    bins: Annotated[
        int | None,
        _whole(
            "The bins of each attribute's histogram.",
            100,
            2,
            4096,
            default="100",
            allowed="only with `hist`",
        ),
    ] = None
    count_share: Annotated[
        float | None,
        KeyDoc(
            "The share of epsilon for the number of readings.",
            "0.02",
            low=1e-6,
            high=1 - 1e-6,
            default="0.02",
        ),
    ] = None


class DistinctSection(Section, frozen=True):
    """A sketch of keys: the number of distinct keys in a window."""

    universe: Annotated[
        int | None,
        _whole(
            "The number of keys, if they are numbers from 0.",
            65536,
            1,
            1 << 40,
            default="any texts are keys",
            allowed="at most one of `universe` and `expected_keys`",
        ),
    ] = None
    expected_keys: Annotated[
        int | None,
        _whole(
            "The distinct keys expected in a window, if they are texts; with `release: bitmap`, "
            "those of all devices together. Without it any number of keys is counted.",
            2000,
            1,
            1 << 40,
            default="any number",
            allowed="at most one of `universe` and `expected_keys`",
        ),
    ] = None
    memory: Annotated[
        str | None,
        KeyDoc(
            "The maximum size of the state.",
            "4KiB",
            form="size",
            allowed="up to `16MiB`, with `release: bitmap` up to `512KiB`",
            default="`4KiB`",
        ),
    ] = None
    variant: Annotated[
        str | None,
        KeyDoc(
            "The mechanism; `optbern` and `dwork` need a `universe`.",
            "ppds",
            values=get_args(Variant),
            default="`ppds`",
        ),
    ] = None
    release: Annotated[
        str | None,
        KeyDoc(
            "The form of a release: `count` if no two devices see the same key, else `bitmap`.",
            "bitmap",
            values=get_args(Form),
            default="`count`",
        ),
    ] = None


# By the `type` of an entry of `sketches:`.
SKETCHES: dict[str, type[Section]] = {
    "views": ViewsSection,
    "hierarchy": SketchSection,
    "cells": CellsSection,
    "moments": MomentsSection,
    "distinct": DistinctSection,
}


class SketchTypeSection(Section, frozen=True):
    """One sketch: its kind, and the sizes of that kind."""

    type: Annotated[
        str,
        KeyDoc(
            "The kind of the sketch, which decides the other keys.",
            "moments",
            values=tuple(SKETCHES),
        ),
    ]
    share: Annotated[
        float | None,
        KeyDoc(
            "The share of the stream's epsilon, if the stream has several sketches.",
            "0.75",
            low=0.000001,
            high=1,
            allowed="all shares of a stream sum to 1; not with a `key`",
            default="an equal part of what the stated shares leave",
        ),
    ] = None
