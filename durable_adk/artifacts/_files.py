"""Versions of artifacts as folders on disk, safe among processes without any lock.

::

    <app>/<user>/user/<name>/            names that the user's sessions share
    <app>/<user>/sessions/<session>/<name>/
        0/  record.json  content         a version; immutable
        1/  ...
        .keys/<hash>                     claims of save keys
        .new-<random>/                   a version being written
        .old-<random>/                   leftovers of a killed process
    .deleted/<random>/                   names being deleted
    .spool/<random>                      content that arrives in chunks, until it is complete

**Publishing is one rename** of a whole `.new` folder to the next number. The system refuses to
rename onto a folder that is not empty, so each number is assigned once; the second process reads
the existing version and tries the next number. A killed process leaves a `.new` folder, which is
never read, and which a later save removes.

**One version per save key.** Numbers are assigned in order and versions are immutable. So a saver
that found its key in no version below `n`, and then takes `n`, is the only one with that key. The
claim in `.keys` avoids reading all versions at each save: its creator knows that no earlier version
has the key. Later savers, which are retries, read all versions.
"""

import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from errno import EEXIST, ENOTEMPTY
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from durable_adk.artifacts._key import ArtifactKey, ArtifactScope, component
from durable_adk.artifacts._record import Record, fields_of
from durable_adk.artifacts._stored import Draft
from durable_adk.artifacts.base_artifact_service import ArtifactVersion
from durable_adk.errors import StoreUnavailableError
from durable_adk.failpoints import failpoint
from durable_adk.storage.files import sync_folder, write_durably

_TRIES = 100
"""Attempts of a save; each failed one means that the name was deleted in the meantime."""
_LEFT_BEHIND = 3600.0
"""Age in seconds of a `.new` folder that no process is writing any more."""


class FileVersions:
    """Versions in a folder; see the module. Calls block."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def add(self, key: ArtifactKey, draft: Draft, spool: Path | None = None) -> int:
        """Store a draft as the next version, unless its save key has one; returns the number.

        Args:
            key: The artifact.
            draft: The version.
            spool: A file of `spool` with the content, if it arrived in chunks.
        """
        folder = self._folder(key)
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):
                return _add(folder, key.filename, draft, spool)
        raise StoreUnavailableError(f"Artifact {key.filename!r} is being deleted repeatedly.")

    def numbers(self, key: ArtifactKey) -> list[int]:
        """The numbers of all versions, ascending."""
        return _numbers(self._folder(key))

    def spool(self) -> Path:
        """The path of a new file for chunks; the caller removes it after the save."""
        folder = self._root / ".spool"
        _make(folder)
        for name in _listing(folder):  # leftovers of killed processes
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
        """The descriptions of the versions that exist."""
        folders = {number: self._folder(key) / str(number) for number in versions}
        found = [(number, folder, _read(folder)) for number, folder in folders.items()]
        return [
            record.described(number, folder.as_uri()) for number, folder, record in found if record
        ]

    def names(self, scope: ArtifactScope) -> list[str]:
        """All names in a scope."""
        folders = [self._scope(scope) / name for name in _listing(self._scope(scope))]
        records = [_read(folder / str(n)) for folder in folders for n in _numbers(folder)[:1]]
        return [record.filename for record in records if record]

    def remove(self, key: ArtifactKey) -> None:
        """Remove a name: hide it with one rename, then delete its files."""
        self._discard(self._folder(key))

    def remove_user(self, scope: ArtifactScope, *, dry_run: bool) -> int:
        """Remove all artifacts of a user, and return the number of names."""
        user = self._scope(scope._replace(session_id=None)).parent
        scopes = [user / "user", *(user / "sessions" / one for one in _listing(user / "sessions"))]
        count = sum(bool(_numbers(folder / name)) for folder in scopes for name in _listing(folder))
        if not dry_run:
            self._discard(user)
        return count

    def _discard(self, folder: Path) -> None:
        """Remove a folder, and the leftovers of removals by killed processes."""
        trash = self._root / ".deleted"
        if folder.exists():
            _make(trash)
            with suppress(FileNotFoundError):
                folder.rename(trash / uuid4().hex)
                sync_folder(folder.parent)
        for name in _listing(trash):
            shutil.rmtree(trash / name, ignore_errors=True)

    def _scope(self, scope: ArtifactScope) -> Path:
        user = self._root / component(scope.app_name) / component(scope.user_id)
        if scope.session_id is None:
            return user / "user"
        return user / "sessions" / component(scope.session_id)

    def _folder(self, key: ArtifactKey) -> Path:
        return self._scope(key.scope) / component(key.filename)


def _add(folder: Path, filename: str, draft: Draft, spool: Path | None) -> int:
    """Publish a draft; raises FileNotFoundError if the name is deleted in the meantime.

    The `.new` folder is created before the versions are listed. A deletion removes it together with
    them, so a number that was counted before a deletion cannot be taken after it.
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
    """Whether this is the first save with a key; the claim is on disk before the version."""
    keys = folder / ".keys"
    _make(keys)
    try:
        (keys / sha256(save_key.encode()).hexdigest()).touch(exist_ok=False)
    except FileExistsError:
        return False
    sync_folder(keys)
    return True


def _publish(new: Path, version: Path) -> bool:
    """Rename a written folder to its number; False if that is taken."""
    try:
        new.rename(version)
    except OSError as error:
        if error.errno in (EEXIST, ENOTEMPTY):
            return False
        raise
    sync_folder(version.parent)
    return True


def _is_of(version: Path, save_key: str) -> bool:
    record = _read(version)
    return record is not None and record.save_key == save_key


def _write(new: Path, filename: str, draft: Draft, spool: Path | None) -> None:
    """Write a version to the disk, under a name that is not read yet."""
    fields, data = fields_of(filename, draft)
    if spool is None:
        write_durably(new / "content", data, mode=0o666)
    else:
        (new / "content").hardlink_to(spool)
    write_durably(new / "record.json", Record(**fields).to_json().encode(), mode=0o666)
    sync_folder(new)


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
    """Remove the leftovers of killed processes, renaming them before their files are deleted.

    A very slow saver may be affected: it finds its folder missing, and starts again.
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
    """Create a folder and its parents durably."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)
