"""The state folder: a keeper's private keys and its ledger, locked by one process.

A key and its ledger belong together. A key without its ledger would answer the same windows again.
So each new key gets its ledger entry, and a keeper refuses to run if one of them is missing.
"""

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from pansketch.blinding import PrivateKey, keeper_id
from pansketch.randomness import KeyEntropy
from pansketch_agent.host.durable_files import names_in, sync_folder
from pansketch_keeper.ledger import LEDGER, KeeperLedger, StateError

KEY_BYTES = 32
PREFIX, UNFINISHED = "key-", ".new"
KEY_NAME = re.compile(rf"{PREFIX}[0-9a-f]{{16}}({re.escape(UNFINISHED)})?")
NEW_KEEPER = "make a new keeper with init"
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class WrongPlaceError(StateError):
    """The named folder or key cannot belong to this keeper: wrong input."""


class KeeperState:
    """The open state folder: `ledger`, and `keys`, each private key by its 8 bytes of id."""

    def __init__(self, folder: Path, ledger: KeeperLedger, keys: dict[bytes, PrivateKey]) -> None:
        self._folder, self.ledger, self.keys = folder, ledger, keys

    def rotate(self, rng: KeyEntropy) -> bytes:
        """Make a new key, which is the current one from then on.

        Args:
            rng: where it is drawn from.

        Returns:
            Its public key, 32 bytes.

        Raises:
            StateError: the disk refuses.
        """
        return _new_key(self._folder, self.ledger, rng)

    def erase(self, key: bytes) -> None:
        """Overwrite and remove an earlier private key, for good.

        Args:
            key: its id, 8 bytes.

        Raises:
            StateError: there is no such key, it is the current one, or the disk refuses.
        """
        known = [keeper_id(public) for public in self.ledger.public_keys()]
        if key not in known:
            raise WrongPlaceError(
                f"{key.hex()}: there is no such key; export-public lists the keys"
            )
        if key == known[-1]:
            raise WrongPlaceError(f"{key.hex()}: is the current key; rotate first, then erase it")
        path = self._folder / f"{PREFIX}{key.hex()}"
        try:
            # First: a key whose file is gone and whose entry stays would keep the keeper from
            # running. An entry that is gone and whose file stays is finished at the next start.
            self.ledger.retire_key(key)
            _overwrite(path)
        except OSError as error:
            raise StateError(f"{path}: cannot be erased ({error.strerror})") from None
        self.keys.pop(key).erase()


def create(folder: Path, rng: KeyEntropy) -> bytes:
    """Make a state folder with an empty ledger and a first key.

    Args:
        folder: must be absent or empty.
        rng: where the key is drawn from.

    Returns:
        The public key, 32 bytes.

    Raises:
        StateError: the folder holds something, or the disk refuses.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        check_own(folder)
        if names_in(folder):
            raise WrongPlaceError(
                f"{folder}: is not empty; a keeper's first key needs a new folder"
            )
    except OSError as error:
        problem = f"cannot be made ({error.strerror})"
        raise WrongPlaceError(f"{folder}: {problem}; name a folder that you may make") from None
    try:
        with _locked(folder), KeeperLedger.create(folder / LEDGER) as ledger:
            return _new_key(folder, ledger, rng)
    except OSError as error:
        raise _unusable(folder, error) from None


@contextmanager
def opened(folder: Path) -> Iterator[KeeperState]:
    """The state of a keeper, for this process alone.

    Args:
        folder: that `create` made.

    Yields:
        Ledger and keys; the keys are erased from memory at the end.

    Raises:
        StateError: another process holds it, a key or the ledger is missing, or others may read it.
    """
    try:
        check_own(folder)
        with _locked(folder), KeeperLedger.open(folder / LEDGER) as ledger:
            keys = _read_keys(folder, ledger)
            try:
                yield KeeperState(folder, ledger, keys)
            finally:
                for key in keys.values():
                    key.erase()
    except OSError as error:
        raise _unusable(folder, error) from None


def _unusable(folder: Path, error: OSError) -> StateError:
    fix = "it must belong to the keeper's user, on a disk that works"
    return StateError(f"{error.filename or folder}: cannot be used ({error.strerror}); {fix}")


def check_own(folder: Path) -> None:
    """Raise StateError unless this is a folder of this user that no other user may enter."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        fix = "pansketch-keeper init makes it, and state: names it"
        raise WrongPlaceError(f"{folder}: is no folder to use ({error.strerror}); {fix}") from None
    try:
        found = os.fstat(handle)
    finally:
        os.close(handle)
    if found.st_uid != os.geteuid():
        raise WrongPlaceError(f"{folder}: belongs to another user; run the keeper as its owner")
    if found.st_mode & OTHERS:
        raise WrongPlaceError(f"{folder}: others may enter it; chmod 700 {folder}")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError(f"{folder}: another keeper uses this state; stop it first") from None
        yield
    finally:
        os.close(handle)


