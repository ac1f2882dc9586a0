"""The server against its own description, with generated requests."""

import subprocess
import sys
from pathlib import Path

from tests.waiting import SECONDS

EXAMPLES = 12
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
# A name that fits its type need not be an attribute of the stream, nor a time one with windows.
LEFT_OUT = "positive_data_acceptance"


def run(url, *options):
    """The exit code and the output."""
    done = subprocess.run(
        [
            *(str(SCHEMATHESIS), "run", f"{url}/openapi.json", "--no-color", "--seed", "1"),
            *("--max-examples", str(EXAMPLES), "--generation-database", "none"),
            *("--no-shrink", "--request-timeout", str(SECONDS / 2), *options),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return done.returncode, done.stdout[-4000:]


def test_any_request_is_answered_as_described(shared):
    """Without a broker this server is not ready, which is another test's to see."""
    paths = ["--exclude-path-regex", "(sample|readyz)$"]
    code, said = run(shared.url, "--exclude-checks", LEFT_OUT, *paths)
    assert code == 0, said
    assert "8 passed" in said


def test_any_fault_of_a_file_is_rejected(shared):
    """Of right requests some would be for 10**8 rows, so these are other tests' work."""
    options = ["--include-path-regex", "sample$", "--mode", "negative"]
    code, said = run(shared.url, "--exclude-checks", LEFT_OUT, *options)
    assert code == 0, said
    assert "1 passed" in said


def test_the_check_can_fail(shared):
    """Negative control: with the check that is left out, questions about attributes that the
    stream does not have are found, for they are refused."""
    code, said = run(shared.url, "--checks", LEFT_OUT, "--include-path-regex", "query$")
    assert code == 1, said
    assert "1 failed" in said
