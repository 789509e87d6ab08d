"""Keys, and the file that they are in."""

from pathlib import Path

import pytest

from durable_adk.encryption import Key, KeyFile, KeyRing
from durable_adk.errors import EncryptionKeyError, InvalidRequestError


def written(path: Path, *keys: Key, mode: int = 0o600) -> Path:
    """A key file."""
    path.write_text("# ours\n\n" + "".join(f"{key.line()}\n" for key in keys))
    path.chmod(mode)
    return path


async def test_the_first_key_of_a_file_encrypts_and_all_decrypt(tmp_path: Path) -> None:
    """S6: rotation."""
    new, old = Key.new("new"), Key.new("old")
    keys = KeyFile(written(tmp_path / "keys", new, old))
    assert await keys.current() == new
    assert await keys.find("old") == old
    assert await keys.find("another") is None


async def test_a_key_that_is_added_later_is_found_and_does_not_encrypt(tmp_path: Path) -> None:
    """S6: a worker that gets the new key late reads what others have written, without a restart."""
    old, new = Key.new("old"), Key.new("new")
    keys = KeyFile(written(tmp_path / "keys", old))
    written(tmp_path / "keys", new, old)
    assert await keys.find("new") == new
    assert await keys.current() == old


async def test_a_file_that_breaks_later_is_a_matter_of_time(tmp_path: Path) -> None:
    """S6: no invocation fails for it."""
    keys = KeyFile(written(tmp_path / "keys", Key.new("old")))
    (tmp_path / "keys").unlink()
    with pytest.raises(EncryptionKeyError, match="'new'"):
        await keys.find("new")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    """S14, as for the folder of credentials."""
    path = written(tmp_path / "keys", Key.new(), mode=mode)
    with pytest.raises(InvalidRequestError, match="chmod 600"):
        KeyFile(path)


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "id c2VjcmV0\n", "id SECRET!\n", "i\u20acd x\n"]
)
def test_a_line_that_is_no_key_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    """S14, S23."""
    path = tmp_path / "keys"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(InvalidRequestError) as caught:
        KeyFile(path)
    assert "SECRET" not in str(caught.value)
    assert "c2VjcmV0" not in str(caught.value)


def test_two_keys_of_one_id_are_refused() -> None:
    """S6: what the older one has encrypted could not be read."""
    with pytest.raises(InvalidRequestError, match="same id"):
        KeyRing([Key.new("k"), Key.new("k")])


def test_a_key_reads_back_and_is_not_in_its_repr() -> None:
    """S14: a key in a log would be a key lost."""
    key = Key.new()
    assert Key.parse(key.line()) == key
    assert repr(key) == f"Key(id={key.id!r})"
    assert Key.new() != Key.new()
