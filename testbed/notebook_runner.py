"""`python -m testbed.notebook_runner`: run the quickstart and store the output of its cells.

It starts the demo's fleet, unless PANSKETCH_ADDRESS names a running collector. The stored output
holds no path, name or time of the machine.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import jupyter_client.launcher
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from traitlets.config import Config

from pansketch_fleet.child_process import Child, end_in_order
from testbed.embedded_broker import broker_process, free_port
from testbed.local_fleet import POLL_SECONDS, DemoFailed, LocalFleet, stations

# No kernel outlives this program.
jupyter_client.launcher.Popen = Child  # type: ignore[attr-defined]
QUICKSTART = Path(__file__).parents[1] / "docs/notebooks/quickstart.ipynb"
MAX_SECONDS = 600.0  # until all releases are stored, and the answers are of all of them
CELL_SECONDS = 600
SHORT_STATIONS = 8  # with fewer, the noise outweighs the readings of a single window


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: stored; 1: a program of the fleet or a cell failed, and nothing was stored."""
    options = _parser().parse_args(argv)
    end_in_order()
    try:
        notebook = nbformat.read(options.notebook, as_version=4)  # type: ignore[no-untyped-call]
        with tempfile.TemporaryDirectory() as folder, _collector(folder, options.short) as known:
            execute(notebook, Path(folder), known)
        _store(notebook, options.out or options.notebook)
    except (DemoFailed, OSError) as error:
        return _failed(str(error))
    except CellExecutionError as error:
        return _failed(f"{options.notebook.name}: {error.ename}: {error.evalue}")
    except (CellTimeoutError, DeadKernelError) as error:
        return _failed(f"{options.notebook.name}: {error}")
    except KeyboardInterrupt:
        return _failed("interrupted")
    return 0


def _failed(why: str) -> int:
    print(f"testbed.notebook_runner: {why.splitlines()[0]}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("testbed.notebook_runner", description=__doc__)
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
    """The variables that tell a notebook where the collector is, once it answers from all
    releases."""
    address = f"127.0.0.1:{free_port()}"
    deadline = time.monotonic() + MAX_SECONDS
    with (
        broker_process() as (port, _),
        LocalFleet(f"127.0.0.1:{port}", folder / "fleet", address) as running,
    ):
        running.start_collector(deadline)
        devices = stations()[: SHORT_STATIONS if short else None]
        for device in devices:
            running.start_agent(device)
        while not (running.finished(devices) and _is_current(address)):
            if time.monotonic() > deadline:
                raise DemoFailed(f"not finished after {MAX_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)
        config = str(folder / "fleet" / "collector.yaml")
        yield {"PANSKETCH_ADDRESS": f"http://{address}", "PANSKETCH_CONFIG": config}


def _is_current(address: str) -> bool:
    """True once each stream of readings is answered from all its releases: a model of before stays
    cached for some seconds."""
    try:
        for each in _get(f"http://{address}/v1/streams")["streams"]:
            for attribute in each.get("attributes", [])[:1]:
                question = f"query?question=histogram&attribute={attribute['name']}"
                answer = _get(f"http://{address}/v1/streams/{each['stream']}/{question}")
                if answer["releases"] < each["stored"]["releases"]:
                    return False
    except OSError:
        return False
    return True


def _get(url: str) -> dict[str, Any]:
    with urlopen(url, timeout=CELL_SECONDS) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def execute(notebook: nbformat.NotebookNode, folder: Path, variables: dict[str, str]) -> None:
    """Runs all cells in order, in the quickstart's folder, with all that the kernel itself writes
    below `folder`. Raises what nbclient does at an error."""
    # Sockets in the file system: no other user of this machine can reach the kernel.
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
    # A reader does not need the Python version of the last run.
    notebook.metadata["language_info"] = {"name": "python"}


def _store(notebook: nbformat.NotebookNode, path: Path) -> None:
    fresh = path.with_name(f".{path.name}.new")
    nbformat.write(notebook, fresh)  # type: ignore[no-untyped-call]
    fresh.replace(path)


if __name__ == "__main__":
    sys.exit(main())
