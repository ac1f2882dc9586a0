"""The fastest of several runs: what else the machine does can only add to a time."""

from collections.abc import Callable
from time import perf_counter


def seconds(function: Callable[[], object]) -> float:
    started = perf_counter()
    function()
    return perf_counter() - started


def fastest(functions: list[Callable[[], object]], repeats: int) -> list[float]:
    """Least seconds of each function, called in turns, so that a ratio sees one machine."""
    for function in functions:
        function()
    runs = [[seconds(function) for function in functions] for _ in range(repeats)]
    return [min(times) for times in zip(*runs, strict=True)]
