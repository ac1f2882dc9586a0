"""The Containerfile, which `make image` builds: its rules, where no image can be built."""

import re
from pathlib import Path

import pytest

from testbed.debian.programs import PROGRAMS

FILE = Path("deploy/container/Containerfile")


def stages(text):
    """The instructions of each named stage: (instruction, arguments)."""
    joined = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    found = {}
    for line in filter(None, joined.splitlines()):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            _, _, stage = rest.partition(" AS ")
            found[stage] = []
        elif found:
            found[stage].append((name, " ".join(rest.split())))
    return found


def problems(text):
    """The faults of a Containerfile."""
    found = []
    for stage, lines in stages(text).items():
        program = PROGRAMS[stage]
        names = [name for name, _ in lines]
        last = dict(lines)
        if last.get("USER") != f"pansketch-{stage}":
            found.append(f"{stage}: runs as another user than its own")
        if last.get("VOLUME") != f"/var/lib/pansketch-{stage}":
            found.append(f"{stage}: state is in no volume")
        if "ADD" in names or "COPY" in names or "ENV" in names:
            found.append(f"{stage}: a file or a value would be in the image")
        if program.config not in last.get("CMD", ""):
            found.append(f"{stage}: reads another configuration than the package's")
        run = last.get("RUN", "")
        if f"pansketch-{stage}_*_" not in run or not run.endswith("rm -rf /var/lib/apt/lists/*"):
            found.append(f"{stage}: installs something else, or keeps the lists of packages")
    return found


def test_each_image_has_its_user_its_volume_and_nothing_else():
    text = FILE.read_text()
    assert set(stages(text)) == {"agent", "collector"}
    assert problems(text) == []


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("USER pansketch-agent\n", ""),
        ("USER pansketch-collector", "USER root"),
        ("VOLUME /var/lib/pansketch-agent\n", ""),
        ("/etc/pansketch/collector.yaml", "/etc/collector.yaml"),
        (" \\\n    && rm -rf /var/lib/apt/lists/*", ""),
        ("USER pansketch-agent\n", "USER pansketch-agent\nENV TOKEN=secret\n"),
    ],
)
def test_a_wrong_line_is_noticed(line, other):
    text = FILE.read_text()
    assert line in text
    assert problems(text.replace(line, other)) != []