def _new_key(folder: Path, ledger: KeeperLedger, rng: KeyEntropy) -> bytes:
    buffer = np.zeros(KEY_BYTES, np.uint8)
    rng.fill_words(buffer.view(np.uint64))
    key = PrivateKey(buffer)
    path = folder / f"{PREFIX}{keeper_id(key.public).hex()}"
    unfinished = path.with_name(path.name + UNFINISHED)
    try:
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            os.writev(handle, [buffer.data])
            os.fsync(handle)
        finally:
            os.close(handle)
        sync_folder(folder)
        ledger.add_key(key.public)
        os.rename(unfinished, path)
        sync_folder(folder)
    except OSError as error:
        raise StateError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        key.erase()
    return key.public


def _read_keys(folder: Path, ledger: KeeperLedger) -> dict[bytes, PrivateKey]:
    """All private keys of the ledger, and no other. Completes or undoes an interrupted rotation."""
    known = {keeper_id(public): public for public in ledger.public_keys()}
    retired = set(ledger.retired_keys())
    for name in names_in(folder):
        if not name.startswith(PREFIX):
            continue
        if KEY_NAME.fullmatch(name) is None:
            raise StateError(f"{folder / name}: is no key of a keeper; move it away")
        key = bytes.fromhex(name.removeprefix(PREFIX).removesuffix(UNFINISHED))
        if name.endswith(UNFINISHED) and key in known:
            os.rename(folder / name, folder / name.removesuffix(UNFINISHED))
        elif name.endswith(UNFINISHED) or key in retired:
            _overwrite(folder / name)
        elif key not in known:
            raise StateError(
                f"{folder / name}: is a key that the ledger does not know, so the ledger is an old "
                "copy; never restore one: make a new keeper with init"
            )
    return {key: _read_key(folder / f"{PREFIX}{key.hex()}", known[key]) for key in known}


def _read_key(path: Path, public: bytes) -> PrivateKey:
    buffer = np.zeros(KEY_BYTES, np.uint8)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise StateError(f"{path}: is missing, but in the ledger; {NEW_KEEPER}") from None
    try:
        if os.fstat(handle).st_mode & OTHERS:
            raise StateError(f"{path}: others may read it; take it for known and rotate")
        length = os.readv(handle, [buffer.data])
    finally:
        os.close(handle)
    key = PrivateKey(buffer)
    if length != KEY_BYTES or key.public != public:
        key.erase()
        raise StateError(f"{path}: is damaged: it is not the ledger's key; {NEW_KEEPER}")
    return key


def _overwrite(path: Path) -> None:
    """Writes zeros, on the disk as far as the file system writes in place, and removes the file."""
    with suppress(FileNotFoundError):
        handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
        try:
            os.write(handle, bytes(KEY_BYTES))
            os.fsync(handle)
        finally:
            os.close(handle)
        path.unlink()
        sync_folder(path.parent)
