"""What a worker says of itself to probes."""

import os
import tempfile
from pathlib import Path

import pytest

from durable_adk.storage.files import private_folder
from durable_adk.worker_status import is_alive, report_stuck, report_working, stuck_reason


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of the machine, for this test alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


ENDED = 2**31 - 1
"""The id of a process that is no more: no system has one that is as large."""


def test_a_stuck_worker_says_so_until_another_one_starts_in_its_process() -> None:
    """F41: each task queue's worker for itself; ids of processes come again."""
    report_stuck("one", "blocked at agent.py:1")
    assert stuck_reason(os.getpid(), "one") == "blocked at agent.py:1"
    assert stuck_reason(os.getpid(), "another") is None
    assert stuck_reason(os.getpid() + 1, "one") is None
    report_working("one")
    report_working("one")
    assert stuck_reason(os.getpid(), "one") is None


def test_what_ended_processes_have_said_is_removed() -> None:
    """I24: with the next report; a folder of a long-lived machine does not fill up."""
    report_stuck("one", "here")
    (left,) = private_folder().glob("stuck-*")
    left.rename(left.with_name(left.name.replace(str(os.getpid()), str(ENDED))))
    report_stuck("two", "here too")
    assert len([*private_folder().glob("stuck-*")]) == 1


def test_nobody_else_can_say_it(temp: Path) -> None:
    """S24: the temporary folder is everybody's; one that others may write to is not used."""
    private_folder().mkdir(mode=0o755)
    private_folder().chmod(0o755)
    with pytest.raises(OSError, match="private"):
        report_stuck("one", "here")
    (private_folder() / "stuck-1-x").write_text("forged")
    assert stuck_reason(os.getpid(), "one") is None


def test_a_process_lives_until_it_has_ended() -> None:
    """D13: of whichever user it is."""
    assert is_alive(os.getpid())
    assert is_alive(1)
    assert not is_alive(ENDED)
