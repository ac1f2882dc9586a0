"""Programs that must be caught: what a seizure does not see in them proves nothing elsewhere."""

from pathlib import Path

from pansketch.audit.captive import Place, feed, look, running
from pansketch.audit.markings import FloatArray, forms_of, json_lines
from pansketch.audit.memory import Scanner
from pansketch.audit.recorder import Recorder
from pansketch.hierarchy import HierarchySpec

LEAKED_READINGS = 200
LEAKY = """\
import json, socket, sys
way, kept = sys.argv[1], []
wire, file = socket.create_connection(("127.0.0.1", int(sys.argv[2]))), open("leak", "w")
for line in sys.stdin:
    values = list(json.loads(line).values())
    if way == "memory":
        kept.append(values)
    if way == "disk":
        print(*values, file=file, flush=True)
    if way == "log":
        print(*values, flush=True)
    if way == "wire":
        wire.sendall(line.encode())
"""
PLANTED = "import sys; kept = sys.stdin.buffer.read(int(sys.argv[1])); sys.stdin.buffer.read()"


def finds_planted(folder: Path, markers: FloatArray, spec: HierarchySpec) -> bool:
    """Whether every form is found at each of eight alignments in another process's memory."""
    forms = forms_of(markers, spec)
    blob, expected = bytearray(), set()
    for number, (name, rows) in enumerate(forms.items()):
        for shift in range(8):
            reading = (8 * number + shift) % len(rows)
            blob += bytes((shift - len(blob)) % 8) + rows[reading].tobytes()
            expected.add((name, reading))
    with (
        Recorder() as peer,
        running(["-c", PLANTED, str(len(blob))], folder / "planted", peer) as p,
    ):
        feed(p, [bytes(blob)])
        seen = look(p, Scanner(forms), "planted", 0)
    return expected <= {(s.form, s.reading) for s in seen.sightings if s.place == "memory"}


def catches_leak(folder: Path, way: Place, markers: FloatArray, scanner: Scanner) -> bool:
    """Whether every reading that a leaky program was given is found where it leaks to."""
    with Recorder() as peer, running(["-c", LEAKY, way, str(peer.port)], folder / way, peer) as p:
        feed(p, json_lines(markers[:LEAKED_READINGS]))
        seen = look(p, scanner, f"leak to {way}", LEAKED_READINGS - 1)
    found = {s.reading for s in seen.sightings if s.place == way}
    return set(range(min(LEAKED_READINGS, len(markers)))) <= found
