"""The configuration: a whole file, each section, references in values, and the files of TLS."""

from pathlib import Path

from pansketch_agent.diagnostics import validate_report
from pansketch_agent.host.hardening import MemoryProtection
from pansketch_fleet.config.loader import (
    AgentConfig,
    Config,
    ConfigError,
    load_agent,
    load_collector,
)
from pansketch_fleet.mqtt import tls
from pansketch_fleet.settings.sources import (
    Mqtt,
)
from pansketch_fleet.yaml.interpolation import fill
from testbed.fuzz.harness.target import EXAMPLE, Bound, Run, Target, require

SECRET = "word-that-nobody-may-see"
HEAD = "fleet: meadow\nmqtt: {url: 'mqtt://localhost'}\nagent: {device: post-7}\n"
STREAM = "streams:\n  air:\n    window: 10m\n    privacy: {epsilon: 1}\n"
READINGS = "    attributes: {temp: {low: -40, high: 60}, wind: {categories: [N, E]}}\n"
STDIN = "    source: {type: stdin}\n"
# The text before each section, by the first letter of an input.
SECTIONS = {
    "m": "fleet: meadow\nagent: {device: post-7}\n" + STREAM + STDIN + READINGS + "mqtt:\n",
    "a": HEAD.replace("agent: {device: post-7}\n", "") + STREAM + STDIN + READINGS + "agent:\n",
    "c": HEAD + STREAM + STDIN + READINGS + "collector:\n",
    "t": HEAD + "streams:\n",
    "s": HEAD + STREAM + READINGS + "    source:\n",
    "k": HEAD + STREAM + STDIN + "    key: badge\n    sketches:\n",
    "r": HEAD + STREAM + STDIN + READINGS + "    sketches:\n",
    "h": HEAD + STREAM + STDIN + READINGS + "    sketch:\n",
    "v": HEAD + STREAM + STDIN + READINGS + "    views:\n",
    "d": HEAD + STREAM + STDIN + "    attributes:\n",
    "p": HEAD + STREAM.replace("    privacy: {epsilon: 1}\n", "") + STDIN + READINGS
    + "    privacy:\n",
}  # fmt: skip
INSIDE = (
    "m {url: 'mqtts://h:8883', username: me, password: '${file:secret}'}",
    "m {url: 'mqtt://[::1]:1'}",
    "a {device: '${X:-a}', profile: pi-5, outbox: {policy: drop_oldest, persist: always}}",
    "c {database: kept.sqlite}",
    "t {air: {window: 1d, source: {type: stdin}, key: k, privacy: {epsilon: 1},"
    " sketches: [{type: distinct, expected_keys: 9}]}}",
    "s {type: replay, path: air.csv, speed: 60}",
    "s {type: system, interval: 5s}",
    "s {type: exec, command: [rtl_433, -F], paths: {temp: a.b.0, wind: '.'}}",
    "s {type: mqtt, topic: zigbee2mqtt/+, url: 'mqtt://u', paths: {temp: x}}",
    "s {type: iio, interval: 1s, sensors: {temp: bme280/temp, wind: x/y}}",
    "s {type: hwmon, sensors: {temp: cpu_thermal/temp1, wind: x}}",
    "s {type: w1, sensors: {temp: 28-0316a2798dff, wind: 10-000000000000}}",
    "k [{type: distinct, universe: 65536, memory: 4KiB, variant: ppds, release: bitmap}]",
    "k [{type: distinct, expected_keys: 500, release: count}]",
    "r [{type: cells, depth: 9, width: 64, rows: 3}]",
    "r [{type: moments, features: rff, m: 9, sigma: .5, count_share: .1}]",
    "r [{type: moments, features: race, rows: 9, width: 4}]",
    "r [{type: moments, features: hist, bins: 9}]",
    "r [{type: hierarchy, depth: 9, fanout: 4, k: 8, width: 32, rows: 3}]",
    "h {depth: 9, fanout: 4, k: 8, width: 32, rows: 3}",
    "v [[temp, wind]]",
    "d {temp: {low: 0, high: 9, scale: log, resolution: .1, unit: K}}",
    "p {epsilon: 2, unit: {span: 10m, max_readings: 6}, intrusion: announced, daily_cap: 300}",
)
TOKENS = (
    b"&a ", b"*a", b"<<: ", b"!!int ", b"!x ", b"---\n", b"...\n", b"? ", b"- ", b": ", b"{", b"[",
    b"|\n", b">\n", b"\x85", b"\xe2\x80\xa8", b"\r", b"${", b"${X}", b"${X:-", b"${file:secret}",
    b"$$", b"%YAML 9.9\n", b'"\\ud800"', b"\\U11ffffff", b".inf", b".nan", b"0x", b"1e999",
    b"9" * 60, b"9" * 4400, b"null", b"~", b"-1", b"0", b"''", b"[[]]", b"[" * 99, b"\n  ", b"\t",
)  # fmt: skip


