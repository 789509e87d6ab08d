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

LONG_AGO = 2 * 86_400.0
"""Seconds after which no process can still be writing it."""


async def export_files(folder: RunFolder) -> None:
    """Write down all versions, what killed processes have left, and what of it is left for good.

    What they have left is removed by a later save of the same name, a day later. So it is made
    old here, and something is saved.
    """
    root = folder.stores / "artifacts"
    found, cut = versions(root), unfinished(root)
    await _sweep(root, found)
    left = unfinished(root)
    kept = {"versions": found, "cut": list(map(str, cut)), "left": list(map(str, left))}
    folder.kept.write_text(json.dumps(kept))


def versions(root: Path) -> list[Line]:
    """All versions, by their place in the folder; see `durable_adk.artifacts._objects`."""
    return [_version(root, record) for record in _records(root)]


def unfinished(root: Path) -> list[Path]:
    """Return files that are being written, and contents that no record names."""
    named = {record.parent / json.loads(record.read_text())["path"] for record in _records(root)}
    contents = {path for path in root.rglob("content-*") if not (path.parent / "deleted").exists()}
    return sorted([*root.glob(".new/*"), *(contents - named)])


def _records(root: Path) -> list[Path]:
    found = [path for path in root.rglob("*") if path.is_file() and path.name.isdecimal()]
    kept = [path for path in found if not (path.parent / "deleted").exists()]
    return sorted(path for path in kept if path.parent != root / ".new")


def _version(root: Path, path: Path) -> Line:
    app, user, scope, *session, _, _, number = path.relative_to(root).parts
    record: dict[str, Any] = json.loads(path.read_text())
    return {
        "app_name": _readable(app),
        "user_id": _readable(user),
        "session_id": _readable(session[0]) if scope == "sessions" else "",
        "filename": record["filename"],
        "version": int(number),
        "save_key": record.get("saveKey"),
        "text": (path.parent / record["path"]).read_text(),
    }


def _readable(component: str) -> str:
    """An id as it begins in a path; those of a campaign are short, and have no odd characters."""
    return component.rpartition("-")[0]


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
