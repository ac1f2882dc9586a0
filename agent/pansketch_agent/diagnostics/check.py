"""Checks that need the device: the configuration before a run, and everything a run needs.

`pansketch-agent check` prints all results. `run`, `once` and `validate` stop at the first error of
the configuration.
"""

import os
import tempfile
from math import isnan
from pathlib import Path

from pansketch.blinding import BlindingUnavailable, SodiumMasks
from pansketch_agent.delivery.delivery import MAX_PAYLOAD_BYTES
from pansketch_agent.diagnostics.broker_reachability import check_broker
from pansketch_agent.diagnostics.validate_report import key_finding
from pansketch_agent.host import hardening
from pansketch_agent.host.check_result import CheckResult
from pansketch_agent.host.clock import Clock, clock_is_synchronised, implausible_year
from pansketch_agent.host.durable_files import names_in
from pansketch_agent.ledger.accounts import LedgerError, read_accounts
from pansketch_agent.ledger.state_folder import check_own, lock_holder
from pansketch_agent.outbox.backlog import largest_release
from pansketch_agent.sources import exec as child
from pansketch_agent.sources import http_push, metrics_page, modbus, mqtt_topic, replay
from pansketch_agent.sources.readings import NotOfferedError, SourceError
from pansketch_agent.sources.sensors import host_metrics
from pansketch_agent.sources.sensors import registry as sensors
from pansketch_agent.status.health import fits_status
from pansketch_fleet.config.blinded_summary import max_release_nbytes
from pansketch_fleet.config.programs import AgentConfig, Config
from pansketch_fleet.errors import ConfigError
from pansketch_fleet.mqtt import tls
from pansketch_fleet.settings.settings import KeyStream, Stream
from pansketch_fleet.settings.sources import (
    ExecSource,
    HttpSource,
    MetricsSource,
    ModbusSource,
    MqttSource,
    ReplaySource,
    SensorSource,
    SystemSource,
)
from pansketch_fleet.units import size_text


def check_config(config: AgentConfig) -> None:
    """Check sources, sizes of messages and TLS files. Raises ConfigError."""
    _check_tls(config)
    if not fits_status(config):
        problem = f"are {len(config.streams)}, too many for the status message of one device"
        raise config.error("streams", f"{problem}; give some of them to another device")
    for stream in config.streams:
        _check_stream(config, stream)


def _check_tls(config: AgentConfig) -> None:
    """Raise ConfigError for a certificate or key that cannot be used."""
    if not config.mqtt.tls:
        return
    try:
        tls.context(config.mqtt)
    except tls.TlsFilesError as error:
        raise config.error(f"mqtt.{error.key}", error.problem) from None


def _check_stream(config: Config, stream: Stream) -> None:
    """Check one stream as `check_config` does. Raises ConfigError."""
    where = f"streams.{stream.section}"
    try:
        _check_source(stream)
    except NotOfferedError as error:
        key = "key" if isinstance(stream, KeyStream) else f"attributes.{error.name}"
        raise config.error(f"{where}.{key}", str(error)) from None
    except tls.TlsFilesError as error:
        raise config.error(f"{where}.source.{error.key}", error.problem) from None
    except SourceError as error:
        key = "command" if isinstance(stream.source, ExecSource) else "path"
        raise config.error(f"{where}.source.{key}", str(error)) from None
    _check_sizes(config, stream, where)
    _check_masks(config, stream, where)


def _check_source(stream: Stream) -> None:
    match stream.source:
        case ReplaySource(path=path):
            replay.check(path, stream.names)
        case ExecSource(command=command):
            child.check(command)
        case MqttSource():
            mqtt_topic.check(stream.source)
        case MetricsSource():
            metrics_page.check(stream.source)
        case SystemSource():
            host_metrics.check(stream.names)


def _check_masks(config: Config, stream: Stream, where: str) -> None:
    if stream.blinded is None:
        return
    for name, key in zip(stream.blinded.keepers, stream.blinded.keys, strict=True):
        try:
            SodiumMasks().check(key)
        except BlindingUnavailable:
            problem = "needs PyNaCl; pip install 'pansketch[blinded]', or Debian's python3-nacl"
            raise config.error(f"{where}.privacy.aggregation", problem) from None
        except ValueError as error:
            raise config.error(f"keepers.{name}.key", f"{error}; ask for another key") from None


