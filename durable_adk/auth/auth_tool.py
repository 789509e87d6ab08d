"""The credential request of a tool."""

import hashlib
from typing import Any, Self

from pydantic import model_validator

from durable_adk.auth._model import AuthModel
from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.auth.auth_schemes import AuthScheme
from durable_adk.auth.redaction import without_secrets
from durable_adk.json_values import canonical

REQUEST_CREDENTIAL = "adk_request_credential"
"""Name of the function call that asks."""
_VOLATILE = {"auth_uri", "state", "redirect_uri", "expires_at", "expires_in"}
"""Fields that differ between consents or installations."""


class AuthConfig(AuthModel):
    """An authentication scheme, the client to use, and the resulting credential (TOL-50)."""

    auth_scheme: AuthScheme
    raw_auth_credential: AuthCredential | None = None
    """The developer's credential, e.g. the OAuth2 client."""
    exchanged_auth_credential: AuthCredential | None = None
    """The credential obtained through the user's consent."""
    credential_key: str | None = None
    """Key under which the credential is stored, per app and user.

    If None, derived from the scheme and the non-secret fields of the raw credential, so that the
    key survives a change of secrets and does not reveal them. Set it explicitly when two services
    have the same scheme and client, or they will share the credential.
    """

    @model_validator(mode="after")
    def _with_key(self) -> Self:
        self.credential_key = self.credential_key or _derived_key(self)
        return self

    @property
    def key(self) -> str:
        """The credential key, explicit or derived."""
        return self.credential_key or _derived_key(self)


class AuthToolArguments(AuthModel):
    """Arguments of an ``adk_request_credential`` call."""

    function_call_id: str
    """Id of the tool call that needs the credential."""
    auth_config: AuthConfig


def _derived_key(config: AuthConfig) -> str:
    scheme, raw = config.auth_scheme, config.raw_auth_credential
    parts = ["adk", str(scheme.type_), _digest(scheme)]
    if raw is not None:
        parts += [str(raw.auth_type), _digest(without_secrets(raw), exclude={"oauth2": _VOLATILE})]
    return "_".join(parts)


def _digest(value: AuthModel, *, exclude: Any = None) -> str:
    data = value.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=exclude)
    return hashlib.sha256(canonical(data).encode()).hexdigest()[:16]
