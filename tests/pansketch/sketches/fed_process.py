"""A process that feeds readings to sketches and uses no freed memory again: what is not overwritten
stays. Its parent writes the readings to it and searches it.

`python -m tests.pansketch.sketches.fed_process DEFECT`, DEFECT one of DEFECTS.
"""

import ctypes
import os
import sys

import numpy as np

from pansketch import (
    Attribute,
    CellsSpec,
    DistinctSpec,
    Domain,
    HierarchySpec,
    MomentsSpec,
    Privacy,
    View,
    ViewsSpec,
    os_entropy,
)
from pansketch.domain import clipping
from pansketch.sketches import path_counting
from pansketch.sketches.moments.projections import Projections

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 300, 5000)
PRIVACY, OF_KEYS = Privacy(epsilon=1.0), Privacy(epsilon=1.0, unit="key")
LINEAR = [Attribute(f"linear {n}", -40, 60) for n in range(3)]
LOG = [Attribute(f"log {n}", 0, 1000, scale="log") for n in range(2)]
NAMED = Attribute("named", categories=("a", "b", "c"))
KNOTS = (-40.0, 9.0, 10.0, 12.0, 60.0)
LEARNED = Attribute("learned", -40, 60, scale="learned", knots=KNOTS)
DOMAINS = {
    1: Domain(LINEAR[:1]),
    2: Domain([LINEAR[0], LOG[0]]),
    6: Domain([LINEAR[0], LOG[0], NAMED, *LINEAR[1:], LOG[1]]),
    3: Domain([LEARNED, LINEAR[0], NAMED]),
}
WITH_ATOMS = Domain(
    [
        Attribute("inside", -40, 60, atoms=(0, 20.5, "missing")),
        Attribute("sentinel", 0, 1000, scale="log", atoms=(-200, 0)),
        Attribute("learned gaps", -40, 60, scale="learned", knots=KNOTS, atoms=("missing",)),
        Attribute("named gaps", categories=("a", "b", "c"), atoms=("missing",)),
    ]
)
DEFECTS = ("none", "broadcast paths", "broadcast positions", "readings with gaps", "a temporary")


def _specs():
    for dimension, domain in DOMAINS.items():
        depth = 30 if dimension == 1 else 48
        views = tuple(
            View((a.name,), (1,), micro)
            for a, micro in zip(domain.attributes, _shares(dimension), strict=True)
        )
        sizes = {"k": 64, "width": 256, "rows": 2, "fanout": 8}
        yield f"hierarchy {dimension}", HierarchySpec(domain, PRIVACY, depth=depth, **sizes)
        yield f"cells {dimension}", CellsSpec(domain, PRIVACY, depth=depth, width=256, rows=2)
        yield f"views {dimension}", ViewsSpec(domain, PRIVACY, views)
        for name, kind in (("rff", {"m": 20}), ("race", {"rows": 7, "width": 16}), ("hist", {})):
            yield f"{name} {dimension}", MomentsSpec(domain, PRIVACY, features=name, **kind)
    bits, names = (4, 3, 3, 2), WITH_ATOMS.names
    with_atoms = [View((n,), (b,), 200_000) for n, b in zip(names, bits, strict=True)]
    with_atoms.append(View(names[:2], bits[:2], 200_000))
    yield "views with atoms", ViewsSpec(WITH_ATOMS, PRIVACY, tuple(with_atoms))
    for name, kind in (
        ("hashed", {"expected_keys": 1000}),
        ("thinned", {"expected_keys": 100_000, "memory": 64}),
        ("bitmap", {"expected_keys": 1000, "release": "bitmap"}),
        ("levels", {"memory": 1024}),
        ("levels bitmap", {"memory": 1024, "release": "bitmap"}),
        ("permuted", {"universe": 1 << 40, "memory": 64}),
        ("walked", {"universe": (1 << 39) + 1, "memory": 64, "variant": "dwork"}),
    ):
        yield name, DistinctSpec(OF_KEYS, **kind)


def _shares(count):
    return [10**6 // count] * (count - 1) + [10**6 - 10**6 // count * (count - 1)]


SPECS = dict(_specs())


def empty_rows(spec, count):
    """Inputs of a sketch: readings float64[count, d], or keys uint64[count]."""
    if spec.family == "distinct":
        return np.zeros(count, np.uint64)
    return np.zeros((count, spec.domain.dimension))


class _Allocator(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")
    ]


class _Handler(ctypes.Structure):  # PyDataMem_Handler of NumPy's C API
    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("allocator", _Allocator),
    ]


def keep_what_is_freed():
    """From now on nothing that Python and NumPy free is overwritten by what comes after it."""
    does_nothing = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p)
    python = ctypes.pythonapi
    kept = []
    for domain in range(3):
        allocator = _Allocator()
        python.PyMem_GetAllocator(domain, ctypes.byref(allocator))
        allocator.free = does_nothing
        python.PyMem_SetAllocator(domain, ctypes.byref(allocator))
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    python.PyCapsule_New.restype = ctypes.py_object
    python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    core = sys.modules.get("numpy._core._multiarray_umath")
    core = core or sys.modules["numpy.core._multiarray_umath"]
    table = python.PyCapsule_GetPointer(core._ARRAY_API, None)
    set_handler, get_handler = (ctypes.c_void_p * 306).from_address(table)[304:306]
    get_handler = ctypes.PYFUNCTYPE(ctypes.py_object)(get_handler)
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(set_handler)
    default = python.PyCapsule_GetPointer(get_handler(), b"mem_handler")
    handler = _Handler.from_buffer_copy(ctypes.string_at(default, ctypes.sizeof(_Handler)))
    handler.allocator.free = does_nothing
    capsule = python.PyCapsule_New(ctypes.addressof(handler), b"mem_handler", None)
    kept += [handler, capsule, set_handler(capsule)]
    return kept


def _break(defect):
    if defect == "broadcast paths":

        def count(self, paths, counters):
            indices = self._indices[:, : len(paths)]
            np.right_shift(paths[None, :], self._columns[0], out=indices)
            indices.fill(0)

        path_counting._Slots.count = count
    if defect == "broadcast positions":

        def angles(self, positions, out, term):
            for column, position in zip(self.directions.T, positions, strict=True):
                np.multiply(column[:, None], position, out=term)

        Projections.angles = angles
    if defect == "readings with gaps":

        def gaps(self, readings, scratch, finite):
            units = scratch[:, : readings.shape[1]]
            np.copyto(units, readings)
            np.add(np.zeros_like(self._low), units, out=units)
            return clipped(self, readings, scratch, finite)

        clipped, clipping.Clipper.distances = clipping.Clipper.distances, gaps
    if defect == "a temporary":

        def doubled(self, readings, scratch, finite):
            (readings - self._low).sum()
            return distances(self, readings, scratch, finite)

        distances, clipping.Clipper.distances = clipping.Clipper.distances, doubled


def _read_into(rows):
    view = rows.reshape(-1).view(np.uint8).data
    while len(view):
        view = view[os.readv(0, [view]) :]


def _feed():
    """Each sketch takes public rows, then its batches, then public rows: those overwrite registers
    and stacks."""
    for spec in SPECS.values():
        sketch = spec.start(os_entropy())
        for public in (True, False, True):
            for count in SIZES:
                rows = empty_rows(spec, count)
                if not public:
                    _read_into(rows)
                sketch.update_many(rows)
                rows.fill(0)


if __name__ == "__main__":
    _break(sys.argv[1])
    _kept = keep_what_is_freed()
    _feed()
    os.write(1, b"fed\n")
    os.read(0, 1)
