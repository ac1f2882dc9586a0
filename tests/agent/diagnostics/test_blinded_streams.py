"""`validate` of a blinded stream: its output, and its refusals before the first mask."""

import re
import sys

import pytest

from pansketch.blinding import keeper_id
from pansketch.wire import decode_blinded
from pansketch_agent.__main__ import main

WITHOUT_NACL = """
import sys
sys.modules["nacl"] = None
from pansketch_agent.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
HOURS = "time,temp,wind\n" + "".join(f"{1_704_067_200 + 60 * n},1,N\n" for n in range(300))


def output_of(device, capsys):
    assert main(["validate", "--config", str(device.config)]) == 0
    return capsys.readouterr().out


def test_validate_states_the_bytes_of_a_release(device, blinded, capsys):
    config = blinded(", epoch: 7m", rows=HOURS)
    stated = re.search(r"release +(\d+) bytes with every epoch", output_of(device, capsys))
    assert device.start("run", "--drain", "0").wait() == 1
    releases = device.releases().values()
    assert {len(decode_blinded(p, config.streams[0].spec).epochs) for p in releases} == {10}
    assert len(releases) >= 3
    assert {len(payload) for payload in releases} == {int(stated[1])}


def test_validate_states_adversary_keepers_and_answers(device, blinded, capsys, keepers):
    answers = ", answers: [{every: 1d, share: 1/4}, {every: 30d, share: 3/4}]"
    blinded(answers)
    said = output_of(device, capsys)
    assert "all keepers but one; it breaks neither X25519, BLAKE2b nor ChaCha20" in said
    assert "two snapshots of one epoch show what arrived between them" in said
    for number, key in enumerate(keepers):
        assert f"keeper-{number} (key id {keeper_id(key.public).hex()})" in said
    assert "with the collector read every counter; local_epsilon bounds that" in said
    assert re.search(r"answer 1d +share 1/4 of epsilon", said)
    assert re.search(r"not available +answers about one device, robust merges", said)
    deviations = [float(each) for each in re.findall(r"deviation of (\S+) at most", said)]
    assert deviations[0] == pytest.approx(3 * deviations[1], rel=0.01)
    blinded(", local_epsilon: 8")
    assert "with the collector learn a reading with epsilon 8" in output_of(device, capsys)


@pytest.mark.parametrize("command", ["validate", "once"])
def test_without_pynacl_a_blinded_stream_is_refused_by_a_single_line(device, blinded, command):
    blinded()
    program = device.start(command, program=("-c", WITHOUT_NACL))
    assert program.wait() == 2
    assert program.output.count("\n") == 1
    assert "streams.air.privacy.aggregation: needs PyNaCl; pip install" in program.output
    assert not device.state.exists()


def test_a_local_stream_does_without_pynacl(device):
    device.configure()
    assert device.start("validate", program=("-c", WITHOUT_NACL)).wait() == 0
    assert sys.modules["nacl"] is not None


def test_a_public_key_that_hides_nothing_is_refused(device, keepers, capsys):
    device.configure_blinded([keepers[0].public, bytes(32)])
    assert main(["validate", "--config", str(device.config)]) == 2
    assert "keepers.keeper-1.key: a public key is a point of low order" in capsys.readouterr().err
