"""`enroll`, `rotate` and `revoke`: manage the devices that sign releases, and their credentials.

The private key is in the device's file only. The database has the public key, so a stolen
database or backup signs nothing.
"""

import argparse
import base64
import hashlib
import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pansketch_collector import clock
from pansketch_collector.commands.atomic_output import writing
from pansketch_collector.errors import CommandError, wrong
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables import enrolments
from pansketch_collector.storage.tables.connection import Database, transaction
from pansketch_collector.storage.writer import changing
from pansketch_fleet.config.loader import Config
from pansketch_fleet.protocol.signed_release import (
    Credentials,
    SigningUnavailable,
    check_signing_available,
    key_id,
    new_credentials,
    read_credentials,
)
from pansketch_fleet.protocol.topics import ID_RULE, is_id

# As mosquitto_passwd hashes: PBKDF2 of SHA-512. The password has 192 random bits, so more rounds
# would protect it no better.
_SALT_BYTES, _ROUNDS = 12, 101
_PASSWORDS = "the broker's password file, in which the device gets its line, or loses it"

Found = TypeVar("Found")

log = logging.getLogger("collector")


def device_name(text: str) -> str:
    """Parse the name of a device. Raises ArgumentTypeError."""
    if not is_id(text):
        raise argparse.ArgumentTypeError(f"{text[:64]!r} is no device's name: use {ID_RULE}")
    return text


def add_commands(add: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """Adds the commands of this module. `add`: takes the name, the help text and more about it."""
    help_text = "make the credentials of a device that signs its releases"
    more = "The file has the device's name, its key and its password at the broker."
    enroll = add("enroll", help_text, f"{more} Nothing changes if the device has that file's key.")
    enroll.add_argument("device", nargs="?", type=device_name, metavar="DEVICE", help="the device")
    enroll.add_argument("--list", action="store_true", help="list the keys of all devices")
    enroll.add_argument("--json", action="store_true", help="with --list: print one JSON object")
    more = "The key before is accepted for windows that have ended by now."
    rotate = add("rotate", "make new credentials of an enrolled device", more)
    rotate.add_argument("device", type=device_name, metavar="DEVICE", help="the device")
    for command in (enroll, rotate):
        help_text = "the file to make, readable for its owner only (default: DEVICE.json)"
        command.add_argument("--out", type=Path, metavar="FILE", help=help_text)
    more = "Stored releases stay, and count; see exclude."
    revoke = add("revoke", "refuse all further releases of an enrolled device", more)
    revoke.add_argument("device", type=device_name, metavar="DEVICE", help="the device")
    for command in (enroll, rotate, revoke):
        command.add_argument("--passwords", type=Path, metavar="FILE", help=_PASSWORDS)


def run_enroll(config: Config, options: argparse.Namespace) -> int:
    """Enrolls a device, or lists the keys of all."""
    if options.list:
        if options.device or options.out or options.passwords:
            raise wrong("--list lists all keys: leave out the device, --out and --passwords")
        with reading(config.collector.database) as reader:
            found = enrolments.listed(reader.connection)
        return _print((enrolments.as_json if options.json else enrolments.as_table)(found))
    if options.device is None or options.json:
        raise wrong("write: enroll DEVICE [--out FILE] [--passwords FILE], or enroll --list")
    return _issue(config, options, enrolments.enroll, "enrolled")


def run_rotate(config: Config, options: argparse.Namespace) -> int:
    """Issues new credentials for an enrolled device."""
    return _issue(config, options, enrolments.rotate, "rotated")


def run_revoke(config: Config, options: argparse.Namespace) -> int:
    """Revokes the keys of a device."""
    device = options.device
    with changing(config.collector.database) as store, transaction(store.connection):
        new = enrolments.revoke(store.connection, device, clock.now())
    if options.passwords is not None:
        _set_password(options.passwords, device, None)
    done = "revoked; the collector refuses its releases from now on"
    return _print(f"{device}: {done if new else 'is revoked already'}")


def check_signing(db: Database) -> None:
    """Logs a warning if no device is enrolled. Raises CommandError if signatures cannot be
    checked."""
    _or_command_error(check_signing_available)
    if not enrolments.listed(db):
        log.warning("collector.require_signature refuses every release: no device is enrolled")


def _issue(
    config: Config,
    options: argparse.Namespace,
    note: Callable[[Database, str, bytes, int], bool],
    done: str,
) -> int:
    device = options.device
    path: Path = options.out or Path(f"{device}.json")
    # An existing file is from an interrupted or earlier command.
    is_new = not path.exists()
    credentials = (
        _or_command_error(lambda: new_credentials(config.fleet, device))
        if is_new
        else _existing_credentials(path)
    )
    if (credentials.fleet, credentials.device) != (config.fleet, device):
        raise wrong(
            f"{path} is of {credentials.device} in fleet {credentials.fleet}: "
            "name another file by --out"
        )
    if is_new:
        _write(path, credentials)
    try:
        with changing(config.collector.database) as store, transaction(store.connection):
            new = note(store.connection, device, credentials.public, clock.now())
    except CommandError:
        if is_new:
            path.unlink()
        raise
    if options.passwords is not None:
        _set_password(options.passwords, device, credentials.password)
    result = done if new else f"{done} already"
    return _print(
        f"{device}: {result}, key {key_id(credentials.public).hex()}; credentials in {path}"
    )


def _existing_credentials(path: Path) -> Credentials:
    try:
        return _or_command_error(lambda: read_credentials(path))
    except ValueError as error:
        raise wrong(f"{error}, or name another file by --out") from None


def _or_command_error(is_new: Callable[[], Found]) -> Found:
    try:
        return is_new()
    except SigningUnavailable as error:
        raise CommandError(str(error)) from None


def _write(path: Path, credentials: Credentials) -> None:
    """Creates the file, complete and for its owner only; keeps a file that exists by now."""
    try:
        handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(credentials.encode())
                file.flush()
                os.fsync(file.fileno())
            os.link(unfinished, path)
        finally:
            os.unlink(unfinished)
    except OSError as error:
        raise CommandError(
            f"cannot write {path}: {error.strerror}: name another by --out"
            if path.parent.is_dir()
            else f"cannot write {path}: create its folder first"
        ) from error


def _set_password(path: Path, user: str, password: str | None) -> None:
    """Sets or removes a user's password in mosquitto's file, which keeps its owner and mode."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        remaining = [line for line in lines if line.partition(":")[0] != user]
        if password is not None:
            remaining.append(f"{user}:{_hashed(password)}")
        handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                former_stat = path.stat()
                os.fchown(handle, former_stat.st_uid, former_stat.st_gid)
                os.fchmod(handle, former_stat.st_mode & 0o777)
                file.writelines(f"{line}\n" for line in remaining)
                file.flush()
                os.fsync(handle)
            os.replace(unfinished, path)
        finally:
            Path(unfinished).unlink(missing_ok=True)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        again = "revoke" if password is None else "enroll"
        fix = f"make it with mosquitto_passwd, or be root; then repeat, as `{again}` with this file"
        raise CommandError(f"cannot change {path} ({reason}): {fix}") from error


def _hashed(password: str) -> str:
    salt = os.urandom(_SALT_BYTES)
    found = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS)
    return "$".join(("", "7", str(_ROUNDS), *(base64.b64encode(b).decode() for b in (salt, found))))


def _print(text: str) -> int:
    with writing("-") as out:
        out.write(f"{text}\n")
    return 0
