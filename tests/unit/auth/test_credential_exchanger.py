"""with_client: the secret goes to its own client's answer only."""

import pytest

from durable_adk.auth import AuthCredential, OAuth2Auth
from durable_adk.auth.credential_exchanger import with_client

RAW = AuthCredential(
    auth_type="oauth2",
    oauth2=OAuth2Auth.model_validate({"clientId": "c", "clientSecret": "s", "audience": "a"}),
)


def answer(**fields: str) -> AuthCredential:
    """What a client sent back."""
    return AuthCredential(auth_type="oauth2", oauth2=OAuth2Auth(auth_code="code", **fields))


@pytest.mark.parametrize("fields", [{}, {"client_id": "c"}])
def test_an_answer_is_completed(fields):
    """What the client was never told is filled in; what it said stands."""
    whole = with_client(answer(**fields, audience="mine"), RAW).oauth2
    assert whole
    assert (whole.client_id, whole.client_secret, whole.auth_code) == ("c", "s", "code")
    assert whole.audience == "mine"


def test_another_clients_answer_gets_no_secret():
    """An answer that names another client stays as it is."""
    other = answer(client_id="other")
    assert with_client(other, RAW) == other
    assert with_client(other, None) == other
    key = AuthCredential(auth_type="apiKey", api_key="k")
    assert with_client(key, RAW) == key
