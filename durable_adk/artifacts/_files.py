"""Versions of artifacts as folders on disk, safe among processes without any lock.

::

    <app>/<user>/user/<name>/            names that the user's sessions share
    <app>/<user>/sessions/<session>/<name>/
        0/  record.json  content         a version; it never changes
        1/  ...
        .keys/<hash>                     save keys that somebody has begun to save with
        .new-<random>/                   a version being written
        .old-<random>/                   one that a killed process has left
    .deleted/<random>/                   names being deleted
    .spool/<random>                      content that comes in chunks, until it is all there

**Publishing is one rename** of a whole `.new` folder to the next number. The system refuses to
rename onto a folder that has something in it, so each number is taken once; who comes second looks
at what is there and tries the next. A process that is killed leaves a `.new` folder, which nobody
reads and a later save removes.

**One version a save key.** Numbers are taken in order and versions never change. So a saver that
has found its key in no version below `n`, and then takes `n`, is the key's only one. Reading all
versions at each save would be slow, and the claim in `.keys` spares it: the process that made the
claim knows that no version before it has the key. Everybody after it, a retry, reads them all.
"""

import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from errno import EEXIST, ENOTEMPTY
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from durable_adk.artifacts._key import ArtifactKey, Scope, component
from durable_adk.artifacts._record import Record, fields_of
from durable_adk.artifacts._stored import Draft
from durable_adk.artifacts.base_artifact_service import ArtifactVersion
from durable_adk.errors import StoreUnavailableError
from durable_adk.failpoints import failpoint

_TRIES = 100
"""Every try but the last was lost to somebody who deleted the name meanwhile."""
_LEFT_BEHIND = 3600.0
"""Seconds after which nobody is writing a `.new` folder any more."""


