"""Programs that this one starts, none of which outlives it, however it ends.

The kernel sends a program its parent-death signal when the *thread* that started it ends. So one
thread, which lives as long as this process, makes every start, whichever thread asks for it. The
kernel forgets the signal when a program changes its user: a mosquitto started by root needs the
line `user root`.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, cast

PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None).prctl
_STARTER = ThreadPoolExecutor(1, thread_name_prefix="start")


class Child(subprocess.Popen[Any]):
    """`subprocess.Popen` of a program that the kernel kills when this process ends. Takes all
    options but `preexec_fn`; raises as `Popen` does."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        parent, start = os.getpid(), cast(Callable[..., None], super().__init__)
        started = _STARTER.submit(start, *arguments, preexec_fn=lambda: end_with(parent), **options)
        started.result()


def run_child(
    command: Sequence[str], *, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Runs a program to its end, with what it prints; kills it after `timeout` seconds. Raises
    OSError, subprocess.TimeoutExpired."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Child(command, **pipes, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        finally:
            process.kill()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def end_with(parent: int) -> None:
    """The kernel kills this process when the thread that started it ends. `parent`: the process id
    that the starter had; where it is gone already this process ends here."""
    _PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def end_in_order() -> None:
    """SIGTERM and SIGHUP end this program as Ctrl-C does, by KeyboardInterrupt, so that its files
    are closed and its programs stopped. A SIGHUP that is ignored (nohup) stays ignored."""
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> NoReturn:
    """`python -m pansketch_fleet.child_process PARENT PROGRAM ...` becomes the program, for those
    who start it without importing this package."""
    end_with(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
