"""`python -m notebooks.execute`: runs the quickstart, and stores what its cells show.

It starts a fleet for it, the demo's, unless PANSKETCH_ADDRESS says where there is a collector. What
is stored holds no path, name or time of the machine that it ran on.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from urllib.request import urlopen

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from traitlets.config import Config

from demo.broker import EmbeddedBroker, free_port
from demo.fleet import POLL_SECONDS, DemoFailed, LocalFleet, stations

QUICKSTART = Path(__file__).with_name("quickstart.ipynb")
LONGEST_SECONDS = 110.0  # until all releases are stored
CELL_SECONDS = 120
SHORT_STATIONS = 3


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: stored; 1: a program of the fleet or a cell failed, and nothing was stored."""
    options = _parser().parse_args(argv)
    try:
        notebook = nbformat.read(options.notebook, as_version=4)
        with tempfile.TemporaryDirectory() as folder, _collector(folder, options.short) as known:
            execute(notebook, Path(folder), known)
        _store(notebook, options.out or options.notebook)
    except (DemoFailed, OSError) as error:
        return _failed(str(error))
    except CellExecutionError as error:
        return _failed(f"{options.notebook.name}: {error.ename}: {error.evalue}")
    except (CellTimeoutError, DeadKernelError) as error:
        return _failed(f"{options.notebook.name}: {error}")
    return 0


def _failed(why: str) -> int:
    print(f"notebooks.execute: {why.splitlines()[0]}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("notebooks.execute", description=__doc__)
    parser.add_argument("--notebook", type=Path, default=QUICKSTART, metavar="FILE")
    parser.add_argument("--out", type=Path, metavar="FILE", help="(default: the notebook itself)")
    parser.add_argument(
        "--short", action="store_true", help=f"{SHORT_STATIONS} devices instead of all"
    )
    return parser


def _collector(folder: str, short: bool) -> AbstractContextManager[dict[str, str]]:
    if "PANSKETCH_ADDRESS" in os.environ:
        return nullcontext({})
    return fleet(Path(folder), short)


@contextmanager
def fleet(folder: Path, short: bool) -> Iterator[dict[str, str]]:
    """The variables that tell a notebook where the collector is, once it has all releases."""
    address = f"127.0.0.1:{free_port()}"
    deadline = time.monotonic() + LONGEST_SECONDS
    with (
        EmbeddedBroker() as broker,
        LocalFleet(broker.url.removeprefix("mqtt://"), folder / "fleet", address) as running,
    ):
        running.start_collector(deadline)
        devices = stations()[: SHORT_STATIONS if short else None]
        for device in devices:
            running.start_agent(device)
        while not (running.finished(devices) and _answers(address)):
            if time.monotonic() > deadline:
                raise DemoFailed(f"not finished after {LONGEST_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)
        config = str(folder / "fleet" / "collector.yaml")
        yield {"PANSKETCH_ADDRESS": f"http://{address}", "PANSKETCH_CONFIG": config}


def _answers(address: str) -> bool:
    try:
        with urlopen(f"http://{address}/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def execute(notebook: nbformat.NotebookNode, folder: Path, variables: dict[str, str]) -> None:
    """Runs all cells in order, in the quickstart's folder, with all that the kernel itself writes
    below `folder`. Raises what nbclient does at an error."""
    # Sockets in the file system: nobody else on this machine can reach the kernel.
    kernel = {"transport": "ipc", "connection_file": str(folder / "kernel.json")}
    client = NotebookClient(
        notebook,
        config=Config(KernelManager=kernel),
        kernel_name="python3",
        timeout=CELL_SECONDS,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(QUICKSTART.parent)}},
    )
    client.execute(env={**os.environ, **variables, "IPYTHONDIR": str(folder / "ipython")})
    # The version of whoever ran it last is of no interest to a reader.
    notebook.metadata["language_info"] = {"name": "python"}


def _store(notebook: nbformat.NotebookNode, path: Path) -> None:
    fresh = path.with_name(f".{path.name}.new")
    nbformat.write(notebook, fresh)
    fresh.replace(path)


if __name__ == "__main__":
    sys.exit(main())
