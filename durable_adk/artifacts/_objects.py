"""Versions of artifacts as objects, safe among processes and machines by conditional puts.

::

    <app>/<user>/user/<name>/            names that the user's sessions share
    <app>/<user>/sessions/<session>/<name>/
        0000000000/                      a generation: the versions between two deletions
            0000000000                       the record of a version; immutable
            content-<random>                 the content that a record names
            deleted                          marks the generation as deleted
            key-<hash>                       the claim of a save key

**Publishing is one conditional put** of the record, under the next number, after its content was
stored. The store rejects an existing name, so each number is assigned once; a second process reads
the existing record and tries the next number. A killed process leaves content without a record,
which is never read, and which a later save removes. A put is repeated if its response was lost:
`Record.save_id` distinguishes the saver's own record from another's.

**One version per save key**: numbers are assigned in order, so a saver that found
its key in no version below `n` and then takes `n` is the only one with that key. The creator of the
claim `key-...` knows that no earlier version has the key; later savers, which are retries, read all
versions.

**Deleting is one put** of `deleted`, which sorts after all versions: a listing without it contains
all versions. The highest mark is kept, so that a saver that counted before a deletion cannot take a
number of its own after it. Names are hashes, so the mark does not reveal the name.
"""

import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from durable_adk.artifacts._key import ArtifactKey, ArtifactScope, component
from durable_adk.artifacts._record import CONTENT, Record
from durable_adk.artifacts.base_artifact_service import ArtifactVersion, check_fence
from durable_adk.errors import StoreUnavailableError, TransientError
from durable_adk.failpoints import failpoint
from durable_adk.storage.objects import Objects, StoredObject, each

LEFT_BEHIND = 86_400.0
"""Age in seconds, by the store's clock, after which content without a record is removed."""
LONGEST_SAVE = LEFT_BEHIND / 2
"""Seconds after which a save gives up, because its content might be removed already."""
_RECORD = 1_000
"""Bytes that an object occupies beside its content."""
_DIGITS = 10  # of a number in a path
_DELETED, _KEY = "deleted", "key-"


class OpenedVersion(NamedTuple):
    """A version whose content has not been read yet."""

    record: Record
    read: Callable[[], AsyncGenerator[bytes]]
    """Reads the content in chunks; raises FileNotFoundError if it was deleted."""


class _CountedChunks:
    """Chunks whose bytes are counted as they are read."""

    def __init__(self, chunks: AsyncIterable[bytes]) -> None:
        self._chunks = chunks
        self.size = 0

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        async for chunk in self._chunks:
            self.size += len(chunk)
            yield chunk


@dataclass
class _Name:
    """The objects of one artifact name."""

    folder: str
    """The folder of all its generations."""
    generation: int = 0
    """The number of deletions so far."""
    versions: dict[int, StoredObject] = field(default_factory=dict[int, StoredObject])
    contents: list[StoredObject] = field(default_factory=list[StoredObject])
    garbage: list[str] = field(default_factory=list[str])
    """Objects of deleted generations, except the one mark that must be kept."""

    def path(self, entry: str | int) -> str:
        """Return the path of an entry of the current generation."""
        name = entry if isinstance(entry, str) else f"{entry:0{_DIGITS}}"
        return f"{self.folder}/{self.generation:0{_DIGITS}}/{name}"


