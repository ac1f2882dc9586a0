"""All memory that a program's objects reach: instances, closures, caches, classes and modules.

The garbage collector lists the references, so no container is left out: results of a
`functools.lru_cache`, locals of a suspended generator, cells of a closure. Numbers, texts and
arrays enter by their values. CPython's own counts are left out: the versions of dicts, the
collector's statistics, freed blocks.
"""

import builtins
import gc
import logging
import os
import random
import sys
import types
import weakref
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

PACKAGES = ("pansketch", "pansketch_fleet", "pansketch_agent")
HARNESS = "pansketch_audit"
PLAIN = (int, float, complex, str, bytes, bytearray, np.generic, Fraction, type(None))
CODE = (types.ModuleType, types.CodeType, types.FrameType, weakref.ref, logging.Logger)
NAMES = {"__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__spec__"}


def memory_of_objects(things: Iterable[object], besides: Iterable[object] = ()) -> bytes:
    """A digest of everything that is reachable from some objects, but for what is in `besides`."""
    return _digest(things, {id(each) for each in besides})


def memory_of_program(besides: Iterable[object] = ()) -> dict[str, bytes]:
    """Digests of the environment, and of each name of the device program's modules that can hold
    values. Names that other modules have got since the import of this one are included."""
    hidden = {id(each) for each in besides}
    found = {"os.environ": _digest([sorted(os.environ.items())], hidden)}
    examined = set[int]()  # An object with several names is examined once.
    for module_name, module in sorted(sys.modules.items()):
        package = module_name.split(".")[0]
        if not isinstance(module, types.ModuleType) or package == HARNESS:
            continue
        ours = package in PACKAGES
        known = NAMES if ours else _names_at_first(module_name, module)
        for name, held in list(vars(module).items()):
            if name in known or _is_idle(held) or not _is_of(held, module_name):
                continue
            if id(held) not in examined:
                found[f"{module_name}.{name}"] = _digest([held], hidden)
            if not isinstance(held, PLAIN):
                examined.add(id(held))
    return found


def forget_results(things: Iterable[object]) -> None:
    """Empties every cache of results: of the program's functions, and of objects that `things`
    reach. A cache that a reading fills first, or reorders, then differs between two runs."""
    for module_name, module in list(sys.modules.items()):
        if module_name.split(".")[0] in PACKAGES:
            for held in list(vars(module).values()):
                if hasattr(held, "cache_clear"):
                    held.cache_clear()
    for thing in _reached(things):
        if isinstance(vars_of := getattr(thing, "__dict__", None), dict):
            for kind in type(thing).__mro__:
                for name, held in vars(kind).items():
                    if isinstance(held, cached_property):
                        vars_of.pop(name, None)


def _reached(things: Iterable[object]) -> list[object]:
    left, seen = [*things], dict[int, object]()
    while left:
        thing = left.pop()
        if id(thing) not in seen and not isinstance(thing, (*PLAIN, *CODE, type)):
            seen[id(thing)] = thing
            left += gc.get_referents(thing)
    return list(seen.values())


def _names_at_first(module_name: str, module: types.ModuleType) -> set[str]:
    """The names of a module of others when it was first seen here."""
    if module_name not in _others:
        _others[module_name] = set(vars(module))
    return _others[module_name]


_others: dict[str, set[str]] = {
    name: set(vars(module))
    for name, module in [*sys.modules.items(), ("builtins", builtins)]
    if isinstance(module, types.ModuleType)
}


def _is_idle(held: object) -> bool:
    """Return whether it can hold nothing: a module, or a function without closure, defaults and
    names."""
    if isinstance(held, types.FunctionType):
        return not (held.__closure__ or held.__defaults__ or held.__kwdefaults__ or vars(held))
    return isinstance(held, CODE)


def _is_of(held: object, module_name: str) -> bool:
    """An imported function, class or annotation is examined in its own module. An instance has the
    attribute `__module__` of its class, and may belong to any module."""
    named = isinstance(held, type | types.FunctionType | types.BuiltinFunctionType)
    named |= type(held).__module__ == "typing"
    return not named or getattr(held, "__module__", module_name) == module_name


def _digest(things: Iterable[object], hidden: set[int]) -> bytes:
    return blake2b(b"|".join(_parts(things, hidden)), digest_size=16).digest()


def _parts(things: Iterable[object], hidden: set[int]) -> Iterator[bytes]:
    """Values in the order in which they are reached; what is reached again by its number."""
    order: dict[int, int] = {}
    left: list[Any] = [*things][::-1]
    kept = []  # A temporary object must not give its identity to another object.
    while left:
        thing = left.pop()
        if isinstance(thing, PLAIN):
            yield repr(thing).encode("utf-8", "surrogatepass")
            continue
        if id(thing) in hidden or isinstance(thing, CODE):
            continue
        if id(thing) in order:
            yield b"@%d" % order[id(thing)]
            continue
        order[id(thing)] = len(order)
        if isinstance(thing, np.ndarray) and thing.dtype != object:
            yield f"{thing.dtype}{thing.shape}".encode()
            yield thing.tobytes()
            continue
        if isinstance(thing, memoryview):
            yield thing.tobytes()
            continue
        if isinstance(thing, np.random.BitGenerator):
            yield repr(thing.state).encode()
            continue
        inside = _inside(thing)
        kept.append(inside)
        yield type(thing).__name__.encode()
        left += inside[::-1]


def _inside(thing: Any) -> list[Any]:
    """The references of an object, in an order that follows from its history alone."""
    if isinstance(thing, dict):
        return [each for item in thing.items() for each in item]
    if isinstance(thing, set | frozenset):
        plain = all(isinstance(each, PLAIN) for each in thing)
        return sorted(thing, key=repr) if plain else list(thing)
    if isinstance(thing, np.random.Generator):
        return [thing.bit_generator]
    if isinstance(thing, random.Random) and not isinstance(thing, random.SystemRandom):
        return [thing.getstate()]
    if isinstance(thing, types.FunctionType):
        return [thing.__defaults__, thing.__kwdefaults__, thing.__closure__, vars(thing)]
    if isinstance(thing, type):
        return _of_class(thing)
    # From Python 3.13 on, an instance has no dict of attributes until something asks for it.
    getattr(thing, "__dict__", None)
    return [each for each in gc.get_referents(thing) if not isinstance(each, type)]


def _of_class(kind: type) -> list[Any]:
    """The attributes of a class of the product, without those that every class has."""
    if kind.__module__.split(".")[0] not in PACKAGES:
        return []
    return [
        each
        for name, held in vars(kind).items()
        if not name.startswith(("__", "_abc_")) and not _is_idle(held)
        for each in (name, held)
    ]