def _check_sizes(config: Config, stream: Stream, where: str) -> None:
    max_bytes = max_release_nbytes(stream)
    # A replay waits for room for all releases of a window.
    together = sum(map(max_release_nbytes, config.parts(stream)))
    limits = {
        "a message": (max_bytes, MAX_PAYLOAD_BYTES),
        "the outbox": (together, largest_release(config.profile.outbox_bytes)),
    }
    for what, (size_bytes, limit_bytes) in limits.items():
        if size_bytes > limit_bytes:
            problem = f"a release may take {size_bytes} bytes, {what} at most {limit_bytes}"
            raise config.error(stream.sketch_at, f"{problem}; lower {stream.plan.smaller}")


def check(config: AgentConfig, root: Path, clock: Clock) -> list[CheckResult]:
    """Return all results, within a few seconds. `root`: the folder with proc/ and sys/."""
    device, state = config.agent.device, config.agent.state
    return [
        *hardening.forbid_dumps(),
        hardening.lock_memory(root).finding(config.agent.require_locked_memory),
        _clock(clock),
        _disk(state, config.profile.outbox_bytes),
        _ledger(state),
        check_broker(config.mqtt, config.fleet, device, clock),
        *(_source(config, each, root, clock) for each in config.streams if not each.part_of),
        *(key_finding(each) for each in config.streams if isinstance(each, KeyStream)),
    ]


def _clock(clock: Clock) -> CheckResult:
    if wrong := implausible_year(clock.now()):
        return CheckResult("clock", "wrong", wrong)
    match clock_is_synchronised():
        case True:
            return CheckResult("clock", "ok", "plausible and synchronised")
        case False:
            fix = "turn on systemd-timesyncd or chrony"
            return CheckResult("clock", "note", f"plausible, not synchronised; {fix}")
        case None:
            return CheckResult(
                "clock", "note", "plausible; the system does not report whether it is synchronised"
            )


def _disk(state: Path, outbox_bytes: int) -> CheckResult:
    folder = next((path for path in (state, *state.absolute().parents) if path.exists()), Path("/"))
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
        filesystem = os.statvfs(folder)
        outbox = state / "outbox"
        segments = [name for name in names_in(outbox) if name.endswith(".segment")]
        waiting = sum((outbox / name).stat().st_size for name in segments)
    except OSError as error:
        fix = "let the agent write there, or change agent.state"
        return CheckResult("disk", "wrong", f"{state}: cannot be written ({error.strerror}); {fix}")
    free, wanted = filesystem.f_bavail * filesystem.f_frsize, outbox_bytes - waiting
    if free < wanted:
        short = f"{free >> 20} MiB free, the outbox may take {max(wanted >> 20, 1)} MiB more"
        return CheckResult("disk", "wrong", f"{state}: {short}; free the disk or move agent.state")
    return CheckResult(
        "disk", "ok", f"{state}: writable, room for an outbox of {size_text(outbox_bytes)}"
    )


def _ledger(state: Path) -> CheckResult:
    path = state / "ledger"
    try:
        check_own(state)
        agent = lock_holder(state)
        read_accounts(path)
    except FileNotFoundError:
        return CheckResult("ledger", "ok", f"{path}: none yet, nothing was ever released")
    except OSError as error:
        fix = "let the agent read it"
        return CheckResult("ledger", "wrong", f"{path}: cannot be read ({error.strerror}); {fix}")
    except LedgerError as error:
        return CheckResult("ledger", "wrong", str(error))
    beside = f", held by the running agent (process {agent})" if agent else ""
    return CheckResult("ledger", "ok", f"{path}: sound{beside}")


