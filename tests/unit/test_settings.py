"""Settings from the environment."""

from durable_adk.embedded.stores import folder_stores
from durable_adk.settings import Settings


async def test_the_environment_says_where_things_are_kept(tmp_path, monkeypatch):
    """Each store has a variable of its own; what has none is in the data folder."""
    monkeypatch.setenv("DURABLE_ADK_CREDENTIALS", str(tmp_path / "vault"))
    assert Settings().credentials == str(tmp_path / "vault")
    assert Settings().artifacts is Settings().memory is None
    async with folder_stores(tmp_path / "data"):
        assert (tmp_path / "vault").stat().st_mode & 0o777 == 0o700
        assert not (tmp_path / "data" / "credentials").exists()