class ObjectVersions:
    """Versions in an object store; see the module."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def add(
        self, key: ArtifactKey, record: Record, content: bytes | AsyncIterable[bytes]
    ) -> int:
        """Store the next version, unless its save key has one; return the number."""
        await self._objects.check()
        name = await self._name(key)
        await self._tidy(name)
        if record.save_key and not await self._claim(name, record.save_key):
            for number, known in sorted((await self._records(name, name.versions)).items()):
                if known.save_key == record.save_key:
                    return number
        await self._write(name, record, content)
        failpoint("save.written")
        try:
            await check_fence()
        except TransientError:
            raise  # the save is retried
        except Exception:
            entries = [record.path, *([_claim(record.save_key)] if record.save_key else [])]
            await self._objects.delete([name.path(one) for one in entries])
            raise
        return await self._publish(name, record)

    async def numbers(self, key: ArtifactKey) -> list[int]:
        """Return the numbers of all versions, ascending."""
        return sorted((await self._name(key)).versions)

    async def open(self, key: ArtifactKey, version: int) -> OpenedVersion | None:
        """Return one version without reading its content."""
        name = await self._name(key)
        record = await self._record(name, version) if version in name.versions else None
        if record is None:
            return None
        path, size = name.path(record.path), record.size
        return OpenedVersion(record, lambda: self._objects.read(path, size))

    async def describe(self, key: ArtifactKey, versions: Iterable[int]) -> list[ArtifactVersion]:
        """Return the descriptions of the versions that exist."""
        name = await self._name(key)
        found = await self._records(name, [n for n in versions if n in name.versions])
        return [
            record.described(number, f"{self._objects.uri}/{name.path(number)}")
            for number, record in found.items()
        ]

    async def names(self, scope: ArtifactScope) -> list[str]:
        """Return all names in a scope."""
        names = _by_name(await self._objects.list(_scope(scope)))
        records = await each(
            lambda name: self._record(name, min(name.versions)),
            [name for name in names if name.versions],
        )
        return [record.filename for record in records if record]

    async def remove(self, key: ArtifactKey) -> None:
        """Remove a name: hide it with one put, then delete its objects."""
        name = await self._name(key)
        if name.versions:
            await self._objects.create(name.path(_DELETED), b"")
            name = await self._name(key)
        await self._objects.delete(name.garbage)

    async def size_of_user(self, scope: ArtifactScope) -> int:
        """Return the bytes of a user's objects, each with a fixed amount for its record."""
        return sum(one.size + _RECORD for one in await self._objects.list(_user(scope)))

    async def remove_user(self, scope: ArtifactScope, *, dry_run: bool) -> int:
        """Remove all objects of a user, including marks, and return the number of names.

        A save in progress may store a version afterwards, so end open invocations first.
        """
        user = _user(scope)
        entries = await self._objects.list(user)
        if not dry_run:
            await self._objects.delete([entry.path for entry in entries])
        return sum(bool(name.versions) for name in _by_name(entries))

    async def _name(self, key: ArtifactKey) -> _Name:
        folder = f"{_scope(key.scope)}/{sha256(key.filename.encode()).hexdigest()}"
        return _sorted(folder, await self._objects.list(folder))

    async def _claim(self, name: _Name, save_key: str) -> bool:
        """Return whether this is the first save with a key; the claim precedes the version."""
        return await self._objects.create(name.path(_claim(save_key)), b"")

    async def _write(
        self, name: _Name, record: Record, content: bytes | AsyncIterable[bytes]
    ) -> None:
        """Store the content, which has no record yet."""
        began = time.monotonic()
        source = content if isinstance(content, bytes) else _CountedChunks(content)
        await self._objects.put(name.path(record.path), source)
        if time.monotonic() - began > LONGEST_SAVE:
            raise StoreUnavailableError(f"Artifact {record.filename!r} took too long to store.")
        if isinstance(source, _CountedChunks):
            record.size = source.size

    async def _publish(self, name: _Name, record: Record) -> int:
        """Store a record under the next number, unless a save with the same key has one by then."""
        number = max(name.versions, default=-1) + 1
        text = record.to_json().encode()
        while not await self._objects.create(name.path(number), text):
            there = await self._record(name, number)
            if there and there.save_id == record.save_id:
                return number
            if there and record.save_key and there.save_key == record.save_key:
                await self._objects.delete([name.path(record.path)])
                return number
            number += 1
        return number

    async def _tidy(self, name: _Name) -> None:
        """Remove the leftovers of killed processes.

        Content is older than its record. So there is more old content than there are old records
        only if some of it has no record, or if a long save has just ended.
        """
        await self._objects.delete(name.garbage)
        limit = time.time() - LEFT_BEHIND
        old = [content for content in name.contents if content.modified < limit]
        if len(old) <= sum(version.modified < limit for version in name.versions.values()):
            return
        records = (await self._records(name, name.versions)).values()
        used = {name.path(record.path) for record in records}
        if len(records) == len(name.versions):  # otherwise the name is being deleted
            await self._objects.delete([at.path for at in old if at.path not in used])

    async def _records(self, name: _Name, versions: Iterable[int]) -> dict[int, Record]:
        """Return the records of the versions that exist."""
        numbers = list(versions)
        found = await each(lambda number: self._record(name, number), numbers)
        return {number: record for number, record in zip(numbers, found, strict=True) if record}

    async def _record(self, name: _Name, version: int) -> Record | None:
        text = await self._objects.get(name.path(version))
        return None if text is None else Record.model_validate_json(text, extra="ignore")


def _claim(save_key: str) -> str:
    return _KEY + sha256(save_key.encode()).hexdigest()


def _by_name(entries: Iterable[StoredObject]) -> list[_Name]:
    """Group listed objects by artifact name; a path ends with name, generation and entry."""
    found: defaultdict[str, list[StoredObject]] = defaultdict(list)
    for entry in entries:
        folder, number, _ = entry.path.rsplit("/", 2)
        if number.isdecimal():  # otherwise a file manager's
            found[folder].append(entry)
    return [_sorted(folder, listed) for folder, listed in found.items()]


def _user(scope: ArtifactScope) -> str:
    return f"{component(scope.app_name)}/{component(scope.user_id)}"


def _scope(scope: ArtifactScope) -> str:
    user = _user(scope)
    if scope.session_id is None:
        return f"{user}/user"
    return f"{user}/sessions/{component(scope.session_id)}"


def _sorted(folder: str, entries: list[StoredObject]) -> _Name:
    """Sort the objects of one name by generation and kind."""
    generations: defaultdict[int, dict[str, StoredObject]] = defaultdict(dict)
    for entry in entries:
        number, _, own = entry.path.removeprefix(f"{folder}/").partition("/")
        if number.isdecimal():
            generations[int(number)][own] = entry
    deleted = max((number for number, own in generations.items() if _DELETED in own), default=-1)
    name = _Name(folder, deleted + 1)
    for own, entry in generations[deleted + 1].items():
        if own.isdecimal():
            name.versions[int(own)] = entry
        elif own.startswith(CONTENT):
            name.contents.append(entry)
    for number, entries_of in generations.items():
        if number <= deleted:
            name.garbage += [
                entry.path
                for own, entry in entries_of.items()
                if (number, own) != (deleted, _DELETED)
            ]
    return name
