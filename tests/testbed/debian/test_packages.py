"""Tests without a download of the Debian packages; `make test-deb` installs and runs them."""

import os
import subprocess
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from pansketch_fleet.config.loader import load_agent
from testbed.debian.__main__ import EXTRAS, REPOSITORY
from testbed.debian.compiled import ARCHITECTURES, COMPILED, FROM_DEBIAN, requirements
from testbed.debian.environment import PYTHONS, depends, lay_over, pythons, remove_unused
from testbed.debian.programs import FILES, LOCKS, PROGRAMS, SCRIPTS

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def locked(name):
    lines = (REPOSITORY / LOCKS / name).read_text().splitlines()
    found = (Requirement(line.rstrip("\\ ")) for line in lines if not line.startswith((" ", "#")))
    return {each.name: Version(str(each.specifier).removeprefix("==")) for each in found}


@pytest.mark.parametrize("name", EXTRAS)
def test_a_lock_holds_what_the_project_asks_for(name):
    """Negative control: a lock without NumPy, or with one that is too old, is noticed."""
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *(line for extra in EXTRAS[name] for line in extras[extra])]

    def unmet(versions):
        asked = [Requirement(line) for line in wanted]
        return [
            each.name
            for each in asked
            if each.name.lower() not in versions
            or versions[each.name.lower()] not in each.specifier
        ]

    versions = locked(name)
    assert unmet(versions) == []
    assert unmet({**versions, "numpy": Version("1.20")}) == ["numpy"]
    assert unmet({k: v for k, v in versions.items() if k != "numpy"}) == ["numpy"]


@pytest.mark.parametrize("name", EXTRAS)
def test_a_lock_names_a_hash_for_each_file_and_no_address(name):
    text = (REPOSITORY / LOCKS / name).read_text()
    assert "://" not in text
    assert text.count("--hash=sha256:") > 20 * len(locked(name)) / 2


def test_what_has_no_wheel_is_compiled_or_comes_from_debian():
    """Debian's packages are at least as new as pyproject.toml asks; nothing is in both tables."""
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for e in EXTRAS["agent.txt"] for line in extras[e])]
    wanted = {(each := Requirement(line)).name.lower(): each.specifier for line in lines}
    assert {*COMPILED, *FROM_DEBIAN} == set(wanted)
    assert len(COMPILED) + len(FROM_DEBIAN) == len(wanted)
    for name, package in FROM_DEBIAN.items():
        assert f">={package.removesuffix(')').split()[-1].split(':')[-1]}" in str(wanted[name])


def test_only_what_is_compiled_is_taken_from_the_lock():
    lock = (REPOSITORY / LOCKS / "agent.txt").read_text()
    taken = requirements(lock)
    assert [line.split("==")[0] for line in taken.splitlines() if line[0] != " "] == [*COMPILED]
    assert taken.count("--hash=sha256:") > 10
    for block in taken.replace("\\\n", "").splitlines():
        assert block in lock.replace("\\\n", "").splitlines()


def test_a_package_names_the_python_of_its_modules():
    assert "python3 (>= 3.11), python3 (<< 3.14~)" in depends("amd64")
    assert "numpy" not in depends("arm64")
    for arch in ARCHITECTURES:
        assert pythons(arch) == ("3.13",)
        assert "python3 (>= 3.13), python3 (<< 3.14~)" in depends(arch)
        assert "python3-numpy (>= 1:1.26)" in depends(arch)


@pytest.mark.parametrize(
    ("machine", "code"), [("armv6l", 1), ("armv7l", 0), ("aarch64", 0), ("x86_64", 0)]
)
def test_a_board_that_cannot_run_the_package_refuses_it(tmp_path, machine, code):
    (tmp_path / "uname").write_text(f"#!/bin/sh\necho {machine}\n")
    (tmp_path / "uname").chmod(0o755)
    text = PROGRAMS["agent"].fill((REPOSITORY / FILES / "preinst").read_text())
    found = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh"], input=text, text=True, capture_output=True, env=found)
    assert (done.returncode, done.stderr.count("\n")) == (code, code), done.stderr


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=str)
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_one_for_the_shell(program, script):
    text = program.fill((REPOSITORY / FILES / script).read_text())
    assert "@" not in text
    done = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_starter_is_a_valid_configuration(tmp_path):
    text = (REPOSITORY / FILES / "config.yaml").read_text()
    (tmp_path / "config.yaml").write_text(PROGRAMS["agent"].fill(text))
    config = load_agent(tmp_path / "config.yaml", {"DEVICE": "attic"})
    assert [stream.name for stream in config.streams] == ["host"]


def test_environments_of_several_interpreters_lie_over_one_another(tmp_path):
    parts = [tmp_path / python for python in PYTHONS]
    for number, part in enumerate(parts):
        (part / "lib/tests").mkdir(parents=True)
        (part / "lib-1.dist-info").mkdir()
        (part / f"lib/core.cpython-{number}.so").write_text("own")
        (part / "lib/common.py").write_text(f"built {number}")
        (part / "lib/tests/test_it.py").write_text("unused")
        (part / "lib-1.dist-info/RECORD").write_text("differs")
        (part / "lib-1.dist-info/METADATA").write_text("same")
        lay_over(tmp_path / "all", part)
    remove_unused(tmp_path / "all")
    found = sorted(
        str(path.relative_to(tmp_path / "all")) for path in (tmp_path / "all").rglob("*")
    )
    extensions = [f"lib/core.cpython-{number}.so" for number in range(len(PYTHONS))]
    assert found == sorted(
        ["lib", "lib-1.dist-info", "lib-1.dist-info/METADATA", "lib/common.py", *extensions]
    )
    assert (tmp_path / "all/lib/common.py").read_text() == "built 0"


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_installation_checks_the_configuration_with_the_variables_of_the_service(name, tmp_path):
    """Without them it would call a right configuration wrong after each upgrade."""
    program = PROGRAMS[name]
    script = program.fill((REPOSITORY / FILES / "postinst").read_text())
    unit = (REPOSITORY / f"deploy/systemd/{program.package}.service").read_text()
    assert f"EnvironmentFile=-/etc/pansketch/{name}.env" in unit
    for path in ("/etc/pansketch", program.home):
        script = script.replace(path, f"{tmp_path}{path}")
    binaries, etc = tmp_path / program.home[1:] / "bin", tmp_path / "etc/pansketch"
    for folder in (binaries, etc, tmp_path / "bin"):
        folder.mkdir(parents=True)
    (tmp_path / program.config[1:]).touch()
    for fake in (tmp_path / "bin/systemd-sysusers", binaries / "python3"):
        fake.write_text("#!/bin/sh\n")
    check = '#!/bin/sh\n[ "$DEVICE $ROOM" = "loft-1 east side" ]\n'
    (binaries / program.package).write_text(check)
    for each in (*(tmp_path / "bin").iterdir(), *binaries.iterdir()):
        each.chmod(0o755)

    def installs():
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        command = ["sh", "-c", script, "postinst", "configure"]
        return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True)

    correct = f"{program.package}: correct "
    assert installs().stderr.startswith(correct), "the control"
    lines = '# of the house\nDEVICE=loft-1\n\nROOM="east side"\n'
    (etc / f"{name}.env").write_text(lines)
    done = installs()
    assert (done.returncode, done.stderr) == (0, "")
    assert "now edit" in done.stdout