def _open_file(folder: Path) -> Run:
    path = _beside(folder)

    def run(data: bytes) -> None:
        path.write_bytes(data)
        _load(path)

    return run


def _open_section(folder: Path) -> Run:
    path = _beside(folder)

    def run(data: bytes) -> None:
        before = SECTIONS.get(data[:1].decode("ascii", "replace"), SECTIONS["t"])
        lines = b"".join(b"      " + line + b"\n" for line in data[1:].split(b"\n"))
        path.write_bytes(before.encode() + lines)
        _load(path)

    return run


def _beside(folder: Path) -> Path:
    (folder / "air.csv").write_text("time,temp\n")
    (folder / "secret").write_text(SECRET)
    return folder / "config.yaml"


def _load(path: Path) -> None:
    """As both programs, with all that they print of it; a refusal of either is a refusal."""
    refused: ConfigError | None = None
    for load in (load_agent, load_collector):
        try:
            config: Config = load(path, {})
            texts = [validate_report.settings_table(config)]
            if isinstance(config, AgentConfig):
                texts.append(validate_report.validation(config, MemoryProtection("", Path("/"))))
        except ConfigError as error:
            refused, texts = error, [str(error)]
            require(error.line <= path.read_bytes().count(b"\n") + 1, "a line beyond the file")
        require(not any(SECRET in text for text in texts), "a secret is shown")
        lines = [line for text in texts for line in text.split("\n")]
        require(all(line.isprintable() for line in lines), "a report that is not printable")
    if refused is not None:
        raise refused


def _files() -> list[bytes]:
    return [EXAMPLE.read_bytes(), *map(_whole, INSIDE[::6])]


def _whole(text: str) -> bytes:
    return f"{SECTIONS[text[0]]}      {text[2:]}\n".encode()


def _open_references(folder: Path) -> Run:
    (folder / "secret").write_text(SECRET)
    return lambda data: _filled(data, folder)


def _filled(data: bytes, folder: Path) -> None:
    """A line is a variable's text, the next a file's, the rest the value."""
    variable, _, rest = data.partition(b"\n")
    content, _, value = rest.partition(b"\n")
    (folder / "file").write_bytes(content)
    try:
        fill(value.decode("utf-8", "replace"), {"X": variable.decode("utf-8", "replace")}, folder)
    except ValueError as error:
        require(SECRET not in str(error), "a secret is shown")
        raise ConfigError("config.yaml", 1, "value", str(error)) from None


def _open_tls(folder: Path) -> Run:
    return lambda data: _context(data, folder)


def _context(data: bytes, folder: Path) -> None:
    """Three files with a zero byte between: of the CA, the certificate and the key."""
    names = ("ca", "cert", "key")
    for name, content in zip(names, [*data.split(b"\0"), b"", b""], strict=False):
        (folder / name).write_bytes(content)
    ca, cert, key = (folder / name for name in names)
    tls.context(Mqtt("localhost", 8883, True, ca_file=ca, cert_file=cert, key_file=key))


def _pem() -> list[bytes]:
    begin, end = b"-----BEGIN CERTIFICATE-----\n", b"\n-----END CERTIFICATE-----\n"
    certificate = begin + b"MIIBszCCAVmgAwIBAgIUX" * 9 + end
    key = certificate.replace(b"CERTIFICATE", b"PRIVATE KEY")
    return [b"\0".join((certificate, certificate, key)), certificate, key, b"\0\0"]


PYYAML = Bound(4 << 20, 4000)  # a tree of nodes with their marks, in Python
TARGETS = {
    "config": Target(
        "a configuration file", _open_file, (ConfigError,), _files,
        memory=PYYAML, steps=Bound(400_000, 3_000), tokens=TOKENS,
    ),
    "config-section": Target(
        "one section of a configuration", _open_section, (ConfigError,),
        lambda: [text[0].encode() + text[2:].encode() for text in INSIDE],
        memory=PYYAML, steps=Bound(400_000, 3_000), tokens=TOKENS,
    ),
    "references": Target(
        "${NAME} and ${file:/path} in a value", _open_references, (ConfigError,),
        lambda: [b"v\nf\n${X} ${Y:-z} $$ ${file:file}", b"\n\xff\n${file:secret}", b"a\nb\n${"],
        tokens=(b"${", b"}", b"$$", b":-", b"${file:", b"${X}", b"\0", b"../", b"\xff"),
    ),
    "tls": Target(
        "the files for TLS", _open_tls, (tls.TlsFilesError,), _pem,
        tokens=(b"-----BEGIN ", b"-----END ", b"\0", b"ENCRYPTED", b"DEK-Info: AES-128-CBC,00\n"),
    ),
}  # fmt: skip
