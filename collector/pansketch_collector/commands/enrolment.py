"""`enroll`, `rotate` and `revoke`: which devices sign releases, and the files that they sign with.

The private key is in the device's file alone. The database has the public key, so a stolen database
or backup signs nothing.
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


def add_commands(add: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """The commands of this module. `add`: from the name, what it does, and more about it."""
    says = "make the credentials of a device that signs its releases"
    more = "The file has the device's name, its key and its password at the broker."
    enroll = add("enroll", says, f"{more} Nothing changes if the device has that file's key.")
    enroll.add_argument("device", nargs="?", metavar="DEVICE", help="the device")
    enroll.add_argument("--list", action="store_true", help="list the keys of all devices")
    enroll.add_argument("--json", action="store_true", help="with --list: print one JSON object")
    more = "The key before is accepted for windows that have ended by now."
    rotate = add("rotate", "make new credentials of an enrolled device", more)
    rotate.add_argument("device", metavar="DEVICE", help="the device")
    for command in (enroll, rotate):
        says = "the file to make, readable for its owner only (default: DEVICE.json)"
        command.add_argument("--out", type=Path, metavar="FILE", help=says)
    more = "Stored releases stay, and count; see exclude."
    revoke = add("revoke", "refuse all further releases of an enrolled device", more)
    revoke.add_argument("device", metavar="DEVICE", help="the device")
    for command in (enroll, rotate, revoke):
        command.add_argument("--passwords", type=Path, metavar="FILE", help=_PASSWORDS)


def run_enroll(config: Config, options: argparse.Namespace) -> int:
    """Enrolls a device, or lists the keys of all."""
    if options.list:
        if options.device or options.out or options.passwords:
            raise wrong("--list lists all keys: leave out the device, --out and --passwords")
        with reading(config.collector.database) as reader:
            found = enrolments.listed(reader.connection)
        return _say((enrolments.as_json if options.json else enrolments.as_table)(found))
    if options.device is None or options.json:
        raise wrong("write: enroll DEVICE [--out FILE] [--passwords FILE], or enroll --list")
    return _issue(config, options, enrolments.enroll, "enrolled")


def run_rotate(config: Config, options: argparse.Namespace) -> int:
    """Gives an enrolled device new credentials."""
    return _issue(config, options, enrolments.rotate, "rotated")


def run_revoke(config: Config, options: argparse.Namespace) -> int:
    """Refuses a device from now on."""
    device = options.device
    with changing(config.collector.database) as store, transaction(store.connection):
        new = enrolments.revoke(store.connection, device, clock.now())
    if options.passwords is not None:
        _set_password(options.passwords, device, None)
    done = "revoked; the collector refuses its releases from now on"
    return _say(f"{device}: {done if new else 'is revoked already'}")


def check_signing(db: Database) -> None:
    """What a collector that requires signatures says at its start. Raises CommandError where it
    could check none."""
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
    if not is_id(device):
        raise wrong(f"{device[:64]!r} is no device's name: use {ID_RULE}")
    path: Path = options.out or Path(f"{device}.json")
    # A file that is there is one of a command that was interrupted, or was run before.
    made = not path.exists()
    held = _or_command_error(lambda: new_credentials(config.fleet, device)) if made else _in(path)
    if (held.fleet, held.device) != (config.fleet, device):
        raise wrong(f"{path} is of {held.device} in fleet {held.fleet}: name another file by --out")
    if made:
        _write(path, held)
    try:
        with changing(config.collector.database) as store, transaction(store.connection):
            new = note(store.connection, device, held.public, clock.now())
    except CommandError:
        if made:
            path.unlink()
        raise
    if options.passwords is not None:
        _set_password(options.passwords, device, held.password)
    word = done if new else f"{done} already"
    return _say(f"{device}: {word}, key {key_id(held.public).hex()}; credentials in {path}")


def _in(path: Path) -> Credentials:
    try:
        return _or_command_error(lambda: read_credentials(path))
    except ValueError as error:
        raise wrong(f"{error}, or name another file by --out") from None


def _or_command_error(made: Callable[[], Found]) -> Found:
    try:
        return made()
    except SigningUnavailable as error:
        raise CommandError(str(error)) from None


def _write(path: Path, credentials: Credentials) -> None:
    """Makes the file, whole and for its owner only; one that came there meanwhile stays."""
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
        ) from error


def _set_password(path: Path, user: str, password: str | None) -> None:
    """Gives a user of mosquitto a password, or takes it away; the file keeps owner and mode."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if line.partition(":")[0] != user]
        if password is not None:
            kept.append(f"{user}:{_hashed(password)}")
        handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                was = path.stat()
                os.fchown(handle, was.st_uid, was.st_gid)
                os.fchmod(handle, was.st_mode & 0o777)
                file.writelines(f"{line}\n" for line in kept)
                file.flush()
                os.fsync(handle)
            os.replace(unfinished, path)
        finally:
            Path(unfinished).unlink(missing_ok=True)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8"
        again = "revoke" if password is None else "enroll"
        fix = f"make it with mosquitto_passwd, or be root; then repeat, as `{again}` with this file"
        raise CommandError(f"cannot change {path} ({why}): {fix}") from error


def _hashed(password: str) -> str:
    salt = os.urandom(_SALT_BYTES)
    found = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS)
    return "$".join(("", "7", str(_ROUNDS), *(base64.b64encode(b).decode() for b in (salt, found))))


def _say(text: str) -> int:
    with writing("-") as out:
        out.write(f"{text}\n")
    return 0
