"""The shipped files of deploy/, in use on this machine: certificates, mosquitto, both programs."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.deploy.site import DEPLOY, HOST, Site
from tests.packages import needs
from tests.waiting import SECONDS


def certificates(*words: object, days: int = 2) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [DEPLOY / "certificates.sh", *map(str, words)],
        env={**os.environ, "DAYS": str(days)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


TOMORROW = """\
[ca]
default_ca = later
[later]
database = {folder}/later.txt
new_certs_dir = {folder}
rand_serial = yes
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
"""


def certify_from_tomorrow(folder: Path) -> None:
    """The broker's certificate again, with another first day: `broker-tomorrow`."""
    (folder / "later.txt").write_text("")
    (folder / "later.cnf").write_text(TOMORROW.format(folder=folder))
    shutil.copy(folder / "broker.key", folder / "broker-tomorrow.key")
    first, last = (datetime.now(UTC) + timedelta(days=days) for days in (1, 2))
    request = "openssl x509 -x509toreq -in broker.crt -signkey broker.key -copy_extensions copy"
    sign = (
        "openssl ca -batch -notext -config later.cnf -cert ca.crt -keyfile ca.key -in later.csr "
        f"-startdate {first:%Y%m%d%H%M%SZ} -enddate {last:%Y%m%d%H%M%SZ} -out broker-tomorrow.crt"
    )
    for command in (f"{request} -out later.csr", sign):
        subprocess.run(
            command.split(), cwd=folder, check=True, capture_output=True, timeout=SECONDS
        )


@pytest.fixture(scope="session")
@needs("openssl")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA with all certificates: good ones, and each kind of bad one.

    Expired ones end in the second in which they begin: openssl 3.5 signs none that ends earlier.
    """
    folder = tmp_path_factory.mktemp("pki") / "fleet"

    def make(*words: object, days: int = 2) -> None:
        done = certificates(words[0], folder, *words[1:], days=days)
        assert done.returncode == 0, done.stderr

    def keep_broker_as(name: str) -> None:
        for ending in ("crt", "key"):
            (folder / f"broker.{ending}").rename(folder / f"{name}.{ending}")

    make("ca")
    make("broker", HOST, days=0)
    keep_broker_as("broker-expired")
    make("broker", "elsewhere.example", "192.0.2.7")
    keep_broker_as("broker-elsewhere")
    make("broker", HOST, "localhost", "::1")
    certify_from_tomorrow(folder)
    make("collector")
    make("device", "dev-1", "dev-2", "dev-revoked")
    make("device", "dev-expired", days=0)
    make("revoke", "dev-revoked")
    return folder


@pytest.fixture(scope="session")
@needs("openssl")
def run_certificates() -> Callable[..., subprocess.CompletedProcess[str]]:
    """The script itself, with `days` for DAYS."""
    return certificates


@pytest.fixture(scope="session")
@needs("openssl")
def foreign_ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another CA, with a device of the same name."""
    folder = tmp_path_factory.mktemp("pki") / "foreign"
    assert certificates("ca", folder).returncode == 0
    assert certificates("device", folder, "dev-1").returncode == 0
    return folder


@pytest.fixture
def site(tmp_path: Path, ca: Path) -> Iterator[Site]:
    made = Site(tmp_path, ca)
    yield made
    made.close()
