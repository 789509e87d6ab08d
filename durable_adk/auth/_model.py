"""Base class of this package's values, some of whose fields are secrets."""

from collections.abc import Iterable
from typing import Any, Self

from pydantic import ConfigDict

from durable_adk.json_values import JsonModel


class AuthModel(JsonModel):
    """A value in ADK's JSON format that hides secrets from its repr and validation errors.

    Fields declared with ``repr=False`` are secrets. Undeclared fields, which providers may add,
    are treated as secrets too; as in ADK they are kept and serialized, for the credential store.
    Use `durable_adk.auth.redaction` for values that leave this process.
    """

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        declared = type(self).model_fields
        return [(name, value) for name, value in super().__repr_args__() if name in declared]

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse the output of `to_json`, including undeclared fields."""
        return cls.model_validate_json(text)
