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
import re
import shutil
import time
from contextlib import suppress
from errno import EEXIST, ENOTEMPTY
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from google.genai import types
from pydantic import Field

from durable_adk.artifacts._key import ArtifactKey, Scope
from durable_adk.artifacts._stored import Draft
from durable_adk.artifacts.base_artifact_service import ArtifactVersion
from durable_adk.errors import StoreUnavailableError
from durable_adk.models.llm_response import Wire

_TRIES = 100
"""Every try but the last was lost to somebody who deleted the name meanwhile."""
_LEFT_BEHIND = 3600.0
"""Seconds after which nobody is writing a `.new` folder any more."""


class _Record(Wire):
    """What is stored beside a version's content."""

    filename: str
    create_time: float
    mime_type: str | None = None
    custom_metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    save_key: str | None = None
    part: types.Part
    """The artifact without what `content` holds."""
    content: Literal["text", "inline_data"] | None = None
    """Which field of the part the file `content` is."""


class FileVersions:
    """The folder; see the module. Calls block."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def add(self, key: ArtifactKey, draft: Draft) -> int:
        """Store a draft as the next version, unless its save key has one; returns the number."""
        folder = self._folder(key)
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):
                return _add(folder, key.filename, draft)
        raise StoreUnavailableError(f"Artifact {key.filename!r} is being deleted again and again.")

    def numbers(self, key: ArtifactKey) -> list[int]:
        """The numbers of all versions, ascending."""
        return _numbers(self._folder(key))

    def part(self, key: ArtifactKey, version: int) -> types.Part | None:
        """One version's content."""
        folder = self._folder(key) / str(version)
        record = _read(folder)
        with suppress(FileNotFoundError):
            return record and _whole(record, folder)
        return None

    def describe(self, key: ArtifactKey, version: int) -> ArtifactVersion | None:
        """What is known of one version."""
        folder = self._folder(key) / str(version)
        record = _read(folder)
        return record and ArtifactVersion(
            version=version,
            canonical_uri=folder.as_uri(),
            custom_metadata=record.custom_metadata,
            create_time=record.create_time,
            mime_type=record.mime_type,
        )

    def names(self, scope: Scope) -> list[str]:
        """All names in a scope."""
        folders = [self._scope(scope) / name for name in _listing(self._scope(scope))]
        records = [_read(folder / str(n)) for folder in folders for n in _numbers(folder)[:1]]
        return [record.filename for record in records if record]

    def remove(self, key: ArtifactKey) -> None:
        """Remove a name: out of sight in one rename, then for good."""
        folder, trash = self._folder(key), self._root / ".deleted"
        if not folder.exists():
            return
        _make(trash)
        with suppress(FileNotFoundError):
            folder.rename(trash / uuid4().hex)
            _sync(folder.parent)
        for name in _listing(trash):  # also what a killed process has left
            shutil.rmtree(trash / name, ignore_errors=True)

    def _scope(self, scope: Scope) -> Path:
        user = self._root / _component(scope.app_name) / _component(scope.user_id)
        if scope.session_id is None:
            return user / "user"
        return user / "sessions" / _component(scope.session_id)

    def _folder(self, key: ArtifactKey) -> Path:
        return self._scope(key.scope) / _component(key.filename)


def _component(name: str) -> str:
    """A folder's name for any text: begins readably, and is another for every other text.

    The hash tells apart what a file system may not: case, composed and decomposed letters, what
    lies behind 255 bytes. It also keeps every name from meaning something to the file system.
    """
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:40]
    return f"{readable}~{sha256(name.encode()).hexdigest()[:32]}"


def _add(folder: Path, filename: str, draft: Draft) -> int:
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
        _write(new, filename, draft)
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


def _write(new: Path, filename: str, draft: Draft) -> None:
    """Write a version where nobody looks for it yet, down to the disk."""
    part, content, data = _split(draft.part)
    record = _Record(
        filename=filename,
        create_time=draft.create_time,
        mime_type=draft.mime_type,
        custom_metadata=draft.custom_metadata,
        save_key=draft.save_key,
        part=part,
        content=content,
    )
    _write_file(new / "content", data)
    _write_file(new / "record.json", record.to_json().encode())
    _sync(new)


def _split(part: types.Part) -> tuple[types.Part, Literal["text", "inline_data"] | None, bytes]:
    """The part without its content, which field that was, and its bytes."""
    if part.text is not None:
        return part.model_copy(update={"text": None}), "text", part.text.encode()
    blob = part.inline_data
    if blob and blob.data is not None:
        bare = part.model_copy(update={"inline_data": blob.model_copy(update={"data": None})})
        return bare, "inline_data", blob.data
    return part, None, b""


def _whole(record: _Record, folder: Path) -> types.Part:
    """The inverse of `_split`."""
    part = record.part
    if record.content == "text":
        part.text = (folder / "content").read_bytes().decode()
    elif record.content == "inline_data":
        part.inline_data = part.inline_data or types.Blob()
        part.inline_data.data = (folder / "content").read_bytes()
    return part


def _read(version: Path) -> _Record | None:
    try:
        text = (version / "record.json").read_bytes()
    except FileNotFoundError:
        return None
    return _Record.model_validate_json(text, extra="ignore")


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
