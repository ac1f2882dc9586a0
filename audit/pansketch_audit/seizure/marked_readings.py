"""Readings that cannot be mistaken, and every form in which a program could have kept one."""

import json
import os

import numpy as np
import numpy.typing as npt

from pansketch import HierarchySpec
from pansketch.domain.cell_paths import PathEncoder
from pansketch_audit.seizure.process_memory import Bytes

MAX_MARKED = 100_000  # Readings in one search: more would have to share their six decimals.

FloatArray = npt.NDArray[np.float64]


def marked_readings(count: int) -> FloatArray:
    """Readings float64[count, 2] from 10 to 60 and from 100 to 1000, with twelve decimals.

    No two of their numbers share the first six decimals. Raises ValueError beyond MAX_MARKED.
    """
    if count > MAX_MARKED:
        raise ValueError(f"at most {MAX_MARKED} readings can be marked, not {count}")
    random = np.frombuffer(os.urandom(24 * 10**6), np.uint64).reshape(3, 10**6)
    heads = np.argsort(random[0])[: 2 * count]
    wholes, tails = random[1:, : 2 * count]
    low = np.repeat(np.array([10, 100], np.uint64), count)
    extent = np.repeat(np.array([50, 900], np.uint64), count)
    wholes = low + wholes % extent
    # The last digit is never 0, so that the number has all its decimals as text.
    tails = tails % 10**5 * 10 + tails % 9 + 1
    texts = [f"{w}.{h:06d}{t:06d}" for w, h, t in zip(wholes, heads, tails, strict=True)]
    return np.array([float(text) for text in texts]).reshape(2, count).T.copy()


def json_lines(readings: FloatArray) -> list[bytes]:
    """Readings as an agent's standard input takes them."""
    return [json.dumps({"temp": a, "pm25": b}).encode() + b"\n" for a, b in readings.tolist()]


def forms_of(values: FloatArray, spec: HierarchySpec) -> dict[str, Bytes]:
    """The forms in which readings float64[n, 2] could have been kept: name -> uint8[n, length].

    Numbers in both byte orders. Forms with too few bits to differ from chance (float32, 32-bit
    integers) are searched next to the other attribute, or next to the next reading. Text is the
    last digit before and ten behind the point, or its twelve behind it.
    """
    forms: dict[str, Bytes] = {}
    names = spec.domain.names
    units = _units(values, spec)
    for name, value, unit, low in zip(
        names, values.T, units.T, (a.origin for a in spec.domain.attributes), strict=True
    ):
        forms |= _orders(f"{name} float64", value[:, None], "f8")
        forms |= _orders(f"{name} less its low end, float64", value[:, None] - low, "f8")
        forms |= _orders(f"{name} as a position in the domain, float64", unit[:, None], "f8")
        forms |= _orders(f"{name} x 10^12, int64", np.rint(value[:, None] * 1e12), "i8")
        forms |= _orders(f"{name} x 10^15, int64", np.rint(value[:, None] * 1e15), "i8")
        after = np.column_stack([value, np.roll(value, -1)])
        forms |= _orders(f"{name} float32, two readings", after, "f4")
        forms |= _texts(name, value)
    forms |= _orders("float32, both attributes", values, "f4")
    forms |= _orders("x 10^6 int32, both attributes", np.rint(values * 1e6), "i4")
    forms |= _orders("x 2^16 int32, both attributes", np.rint(values * 65536), "i4")
    paths = _paths(values, spec)
    forms |= _orders("cell path, 64-bit", paths[:, None], "u8")
    for level in spec.sketched_levels[-2:]:
        assert level.hash is not None
        multiplier, addend = map(np.uint64, level.hash.words[0])
        mixed = (paths >> np.uint64(spec.depth - level.bits)) * multiplier + addend
        forms |= _orders(f"hash of {level.bits} bits of the cell path", mixed[:, None], "u8")
    return forms


def _orders(
    name: str, numbers: npt.NDArray[np.float64] | npt.NDArray[np.uint64], kind: str
) -> dict[str, Bytes]:
    return {
        f"{name}, {order}-endian": np.ascontiguousarray(numbers.astype(mark + kind)).view(np.uint8)
        for order, mark in (("little", "<"), ("big", ">"))
    }


def _texts(name: str, values: FloatArray) -> dict[str, Bytes]:
    texts = [repr(value) for value in values.tolist()]
    points = [text.index(".") for text in texts]
    around = [text[p - 1 : p + 11] for text, p in zip(texts, points, strict=True)]
    behind = [text[p + 1 : p + 13] for text, p in zip(texts, points, strict=True)]
    forms = {f"{name} decimals, ascii": _rows(behind, "ascii")}
    for encoding in ("ascii", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        forms[f"{name} text, {encoding}"] = _rows(around, encoding)
    return forms


def _rows(texts: list[str], encoding: str) -> Bytes:
    joined = "".join(texts).encode(encoding)
    return np.frombuffer(joined, np.uint8).reshape(len(texts), -1)


def _units(values: FloatArray, spec: HierarchySpec) -> FloatArray:
    """Values that the product itself computes between a reading and its cell's number."""
    order = spec.domain.split_order(spec.depth)
    columns = []
    for position, attribute in enumerate(spec.domain.attributes):
        column = values[:, position] - attribute.origin
        if attribute.scale == "log":
            column = np.log(column / attribute.resolution + 1.0)
        if attribute.scaling.segments is not None:
            column = attribute.scaling.segments.positions(column)
        columns.append(column * (2.0 ** order.count(position) / attribute.extent))
    return np.column_stack(columns)


def _paths(values: FloatArray, spec: HierarchySpec) -> npt.NDArray[np.uint64]:
    encoder = PathEncoder(spec.domain, spec.depth)
    return np.concatenate([paths.copy() for paths in encoder.encode(values)])