class FileVersions:
    """The folder; see the module. Calls block."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def add(self, key: ArtifactKey, draft: Draft, spool: Path | None = None) -> int:
        """Store a draft as the next version, unless its save key has one; returns the number.

        Args:
            key: Whose version.
            draft: The version.
            spool: What `spool` has made of its chunks.
        """
        folder = self._folder(key)
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):
                return _add(folder, key.filename, draft, spool)
        raise StoreUnavailableError(f"Artifact {key.filename!r} is being deleted again and again.")

    def numbers(self, key: ArtifactKey) -> list[int]:
        """The numbers of all versions, ascending."""
        return _numbers(self._folder(key))

    def spool(self) -> Path:
        """A new file for chunks; whoever gets it removes it when the version is there."""
        folder = self._root / ".spool"
        _make(folder)
        for name in _listing(folder):  # what killed processes have left
            with suppress(FileNotFoundError):
                if time.time() - (folder / name).stat().st_mtime > _LEFT_BEHIND:
                    (folder / name).unlink()
        return folder / uuid4().hex

    def open(self, key: ArtifactKey, version: int) -> tuple[Record, Path] | None:
        """One version, and the file of its content."""
        folder = self._folder(key) / str(version)
        record = _read(folder)
        return record and (record, folder / "content")

    def describe(self, key: ArtifactKey, versions: Iterable[int]) -> list[ArtifactVersion]:
        """What is known of versions, of those that are there."""
        folders = {number: self._folder(key) / str(number) for number in versions}
        found = [(number, folder, _read(folder)) for number, folder in folders.items()]
        return [
            record.described(number, folder.as_uri()) for number, folder, record in found if record
        ]

    def names(self, scope: Scope) -> list[str]:
        """All names in a scope."""
        folders = [self._scope(scope) / name for name in _listing(self._scope(scope))]
        records = [_read(folder / str(n)) for folder in folders for n in _numbers(folder)[:1]]
        return [record.filename for record in records if record]

    def remove(self, key: ArtifactKey) -> None:
        """Remove a name: out of sight in one rename, then for good."""
        self._discard(self._folder(key))

    def remove_user(self, scope: Scope, *, dry_run: bool) -> int:
        """Remove all that a user has, or had in a session; how many names that are."""
        user = self._scope(scope._replace(session_id=None)).parent
        scopes = [user / "user", *(user / "sessions" / one for one in _listing(user / "sessions"))]
        count = sum(bool(_numbers(folder / name)) for folder in scopes for name in _listing(folder))
        if not dry_run:
            self._discard(user)
        return count

    def _discard(self, folder: Path) -> None:
        """Remove a folder, and what a process that was killed while it did so has left."""
        trash = self._root / ".deleted"
        if folder.exists():
            _make(trash)
            with suppress(FileNotFoundError):
                folder.rename(trash / uuid4().hex)
                _sync(folder.parent)
        for name in _listing(trash):
            shutil.rmtree(trash / name, ignore_errors=True)

    def _scope(self, scope: Scope) -> Path:
        user = self._root / component(scope.app_name) / component(scope.user_id)
        if scope.session_id is None:
            return user / "user"
        return user / "sessions" / component(scope.session_id)

    def _folder(self, key: ArtifactKey) -> Path:
        return self._scope(key.scope) / component(key.filename)


def _add(folder: Path, filename: str, draft: Draft, spool: Path | None) -> int:
    """Publish a draft; FileNotFoundError when the name is deleted on the way.

    The `.new` folder is made before anything is looked at: it goes away together with what was
    seen, so a number that was counted before a deletion cannot be taken after it.
    """
    _make(folder)
    _sweep(folder)
    new = folder / f".new-{uuid4().hex}"
    new.mkdir()
    try:
        present = _numbers(folder)
        if draft.save_key and not _claim(folder, draft.save_key):
            for number in present:
                if _is_of(folder / str(number), draft.save_key):
                    return number
        _write(new, filename, draft, spool)
        failpoint("save.written")
        number = max(present, default=-1) + 1
        while not _publish(new, version := folder / str(number)):
            if draft.save_key and _is_of(version, draft.save_key):
                return number
            number += 1
        return number
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _claim(folder: Path, save_key: str) -> bool:
    """Whether no save with this key has begun before; it is on disk before its version is."""
    keys = folder / ".keys"
    _make(keys)
    try:
        (keys / sha256(save_key.encode()).hexdigest()).touch(exist_ok=False)
    except FileExistsError:
        return False
    _sync(keys)
    return True


def _publish(new: Path, version: Path) -> bool:
    """Give a written folder its number, unless that is taken."""
    try:
        new.rename(version)
    except OSError as error:
        if error.errno in (EEXIST, ENOTEMPTY):
            return False
        raise
    _sync(version.parent)
    return True


def _is_of(version: Path, save_key: str) -> bool:
    record = _read(version)
    return record is not None and record.save_key == save_key


def _write(new: Path, filename: str, draft: Draft, spool: Path | None) -> None:
    """Write a version where nobody looks for it yet, down to the disk."""
    fields, data = fields_of(filename, draft)
    if spool is None:
        _write_file(new / "content", data)
    else:
        (new / "content").hardlink_to(spool)
    _write_file(new / "record.json", Record(**fields).to_json().encode())
    _sync(new)


def _read(version: Path) -> Record | None:
    try:
        text = (version / "record.json").read_bytes()
    except FileNotFoundError:
        return None
    return Record.model_validate_json(text, extra="ignore")


def _numbers(folder: Path) -> list[int]:
    return sorted(int(name) for name in _listing(folder) if name.isdecimal())


def _listing(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:
        return []


def _sweep(folder: Path) -> None:
    """Remove what killed processes have left, out of its savers' sight before it is taken apart.

    A saver so slow that it is hit finds its folder gone, and begins again.
    """
    for name in _listing(folder):
        if name.startswith(".new-"):
            with suppress(FileNotFoundError):
                if time.time() - (folder / name).stat().st_mtime > _LEFT_BEHIND:
                    (folder / name).rename(folder / f".old-{uuid4().hex}")
    for name in _listing(folder):
        if name.startswith(".old-"):
            shutil.rmtree(folder / name, ignore_errors=True)


def _make(folder: Path) -> None:
    """Make a folder and those above it, down to the disk."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _write_file(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Bring a folder's entries to the disk; a file's own fsync does not."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
