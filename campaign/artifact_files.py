"""Reads a run's folder of artifacts without the code that wrote it."""

import json
import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.genai import types

from campaign.run_folder import RunFolder
from durable_adk.artifacts import FileArtifactService
from harness.journal import Line

UNFINISHED = (".new-", ".old-")
"""Names of unfinished folders, which no reader sees."""
LONG_AGO = 2 * 3600.0
"""Seconds after which no process can still be writing it."""


async def export_files(folder: RunFolder) -> None:
    """Write down all versions, what killed processes have left, and what of it is left for good.

    What they have left is removed by a later save of the same name, an hour later. So it is made
    old here, and something is saved.
    """
    root = folder.stores / "artifacts"
    found, cut = versions(root), unfinished(root)
    await _sweep(root, found)
    left = unfinished(root)
    kept = {"versions": found, "cut": list(map(str, cut)), "left": list(map(str, left))}
    folder.kept.write_text(json.dumps(kept))


def versions(root: Path) -> list[Line]:
    """All versions, by their place in the folder; see `durable_adk.artifacts._files`."""
    return [
        _version(root, record.parent)
        for record in sorted(root.rglob("record.json"))
        if record.parent.name.isdecimal()
    ]


def unfinished(root: Path) -> list[Path]:
    """Return unfinished files, whole folders as one."""
    begun = [path for path in root.rglob(".*") if path.name.startswith(UNFINISHED)]
    return sorted([*root.glob(".spool/*"), *root.glob(".deleted/*"), *begun])


def _version(root: Path, folder: Path) -> Line:
    app, user, scope, *session, _, number = folder.relative_to(root).parts
    record: dict[str, Any] = json.loads((folder / "record.json").read_text())
    content = folder / "content"
    return {
        "app_name": _readable(app),
        "user_id": _readable(user),
        "session_id": _readable(session[0]) if scope == "sessions" else "",
        "filename": record["filename"],
        "version": int(number),
        "save_key": record.get("saveKey"),
        "text": content.read_text() if content.exists() else "",
    }


def _readable(component: str) -> str:
    """An id as it begins in a path; those of a campaign are short, and have no odd characters."""
    return component.rpartition("~")[0]


async def _sweep(root: Path, known: list[Line]) -> None:
    """Let what was left become old, and save once more wherever something was saved."""
    long_ago = time.time() - LONG_AGO
    for path in unfinished(root):
        os.utime(path, (long_ago, long_ago))
    service = FileArtifactService(root)
    names = ("app_name", "user_id", "session_id", "filename")
    for place in {tuple(line[name] for name in names) for line in known}:
        where: dict[str, Any] = dict(zip(names, place, strict=True))
        where["session_id"] = where["session_id"] or None
        await service.save_artifact(**where, artifact=types.Part(text="swept"))
    if known:
        own: dict[str, Any] = {"app_name": "sweeper", "user_id": "sweeper", "session_id": "sweeper"}
        await service.save_artifact_stream(**own, filename="swept", chunks=_nothing())


async def _nothing() -> AsyncGenerator[bytes]:
    yield b""
