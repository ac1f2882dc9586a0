"""A running agent is seized and searched for every key that it was ever fed: text, and its word."""

import json
import os

import numpy as np
import pytest

from pansketch import hash_keys
from pansketch_audit.seizure.captive_process import feed, running, settle, take_snapshot, until
from pansketch_audit.seizure.mqtt_recorder import Recorder
from pansketch_audit.seizure.process_memory import Scanner

COUNT = 200
HEAD = 10  # characters: found with probability below 1e-9 by chance in all that is searched
LENGTHS = (14, 17, 20, 24, 30, 40, 60, 90, 150)
ALPHABET = "abcdefghijkmnpqrstuvwxyz0123456789"
BEGIN = 1_700_000_000
CONFIG = """\
fleet: audit
mqtt: {{url: "mqtt://127.0.0.1:{port}"}}
agent: {{device: seized, profile: pi-zero-2w, state: files/state}}
streams:
  doors:
    source: {source}
    window: 60s
    privacy: {{epsilon: 2}}
    key: badge
    sketches: [{{type: distinct, expected_keys: 1000}}]
"""
LEAKY = """
import sys
from pansketch_agent.windows import window
from pansketch_agent.__main__ import main

kept, absorb = [], window.Windows.absorb

def leaky(self, index, rows):
    kept.append(rows.copy())
    absorb(self, index, rows)

window.Windows.absorb = leaky
sys.exit(main(sys.argv[1:]))
"""


def marked_key(number: int) -> str:
    """Texts of many lengths, so that none takes exactly the place that the one before it left."""
    return "".join(ALPHABET[b % len(ALPHABET)] for b in os.urandom(LENGTHS[number % len(LENGTHS)]))


MARKED = [marked_key(number) for number in range(COUNT)]


def forms() -> dict[str, np.ndarray]:
    """The bytes in which a key could have been kept, a row for each key."""
    found = {}
    for encoding in ("ascii", "utf-16-le", "utf-32-le"):
        for name, part in (("head", slice(HEAD)), ("tail", slice(-HEAD, None))):
            joined = b"".join(key[part].encode(encoding) for key in MARKED)
            found[f"{name}, {encoding}"] = np.frombuffer(joined, np.uint8).reshape(COUNT, -1)
    words = hash_keys(MARKED)[:, None]
    for order in "<>":
        found[f"word, {order}"] = words.astype(f"{order}u8").view(np.uint8)
    return found


SCANNER = Scanner(forms())


def may_read_others() -> bool:
    """The agent forbids others to read its memory; root may, and CI is root."""
    return os.geteuid() == 0 or "CI" in os.environ


@pytest.fixture
def seized(tmp_path):
    """Run an agent with a source, and seize it as `steps` states; the seizures."""

    def run(source, steps, program=("-m", "pansketch_agent"), rows=""):
        folder = tmp_path / "run"
        folder.mkdir()
        (folder / "rows.csv").write_text(rows)
        with Recorder() as peer:
            config = folder / "config.yaml"
            config.write_text(CONFIG.format(port=peer.port, source=source))
            command = [*program, "run", "--config", str(config)]
            with running(command, folder, peer) as agent:
                until(agent, lambda: bool(peer.published), "it had published a message")
                return list(steps(agent))

    return run


def lines() -> list[bytes]:
    return [json.dumps({"other": "text", "badge": key}).encode() + b"\n" for key in MARKED]


def found(seen) -> set[tuple[str, int]]:
    return {(sighting.place, sighting.reading) for sighting in seen.sightings}


def refused(seen) -> bool:
    """Without root a seizure finds nothing, and reports why."""
    if may_read_others():
        assert not seen.unread
        return False
    assert "the audit needs root" in seen.unread[0]
    return True


def by_stdin(agent):
    sent = lines()
    feed(agent, sent[:-1])
    yield take_snapshot(agent, SCANNER, "before the last", COUNT - 2)
    feed(agent, [sent[-1][:-1]])
    yield take_snapshot(agent, SCANNER, "while the last one arrives", COUNT - 1)
    feed(agent, [b"\n"])
    yield take_snapshot(agent, SCANNER, "after the last", COUNT - 1)


def test_an_agent_holds_none_of_the_keys_from_standard_input(seized):
    before, during, after = seized("{type: stdin}", by_stdin)
    if refused(before):
        return
    assert found(before) <= {("memory", COUNT - 2)}
    assert ("memory", COUNT - 1) in found(during), "the control: what is there is found"
    assert found(during) <= {("memory", COUNT - 2), ("memory", COUNT - 1)}
    assert found(after) <= {("memory", COUNT - 1)}


def test_an_agent_holds_none_of_the_keys_of_a_paced_replay(seized):
    # After the marked rows one that the agent waits for, and rows behind it.
    rows = [f"{BEGIN + n},{key},{n}" for n, key in enumerate(MARKED)]
    rows += [f"{BEGIN + 10**8 + n},x{n},0" for n in range(50)]

    def wait(agent):
        most = COUNT // 60
        until(agent, lambda: len(agent.recorder.releases()) >= most, "most of the marked rows")
        looks = []

        def absorbed() -> bool:
            """The remaining keys take a while. A key that is kept would stay."""
            settle(agent)
            looks.append(take_snapshot(agent, SCANNER, "after all rows", COUNT - 1))
            return found(looks[-1]) <= {("memory", COUNT - 1)}

        until(agent, absorbed, "the marked rows were absorbed")
        yield looks[-1]

    file = "\n".join(["time,badge,other", *rows, ""])
    (after,) = seized("{type: replay, path: rows.csv, speed: 200}", wait, rows=file)
    if not refused(after):
        assert found(after) <= {("memory", COUNT - 1)}


def test_an_agent_that_keeps_its_keys_is_caught(seized):
    """The agent's own program, with an extra line that keeps keys."""

    def steps(agent):
        feed(agent, lines())
        yield take_snapshot(agent, SCANNER, "after the last", COUNT - 1)

    (after,) = seized("{type: stdin}", steps, ("-c", LEAKY))
    if not refused(after):
        assert found(after) >= {("memory", number) for number in range(COUNT - 1)}
