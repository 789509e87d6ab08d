"""What is found in a run's files."""

from pathlib import Path

import pytest

from campaign.leaks import SECRETS, SEEN, SPOKEN, search
from campaign.run_folder import RunFolder
from campaign.workload import Turn

TURN = Turn("sign_in", "user-0", "sign_in-0-1-0", 1)
NONCE = "~0a1b2c3d"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run in which everything is where it may be."""
    credentials, temporal = tmp_path / "stores" / "credentials", tmp_path / "temporal"
    credentials.mkdir(parents=True)
    temporal.mkdir()
    (credentials / "1.json").write_text(TURN.secret)
    (temporal / "temporal.db").write_bytes(b"\x00\x07" + TURN.message.encode() + NONCE.encode())
    (tmp_path / "worker-0.log").write_text("nothing of interest ~deadbeef")
    return RunFolder(tmp_path)


def test_what_is_where_it_may_be_is_no_leak(folder: RunFolder) -> None:
    """I19, I23: keys in the credential store, words in Temporal's files, chance in a log."""
    leaks, searched = search(folder, {TURN.word, NONCE})
    assert leaks == []
    assert searched[SEEN] == 2
    assert 0 < searched[SPOKEN] < searched[SECRETS]


@pytest.mark.parametrize("file", ["temporal/temporal.db", "sessions.db", "worker-0.log"])
def test_a_key_in_any_other_file_is_a_leak(folder: RunFolder, file: str) -> None:
    """I23: whatever kind of file it is."""
    with (folder.path / file).open("ab") as opened:
        opened.write(b"\xff" + TURN.secret.encode() + b"\x00")
    ((kind, where, what),) = (line.values() for line in search(folder, set()).leaks)
    assert (kind, where, what) == (SECRETS, file, TURN.secret)


@pytest.mark.parametrize("word", [TURN.word, NONCE])
@pytest.mark.parametrize("file", ["worker-0.log", "telemetry.txt", "temporal/temporal.log"])
def test_a_word_in_a_log_is_a_leak(folder: RunFolder, file: str, word: str) -> None:
    """I19: in logs, spans and metrics."""
    (folder.path / file).write_text(f'{{"message": "{word}"}}')
    assert [(line["kind"], line["file"]) for line in search(folder, {word}).leaks] == [
        (SPOKEN, file)
    ]


def test_a_word_in_temporal_is_a_leak_where_it_is_encrypted(folder: RunFolder) -> None:
    """I19, S6: of a run that encrypts what Temporal holds; the store may have it all the same."""
    (folder.path / "sessions.db").write_text(TURN.word)
    folder.encrypted.touch()
    leaks, searched = search(folder, {TURN.word, NONCE})
    assert [(line["kind"], line["file"]) for line in leaks] == [(SPOKEN, "temporal/temporal.db")]
    assert searched[SEEN] == 1
