"""What a database shows of credentials, and what a changed one can do."""

import pytest
from sqlalchemy import update

from durable_adk.auth import AuthCredential
from durable_adk.auth.credential_service import PostgresCredentialService
from durable_adk.encryption import Key, KeyRing
from durable_adk.errors import EncryptionKeyError, InvalidRequestError
from durable_adk.sql.schema import CREDENTIALS
from tests.integration.auth.credential_service.databases import emptied
from tests.support.postgres import HAS_POSTGRES, Databases

pytestmark = pytest.mark.skipif(not HAS_POSTGRES, reason="there is no PostgreSQL")
PLACE = {"app_name": "canary-app", "user_id": "canary-user", "key": "canary-name"}
SECRET = AuthCredential(auth_type="apiKey", api_key="canary-secret")


async def test_the_database_has_nothing_that_can_be_read(
    postgres: Databases, postgres_url: str
) -> None:
    """S14, I19: neither the credential nor whose it is."""
    async with emptied(postgres_url) as service:
        await service.save(**PLACE, credential=SECRET)
        (row,) = await postgres.query(postgres_url, "SELECT * FROM credentials")
    shown = " ".join(map(repr, dict(row).values()))
    assert "canary" not in shown
    assert len(row["secret"]) > len(SECRET.to_json())


async def test_another_process_with_the_keys_reads_it(postgres_url: str) -> None:
    """A run that continues at another worker has its user's credentials; a new key ends none."""
    old, new = Key.new("old"), Key.new("new")
    async with emptied(postgres_url, KeyRing([old])) as service:
        await service.save(**PLACE, credential=SECRET)
    other = PostgresCredentialService(postgres_url, keys=KeyRing([new, old]))
    assert await other.load(**PLACE) == SECRET
    await other.save(**PLACE, credential=SECRET)
    await other.close()
    newest = PostgresCredentialService(postgres_url, keys=KeyRing([new]))
    assert await newest.load(**PLACE) == SECRET
    await newest.close()


async def test_a_missing_key_is_named(postgres_url: str) -> None:
    """It may come: the step waits for it, as for payloads."""
    async with emptied(postgres_url, KeyRing([Key.new("ours")])) as service:
        await service.save(**PLACE, credential=SECRET)
    other = PostgresCredentialService(postgres_url, keys=KeyRing([Key.new("theirs")]))
    with pytest.raises(EncryptionKeyError, match=r"'ours'.*DURABLE_ADK_ENCRYPTION_KEYS"):
        await other.load(**PLACE)
    await other.close()


@pytest.mark.parametrize("how", ["moved", "changed"])
async def test_a_row_cannot_be_passed_off_as_another(postgres_url: str, how: str) -> None:
    """S14: who writes to the database gives nobody another user's credential."""
    async with emptied(postgres_url) as service:
        await service.save(**PLACE, credential=SECRET)
        mallory = {**PLACE, "user_id": "mallory"}
        await service.save(**mallory, credential=AuthCredential(auth_type="apiKey", api_key="m"))
        found = [dict(row) for row in await _rows(service)]
        for row, other in zip(found, found[::-1], strict=True):
            secret = (
                other["secret"]
                if how == "moved"
                else row["secret"][:-1] + bytes([row["secret"][-1] ^ 1])
            )
            values = {"secret": secret}
            where = CREDENTIALS.c.owner == row["owner"]
            change = update(CREDENTIALS).where(where).values(values)
            await service._database.write(
                lambda connection, change=change: connection.execute(change).close()
            )
        with pytest.raises(InvalidRequestError, match="changed"):
            await service.load(**PLACE)
        with pytest.raises(InvalidRequestError, match="changed"):
            await service.load(**mallory)


async def _rows(service: PostgresCredentialService):
    return await service._database.read(
        lambda connection: connection.execute(CREDENTIALS.select()).mappings().all()
    )
