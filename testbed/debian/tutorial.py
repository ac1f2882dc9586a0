"""python -m testbed.debian.tutorial ROOT: run the commands of docs/tutorial/first-fleet.md.

ROOT has a folder for each machine, with a minimal Debian in it. The title of a block of shell names
its machine. A block of text below it is a part of its output, in which … stands for any text. At
the end a machine has no further file, unless an output named it as kept, or it is of another
package.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pansketch_fleet.child_process import run_child

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs/tutorial/first-fleet.md"
# The folder that the commands of each machine start in, as the page states it.
FOLDERS = {"laptop": "/root/pansketch", "pi": "/home/pi"}
CLONE = "clone"  # `make test-deb` itself runs the commands in the clone
MAX_SECONDS = 600.0  # of a block
READS_ONLY = re.compile(r"(journalctl|pansketch-collector devices) ")
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}
# Caches, logs, and the records of dpkg and of users are no files of a package.
UNCOUNTED = re.compile(
    r"/(dev|proc|sys|tmp|run|peer|debs|var/(cache|log|tmp|lib/(apt|dpkg))|usr/local)(/|$)"
    r"|/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|/etc/\.pwd\.lock$"
)
KEPT = re.compile(r"(/\S+) is kept")


class TutorialError(Exception):
    """A command of the page failed, or its output is another one."""


@dataclass(frozen=True)
class Block:
    """Commands of one machine, and the lines that their output has."""

    machine: str
    commands: str
    output: str = ""

    def missing(self, printed: str) -> list[str]:
        """The lines of `output` that `printed` lacks, in any order."""
        text = " ".join(printed.split())
        return [line for line in self.output.splitlines() if not _pattern(line).search(text)]


def _pattern(line: str) -> re.Pattern[str]:
    pieces = (" ".join(piece.split()) for piece in line.split("…"))
    return re.compile(".*?".join(map(re.escape, pieces)))


def blocks(page: str) -> Iterator[Block]:
    """The blocks of shell of a page, in its order. Raises TutorialError for one without machine."""
    found = re.findall(r"^```(\w+)(?: title=\"([^\"]*)\")?\n(.*?)^```$", page, re.M | re.S)
    block: Block | None = None
    for language, title, body in found:
        if language == "text" and block is not None:
            block = Block(block.machine, block.commands, body)
            continue
        if block is not None:
            yield block
        block = None
        if language == "sh":
            if title not in (*FOLDERS, CLONE):
                raise TutorialError(f"a block of shell has no machine: {body.splitlines()[0]}")
            block = Block(title, body)
    if block is not None:
        yield block


def run(block: Block, root: Path) -> str:
    """Run the commands of a block as root, and return their output. Raises TutorialError."""
    script = f"cd {FOLDERS[block.machine]}\n{block.commands}"
    command = ["chroot", str(root / block.machine), "sh", "-eu", "-c", script]
    end = time.monotonic() + MAX_SECONDS
    while True:
        try:
            left = end - time.monotonic()
            done = run_child(command, env=ENVIRONMENT, timeout=left, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as error:
            raise TutorialError(f"no end after {MAX_SECONDS:g} s: {block.commands}") from error
        printed: str = (done.stdout + done.stderr).decode(errors="replace")
        if done.returncode:
            raise TutorialError(f"ended with {done.returncode}:\n{block.commands}\n{printed}")
        missing = block.missing(printed)
        if not missing:
            return printed
        # A reader looks again, for the programs need a moment.
        repeats = all(map(READS_ONLY.match, block.commands.splitlines()))
        if not repeats or time.monotonic() > end - MAX_SECONDS / 2:
            raise TutorialError(f"not printed: {missing[0]}\n{block.commands}\n{printed}")
        time.sleep(1)


def files(root: Path) -> set[str]:
    """The files and folders of a machine that a package could have left."""
    found = set()
    for folder, folders, names in os.walk(root):
        inside = os.path.join("/", os.path.relpath(folder, root)) if folder != str(root) else "/"
        paths = {name: os.path.join(inside, name) for name in (*folders, *names)}
        folders[:] = [name for name in folders if not UNCOUNTED.match(paths[name])]
        found |= {path for path in paths.values() if not UNCOUNTED.match(path)}
    return found


def owned(root: Path) -> set[str]:
    """The files and folders of the packages of a machine, without those of this repository."""
    lists = (root / "var/lib/dpkg/info").glob("*.list")
    others = (each for each in lists if not each.name.startswith("pansketch"))
    return {path for each in others for path in each.read_text().splitlines()}


def left_over(before: set[str], after: set[str], printed: str) -> set[str]:
    """The files of `after` beside those of `before` and those that `printed` names as kept."""
    kept = KEPT.findall(printed)
    return {
        path
        for path in after - before
        if not any(path == each or path.startswith(f"{each}/") for each in kept)
    }


def follow(page: str, root: Path) -> None:
    """Run all blocks of a page. Raises TutorialError."""
    before = {machine: files(root / machine) for machine in FOLDERS}
    printed: dict[str, str] = dict.fromkeys(FOLDERS, "")
    began = time.monotonic()
    for block in blocks(page):
        if block.machine == CLONE:
            continue
        output = run(block, root)
        printed[block.machine] += output
        print(f"--- {block.machine}, {time.monotonic() - began:.0f} s after the first command")
        print(f"{block.commands}{_indented(output)}", flush=True)
    for machine in FOLDERS:
        # Packages that apt installed for these ones are no files that these leave.
        run(Block(machine, "apt-get autoremove --purge --yes\n"), root)
        after = files(root / machine) - owned(root / machine)
        left = left_over(before[machine], after, printed[machine])
        if left:
            raise TutorialError(f"{machine} still has {', '.join(sorted(left)[:9])}")


def _indented(output: str) -> str:
    return "".join(f"  {line}\n" for line in output.splitlines()[-20:])


def main(argv: Sequence[str]) -> int:
    """0: the page holds; 1: it does not."""
    try:
        follow(PAGE.read_text(), Path(argv[0]))
    except TutorialError as error:
        print(f"tutorial: FAILED: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
