"""Searches a run's files, byte by byte, for text that must not be in them (I19, I23)."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from campaign.run_folder import RunFolder
from campaign.workload import NONCE, SECRET, WORD
from harness.journal import Line

SPOKEN = "spoken"
"""What users, models and tools say: in no log, span or metric, and encrypted in Temporal."""
SECRETS = "secret"
"""Users' keys, which only files of the credential service may have."""
SEEN = "seen"
"""Spoken words in files of Temporal and the store, where they may be: a search finds something."""
STORED = ("temporal/", "postgres/", "sessions.db")
_SECRET = re.compile(f"{SECRET}[a-z0-9-]+".encode())
_SPOKEN = re.compile(f"{NONCE}|{WORD}".encode())


class Search(NamedTuple):
    """What a search came to."""

    leaks: list[Line]
    """The files that hold something, with what kind of thing and the first one."""
    searched: Counter[str]
    """Bytes looked through, by kind; and how many words were `SEEN`."""


def search(folder: RunFolder, spoken: Collection[str]) -> Search:
    """Look through all files of a run that is over.

    Args:
        folder: Of the run.
        spoken: All that was said in it; a number by chance is nothing that was said.
    """
    found = Search([], Counter())
    said = {word.encode() for word in spoken}
    for path in _files(folder):
        content, name = path.read_bytes(), str(path.relative_to(folder.path))
        found.searched[SECRETS] += len(content)
        hits = {SECRETS: set(_SECRET.findall(content)), SPOKEN: set[bytes]()}
        words = set(_SPOKEN.findall(content)) & said
        if _is_silent(folder, path):
            found.searched[SPOKEN] += len(content)
            hits[SPOKEN] = words
        elif name.startswith(STORED):
            found.searched[SEEN] += len(words)
        for kind, some in hits.items():
            if some:
                found.leaks.append({"kind": kind, "file": name, "what": min(some).decode()})
    return found


def _is_silent(folder: RunFolder, path: Path) -> bool:
    """Whether nothing that was said may be in a file."""
    in_temporal = path.is_relative_to(folder.path / "temporal") and folder.encrypted.exists()
    return in_temporal or path.suffix == ".log" or path == folder.telemetry


def _files(folder: RunFolder) -> Iterator[Path]:
    credentials = folder.stores / "credentials"
    for path in sorted(folder.path.rglob("*")):
        if path.is_file() and credentials not in path.parents:
            yield path
