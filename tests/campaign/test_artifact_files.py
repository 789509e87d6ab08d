"""What is read of the artifacts' folder."""

import json
from pathlib import Path

import pytest
from google.genai import types

from campaign.artifact_files import export_files, unfinished, versions
from campaign.run_folder import RunFolder
from durable_adk.artifacts import FileArtifactService

REPORT = {"app_name": "files", "user_id": "user-0", "filename": "report.txt"}


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    """A folder in which a session has a file of two versions, and its user another one."""
    service = FileArtifactService(RunFolder(tmp_path).stores / "artifacts")
    for text in ("Report ~1", "Report ~2"):
        part = types.Part(text=text)
        await service.save_artifact(
            **REPORT, session_id="files-0-1", artifact=part, save_key=f"saves {text}"
        )
    shared = {**REPORT, "filename": "user:all.txt"}
    await service.save_artifact(**shared, artifact=types.Part(text="Ours"))
    return RunFolder(tmp_path).stores / "artifacts"


def test_versions_are_found_with_their_owner_and_content(root: Path) -> None:
    """I5: what the service has written is read without it."""
    found = {
        (line["session_id"], line["filename"], line["version"]): line for line in versions(root)
    }
    assert found.keys() == {
        ("files-0-1", "report.txt", 0),
        ("files-0-1", "report.txt", 1),
        ("", "user:all.txt", 0),
    }
    second = found["files-0-1", "report.txt", 1]
    assert (second["app_name"], second["user_id"]) == ("files", "user-0")
    assert (second["text"], second["save_key"]) == ("Report ~2", "saves Report ~2")


async def test_what_killed_processes_have_left_is_removed_by_the_next_save(root: Path) -> None:
    """I24: it is recorded, and that nothing of it stays."""
    record = next(path for path in _paths(root) if "Report ~1" in path.read_text())
    left = [record.parent / "content-of-somebody", root / ".new" / "1"]
    for path in left:
        path.write_text("half")
    folder = RunFolder(root.parents[1])
    await export_files(folder)
    kept = json.loads(folder.kept.read_text())
    assert sorted(kept["cut"]) == sorted(map(str, left))
    assert kept["left"] == []
    assert unfinished(root) == []
    assert len(kept["versions"]) == 3  # as they were before that save


async def test_what_nobody_would_remove_is_told(root: Path) -> None:
    """I24: half a file where no save looks stays for good."""
    stray = root / "app" / "user" / "user" / "name" / "0000000000" / "content-stray"
    stray.parent.mkdir(parents=True)
    stray.write_text("half")
    folder = RunFolder(root.parents[1])
    await export_files(folder)
    assert json.loads(folder.kept.read_text())["left"] == [str(stray)]


def _paths(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())
