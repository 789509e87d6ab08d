"""Removes secrets from credentials before they leave the process that holds them.

Events, state, histories and spans are stored and displayed for a long time; none of them may
contain a secret (TOL-55, TRAP-48, S14).
"""

from typing import Any, TypeVar

from durable_adk.auth._model import AuthModel

M = TypeVar("M", bound=AuthModel)


def without_secrets(value: M) -> M:
    """Return a copy that describes the requested credential but contains no secrets.

    Keeps only declared, non-secret fields, so fields added by a provider are removed. An
    `AuthConfig` retains its scheme, credential key, client id, scopes, auth_uri and state.
    Idempotent, so it can be applied at every boundary.
    """
    kept = {
        name: _kept(getattr(value, name))
        for name, field in type(value).model_fields.items()
        if field.repr and name in value.model_fields_set
    }
    return type(value).model_construct(**kept)


def _kept(value: Any) -> Any:
    return without_secrets(value) if isinstance(value, AuthModel) else value
