"""What the values of this package are made of: some of their fields are secrets."""

from collections.abc import Iterable
from typing import Any, Self

from pydantic import ConfigDict

from durable_adk.json_model import JsonModel


class AuthModel(JsonModel):
    """A value of ADK's JSON whose secrets show neither in its repr nor in an error about it.

    A field declared with ``repr=False`` is a secret. So is every field that is not declared, as
    providers may add some: they are kept, as in ADK, and written to JSON, for the credential
    store. What may leave this process is made by `durable_adk.auth.redaction`.
    """

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        declared = type(self).model_fields
        return [(name, value) for name, value in super().__repr_args__() if name in declared]

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The value that `to_json` wrote, with the fields that are not declared."""
        return cls.model_validate_json(text)
