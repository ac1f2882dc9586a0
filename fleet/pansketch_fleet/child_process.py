"""Child processes, none of which outlives this process, however it ends.

The kernel sends a child its parent-death signal when the *thread* that started it ends. So one
thread, which lives as long as this process, starts every child. The kernel clears the signal when a
program changes its user: a mosquitto started by root needs the line `user root`.
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
    """`subprocess.Popen` of a program that the kernel kills when this process ends.

    Takes all options but `preexec_fn`; raises as `Popen` does.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        parent, start = os.getpid(), cast(Callable[..., None], super().__init__)
        started = _STARTER.submit(start, *arguments, preexec_fn=lambda: end_with(parent), **options)
        started.result()


def run_child(
    command: Sequence[str], *, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a program to its end, and return its output; kill it after `timeout` seconds.

    Raises OSError, subprocess.TimeoutExpired.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Child(command, **pipes, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        finally:
            process.kill()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def end_with(parent: int) -> None:
    """Let the kernel kill this process when the thread that started it ends.

    `parent`: the starter's process id. If the starter has already ended, this process ends here.
    """
    _PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def end_in_order() -> None:
    """Let SIGTERM and SIGHUP end this program as Ctrl-C does, by KeyboardInterrupt.

    So its files are closed and its children stopped. An ignored SIGHUP (nohup) stays ignored.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> NoReturn:
    """Become a program: `python -m pansketch_fleet.child_process PARENT PROGRAM ...`.

    This is for starters that do not import this package.
    """
    end_with(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
