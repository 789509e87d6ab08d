"""Versions of artifacts as objects, safe among processes and machines by conditional puts.

::

    <app>/<user>/user/<name>/            names that the user's sessions share
    <app>/<user>/sessions/<session>/<name>/
        0000000000/                      what the name has been since it was last deleted
            0000000000                       the record of a version; it never changes
            content-<random>                 the content that a record names
            deleted                          all of this is gone; the next folder counts from 0
            key-<hash>                       a save key that somebody has begun to save with

**Publishing is one conditional put** of the record, under the next number, when its content is
there. The store refuses a name that is taken, so each number is taken once; who comes second looks
at what is there and tries the next. A process that is killed leaves content that no record names,
which nobody reads and a later save removes. The put itself may be sent twice, when its answer was
lost: `Written.save_id` tells one's own record from another's.

**One version a save key**, as in `_files`: numbers are taken in order, so a saver that has found
its key in no version below `n` and then takes `n` is the key's only one. Who made the claim
`key-...` knows that no version before it has the key; everybody after it, a retry, reads them all.

**Deleting is one put** of `deleted`, which sorts behind all versions: a listing that has not met it
has seen all of them. The highest one stays, so that a saver who counted before a deletion does not
take its number after it. Names are hashes: what stays says nothing of what was deleted.
"""

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from uuid import uuid4

from durable_adk.artifacts._key import ArtifactKey, Scope, component
from durable_adk.artifacts._record import Record, fields_of
from durable_adk.artifacts._stored import Counted, Draft, Kept
from durable_adk.artifacts.base_artifact_service import ArtifactVersion
from durable_adk.errors import StoreUnavailableError
from durable_adk.storage.object_store import ObjectStore, Stored, each

LEFT_BEHIND = 86_400.0
"""Seconds after which content that no record names is nobody's any more, by the store's clock."""
LONGEST_SAVE = LEFT_BEHIND / 2
"""Seconds after which a save gives up, rather than publish content that is being removed."""
_DIGITS = 10  # of a number in a path
_CONTENT, _DELETED, _KEY = "content-", "deleted", "key-"


class Written(Record):
    """A version's record."""

    save_id: str
    """Drawn by the save that wrote it."""
    path: str
    """Of its content, in the same folder."""
    size: int
    """Bytes of its content."""


@dataclass
class _Name:
    """What a listing of a name has shown."""

    folder: str
    """Of all that it has been."""
    life: int = 0
    """How often it was deleted."""
    versions: dict[int, Stored] = field(default_factory=dict[int, Stored])
    contents: list[Stored] = field(default_factory=list[Stored])
    garbage: list[str] = field(default_factory=list[str])
    """Of lives that are over, without the one mark that has to stay."""

    def path(self, entry: str | int) -> str:
        """Of an entry of the present life."""
        name = entry if isinstance(entry, str) else f"{entry:0{_DIGITS}}"
        return f"{self.folder}/{self.life:0{_DIGITS}}/{name}"