def _source(config: AgentConfig, stream: Stream, root: Path, clock: Clock) -> CheckResult:
    subject = f"source {stream.name}"
    try:
        _check_stream(config, stream)
    except ConfigError as error:
        return CheckResult(subject, "wrong", str(error))
    match stream.source:
        case SystemSource():
            return _system(subject, stream, root)
        case SensorSource():
            return _sensors(subject, stream, stream.source, root)
        case ReplaySource(path=path):
            has = f"the key {stream.key}" if isinstance(stream, KeyStream) else "every attribute"
            return CheckResult(subject, "ok", f"{path}: has {has}")
        case MqttSource():
            return _topic(subject, stream, stream.source)
        case MetricsSource():
            return _page(subject, stream, stream.source, clock)
        case ModbusSource():
            return _registers(subject, stream, stream.source, clock)
        case HttpSource(port=port):
            return _port(subject, stream, port)
        case ExecSource(command=command):
            return CheckResult(subject, "ok", f"{command[0]}: can be started")
        case _:
            return CheckResult(subject, "ok", "standard input, to be read by the agent")


def _topic(subject: str, stream: Stream, source: MqttSource) -> CheckResult:
    filesystem = f"{source.broker.host}:{source.broker.port}"
    if why := mqtt_topic.connection_failure(source):
        fix = f"start that broker, or correct streams.{stream.name}.source.url"
        return CheckResult(subject, "wrong", f"no connection to {filesystem} ({why}); {fix}")
    return CheckResult(subject, "ok", f"{filesystem} takes connections for {source.topic}")


def _port(subject: str, stream: Stream, port: int) -> CheckResult:
    filesystem = f"http://127.0.0.1:{port}/"
    match http_push.listener_of(port):
        case "agent":
            return CheckResult(subject, "ok", f"{filesystem}: the running agent listens")
        case "none":
            return CheckResult(subject, "ok", f"{filesystem}: free for the agent")
    fix = f"stop it, or correct streams.{stream.section}.source.port"
    return CheckResult(subject, "wrong", f"{filesystem} belongs to another program; {fix}")


def _page(subject: str, stream: Stream, source: MetricsSource, clock: Clock) -> CheckResult:
    where = f"streams.{stream.section}.source"
    try:
        unreadable = metrics_page.problems(source, stream.names, clock)
    except metrics_page.PageError as error:
        problem = f"no page at {source.address} ({error}); start its program, or correct {where}"
        return CheckResult(subject, "wrong", f"{problem}.url")
    if unreadable:
        fix = f"correct {where}.metrics (pansketch-agent sources --page lists the series)"
        return CheckResult(subject, "wrong", f"{', '.join(unreadable)} at {source.address}; {fix}")
    found = ", ".join(str(source.metrics[name]) for name in stream.names)
    return CheckResult(subject, "ok", f"readable at {source.address}: {found}")


def _registers(subject: str, stream: Stream, source: ModbusSource, clock: Clock) -> CheckResult:
    unreadable = modbus.problems(source, stream.names, clock)
    if unreadable:
        fix = f"correct streams.{stream.section}.source, or its wiring"
        return CheckResult(subject, "wrong", f"{source.url}: {', '.join(unreadable)}; {fix}")
    found = ", ".join(str(source.registers[name]) for name in stream.names)
    return CheckResult(subject, "ok", f"readable at {source.url}: {found}")


def _sensors(subject: str, stream: Stream, source: SensorSource, root: Path) -> CheckResult:
    unreadable = sensors.unreadable(source, stream.names, root)
    if unreadable:
        names_of_sensors = ", ".join(f"{source.sensors[name]} ({name})" for name in unreadable)
        fix = f"correct streams.{stream.name}.source.sensors (pansketch-agent sources lists them)"
        return CheckResult(
            subject, "wrong", f"no data from {names_of_sensors}; {fix}, or its wiring or driver"
        )
    names_of_sensors = ", ".join(source.sensors[name] for name in stream.names)
    return CheckResult(subject, "ok", f"readable: {names_of_sensors}")


def _system(subject: str, stream: Stream, root: Path) -> CheckResult:
    unreadable = [name for name in stream.names if isnan(host_metrics.measure(name, root))]
    if unreadable:
        why = f"no data for {', '.join(unreadable)} on this host, every reading would be dropped"
        return CheckResult(
            subject, "wrong", f"{why}; take it out of streams.{stream.name}.attributes"
        )
    return CheckResult(subject, "ok", f"readable: {', '.join(stream.names)}")
