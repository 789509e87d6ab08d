"""What every credential service promises."""

import itertools
from types import SimpleNamespace

from durable_adk.auth import AuthConfig, AuthCredential
from durable_adk.auth.auth_schemes import HTTPBearer

KEY = AuthCredential(auth_type="apiKey", api_key="k", added_by_provider={"x": [1]})


async def test_what_is_saved_is_loaded(service):
    """A credential comes back equal, secrets and undeclared fields included; then the next one."""
    place = {"app_name": "a", "user_id": "u", "key": "k"}
    assert await service.load(**place) is None
    for credential in (KEY, AuthCredential(auth_type="apiKey", api_key="other")):
        await service.save(**place, credential=credential)
        assert await service.load(**place) == credential


async def test_a_loaded_credential_is_a_copy(service):
    """Changing what was loaded, or what was saved, changes nothing in storage."""
    place = {"app_name": "a", "user_id": "u", "key": "k"}
    mine = KEY.model_copy()
    await service.save(**place, credential=mine)
    mine.api_key = "changed"
    (await service.load(**place)).api_key = "changed"
    assert await service.load(**place) == KEY


async def test_deleting_forgets(service):
    """A deleted credential is gone; deleting again is no error."""
    place = {"app_name": "a", "user_id": "u", "key": "k"}
    await service.save(**place, credential=KEY)
    await service.delete(**place)
    await service.delete(**place)
    assert await service.load(**place) is None


async def test_users_never_share(service):
    """S2: neighbouring names are different places, however they are joined or spelled."""
    odd = ["a", "a:b", "b", "../a", "", "a\n", "ä", "a/../b", "x" * 300]
    places = list(itertools.product(odd, odd, ["k", "b:k"]))
    for index, (app, user, key) in enumerate(places):
        credential = AuthCredential(auth_type="apiKey", api_key=str(index))
        await service.save(app_name=app, user_id=user, key=key, credential=credential)
    for index, (app, user, key) in enumerate(places):
        found = await service.load(app_name=app, user_id=user, key=key)
        assert found.api_key == str(index)


async def test_adks_calls_go_by_the_contexts_user(service):
    """load_credential and save_credential use the configuration's key and the session's user."""
    context = SimpleNamespace(session=SimpleNamespace(app_name="a", user_id="u"))
    config = AuthConfig(auth_scheme=HTTPBearer())
    await service.save_credential(config, context)
    assert await service.load_credential(config, context) is None  # nothing was exchanged yet
    config.exchanged_auth_credential = KEY
    await service.save_credential(config, context)
    assert await service.load_credential(config, context) == KEY
    assert await service.load(app_name="a", user_id="u", key=config.credential_key) == KEY


async def test_a_user_is_forgotten_as_a_whole(service):
    """S6: all credentials of one user of one app, and nobody else's; a dry run only counts."""
    whose = {"app_name": "a", "user_id": "u"}
    others = [{"app_name": "a", "user_id": "u2"}, {"app_name": "a2", "user_id": "u"}]
    for place in [whose, *others]:
        for key in ("k", "l"):
            await service.save(**place, key=key, credential=KEY)
    assert await service.delete_user(**whose, dry_run=True) == 2
    assert await service.load(**whose, key="k") == KEY
    assert await service.delete_user(**whose) == 2
    assert await service.delete_user(**whose) == 0
    assert await service.load(**whose, key="k") is None
    for place in others:
        assert await service.load(**place, key="l") == KEY
