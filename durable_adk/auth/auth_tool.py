"""What a tool asks for when it needs a credential."""

import hashlib
from typing import Any, Self

from pydantic import model_validator

from durable_adk.auth._model import AuthModel
from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.auth.auth_schemes import AuthScheme
from durable_adk.auth.redaction import without_secrets
from durable_adk.json_values import canonical

_VOLATILE = {"auth_uri", "state", "redirect_uri", "expires_at", "expires_in"}
"""What differs from one consent to the next, or from one installation to the next."""


class AuthConfig(AuthModel):
    """How to authenticate, with which client, and what came of it (semantics TOL-50)."""

    auth_scheme: AuthScheme
    raw_auth_credential: AuthCredential | None = None
    """What the developer has, e.g. the OAuth2 client."""
    exchanged_auth_credential: AuthCredential | None = None
    """What the user's consent gave."""
    credential_key: str | None = None
    """What the credential is stored under, per app and user.

    None: derived from the scheme and from what is no secret of the raw credential, so it stays
    when a secret changes and tells nothing of it. Name it when two services have the same scheme
    and client, or they share the credential.
    """

    @model_validator(mode="after")
    def _with_key(self) -> Self:
        self.credential_key = self.credential_key or _derived_key(self)
        return self

    @property
    def key(self) -> str:
        """The credential key, which every configuration has."""
        return self.credential_key or _derived_key(self)


class AuthToolArguments(AuthModel):
    """The arguments of a call of ``adk_request_credential``."""

    function_call_id: str
    """The call of the tool that needs the credential."""
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
