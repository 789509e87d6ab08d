"""The base class of every value that crosses a process boundary or is stored."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class JsonModel(BaseModel):
    """A model that serializes as ADK's JSON: camelCase keys, no nulls, bytes as base64 (EVT-3).

    The constructor rejects unknown fields. Reading ignores them, so that an older reader accepts
    what a newer writer wrote.
    """

    model_config = ConfigDict(
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
        protected_namespaces=(),
    )

    def to_json(self) -> str:
        """Return the value as one line of JSON."""
        return self.model_dump_json(by_alias=True, exclude_none=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse the output of `to_json`, written by this version or a newer one."""
        return cls.model_validate_json(text, extra="ignore")

    @classmethod
    def read(cls, value: Any) -> Self:
        """Validate a JSON object that was written by this version or a newer one."""
        return cls.model_validate(value, extra="ignore")
