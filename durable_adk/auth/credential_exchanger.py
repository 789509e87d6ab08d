"""The port to whatever turns a user's consent into a usable credential."""

from typing import Protocol

from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.auth.auth_schemes import AuthScheme


class CredentialExchanger(Protocol):
    """Exchanges a credential, e.g. an authorization code for tokens.

    None ships with the package, which itself calls no token endpoint: without one, the credential
    that the client answers with is handed to the tool as it is.
    """

    async def exchange(self, credential: AuthCredential, scheme: AuthScheme) -> AuthCredential:
        """The credential to use; the same one when there is nothing to exchange.

        Args:
            credential: What the client answered with, completed by `with_client`.
            scheme: The scheme of the configuration that the tool asked with.
        """
        ...


def with_client(credential: AuthCredential, raw: AuthCredential | None) -> AuthCredential:
    """The client's answer with what it was never told of the raw credential: the client's secret.

    An answer for another client stays as it is: the secret goes to nobody but its own client.
    """
    given, client = credential.oauth2, raw.oauth2 if raw else None
    if given is None or client is None or given.client_id not in (None, client.client_id):
        return credential
    missing = {
        name: value
        for name in client.model_fields_set
        if (value := getattr(client, name)) is not None
        and (name not in given.model_fields_set or getattr(given, name) is None)
    }
    return credential.model_copy(update={"oauth2": given.model_copy(update=missing)})
