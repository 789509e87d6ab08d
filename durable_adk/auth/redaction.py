"""What of a credential may leave the process that holds it.

Events, state, histories and spans are kept and shown for long; none of them ever holds a secret
(semantics TOL-55, TRAP-48, reliability S14).
"""

from typing import Any, TypeVar

from durable_adk.auth._model import AuthModel

M = TypeVar("M", bound=AuthModel)


def without_secrets(value: M) -> M:
    """A copy that tells what is asked for, and nothing that authenticates.

    Only what is declared and not a secret is kept, so a field that a provider adds is removed.
    What stays of an `AuthConfig`: scheme, credential key, client id, scopes, auth_uri, state. Of
    a redacted value it is an equal one, so it may be applied wherever something leaves.
    """
    kept = {
        name: _kept(getattr(value, name))
        for name, field in type(value).model_fields.items()
        if field.repr and name in value.model_fields_set
    }
    return type(value).model_construct(**kept)


def _kept(value: Any) -> Any:
    return without_secrets(value) if isinstance(value, AuthModel) else value