class ObjectVersions:
    """The store; see the module."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    async def add(self, key: ArtifactKey, draft: Draft) -> int:
        """Store a draft as the next version, unless its save key has one; returns the number."""
        await self._objects.check()
        name = await self._name(key)
        await self._tidy(name)
        if draft.save_key and not await self._claim(name, draft.save_key):
            for number, record in sorted((await self._records(name, name.versions)).items()):
                if record.save_key == draft.save_key:
                    return number
        record = await self._write(name, key.filename, draft)
        return await self._publish(name, record)

    async def numbers(self, key: ArtifactKey) -> list[int]:
        """The numbers of all versions, ascending."""
        return sorted((await self._name(key)).versions)

    async def open(self, key: ArtifactKey, version: int) -> Kept | None:
        """One version."""
        name = await self._name(key)
        record = await self._record(name, version) if version in name.versions else None
        if record is None:
            return None
        path, size = name.path(record.path), record.size
        return Kept(
            part=record.part,
            content=record.content,
            size=size,
            read=lambda: self._objects.read(path, size),
        )

    async def describe(self, key: ArtifactKey, versions: Iterable[int]) -> list[ArtifactVersion]:
        """What is known of versions, of those that are there."""
        name = await self._name(key)
        found = await self._records(name, [n for n in versions if n in name.versions])
        return [
            record.described(number, f"{self._objects.uri}/{name.path(number)}")
            for number, record in found.items()
        ]

    async def names(self, scope: Scope) -> list[str]:
        """All names in a scope."""
        names = _by_name(await self._objects.list(_scope(scope)))
        records = await each(
            lambda name: self._record(name, min(name.versions)),
            [name for name in names if name.versions],
        )
        return [record.filename for record in records if record]

    async def remove(self, key: ArtifactKey) -> None:
        """Remove a name: out of sight in one put, then for good."""
        name = await self._name(key)
        if name.versions:
            await self._objects.create(name.path(_DELETED), b"")
            name = await self._name(key)
        await self._objects.delete(name.garbage)

    async def remove_user(self, scope: Scope, *, dry_run: bool) -> int:
        """Remove all that a user has, or had in a session, marks too; how many names that are.

        A saver that began before may store a version after it: end what runs first.
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
        """Whether no save with this key has begun before; it is stored before its version is."""
        claim = name.path(_KEY + sha256(save_key.encode()).hexdigest())
        return await self._objects.create(claim, b"")

    async def _write(self, name: _Name, filename: str, draft: Draft) -> Written:
        """Store the content where nobody looks for it yet."""
        began = time.monotonic()
        fields, data = fields_of(filename, draft)
        save_id = uuid4().hex
        path = _CONTENT + save_id
        source = data if draft.chunks is None else Counted(draft.chunks)
        await self._objects.put(name.path(path), source)
        if time.monotonic() - began > LONGEST_SAVE:
            raise StoreUnavailableError(f"Artifact {filename!r} took too long to be stored.")
        size = len(source) if isinstance(source, bytes) else source.size
        return Written(**fields, save_id=save_id, path=path, size=size)

    async def _publish(self, name: _Name, record: Written) -> int:
        """Give a record the next number, unless a save with the same key has one by now."""
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
        """Remove what killed processes have left.

        Content of a version is older than its record. So there is more old content than there are
        old records only if some of it is nobody's, or if a save took until a moment ago.
        """
        await self._objects.delete(name.garbage)
        limit = time.time() - LEFT_BEHIND
        old = [content for content in name.contents if content.modified < limit]
        if len(old) <= sum(version.modified < limit for version in name.versions.values()):
            return
        records = (await self._records(name, name.versions)).values()
        used = {name.path(record.path) for record in records}
        if len(records) == len(name.versions):  # else it is being deleted
            await self._objects.delete([at.path for at in old if at.path not in used])

    async def _records(self, name: _Name, versions: Iterable[int]) -> dict[int, Written]:
        """The records of versions, of those that are there."""
        numbers = list(versions)
        found = await each(lambda number: self._record(name, number), numbers)
        return {number: record for number, record in zip(numbers, found, strict=True) if record}

    async def _record(self, name: _Name, version: int) -> Written | None:
        text = await self._objects.get(name.path(version))
        return None if text is None else Written.model_validate_json(text, extra="ignore")


def _by_name(entries: Iterable[Stored]) -> list[_Name]:
    """What listed objects are, for each name of theirs; a path ends with name, life and entry."""
    found: defaultdict[str, list[Stored]] = defaultdict(list)
    for entry in entries:
        found[entry.path.rsplit("/", 2)[0]].append(entry)
    return [_sorted(folder, listed) for folder, listed in found.items()]


def _user(scope: Scope) -> str:
    return f"{component(scope.app_name, '-')}/{component(scope.user_id, '-')}"


def _scope(scope: Scope) -> str:
    user = _user(scope)
    if scope.session_id is None:
        return f"{user}/user"
    return f"{user}/sessions/{component(scope.session_id, '-')}"


def _sorted(folder: str, entries: list[Stored]) -> _Name:
    """What the objects of a name are."""
    lives: defaultdict[int, dict[str, Stored]] = defaultdict(dict)
    for entry in entries:
        life, _, own = entry.path.removeprefix(f"{folder}/").partition("/")
        lives[int(life)][own] = entry
    over = max((life for life, own in lives.items() if _DELETED in own), default=-1)
    name = _Name(folder, over + 1)
    for own, entry in lives[over + 1].items():
        if own.isdecimal():
            name.versions[int(own)] = entry
        elif own.startswith(_CONTENT):
            name.contents.append(entry)
    for life, entries_of in lives.items():
        if life <= over:
            name.garbage += [
                entry.path for own, entry in entries_of.items() if (life, own) != (over, _DELETED)
            ]
    return name
