"""The request to confirm a tool call, and the decision."""

import json
from typing import Any, Literal, Self

from pydantic import StrictBool

from durable_adk.json_values import JsonModel

ConfirmationRequester = Literal["runtime", "callback", "tool"]
"""The code that requested a confirmation: the runtime because of the tool's `require_confirmation`,
a callback of an agent or plugin, or the tool's own code."""


class ToolConfirmation(JsonModel):
    """What a person is asked to approve, and the decision."""

    hint: str = ""
    """Text for the person who decides."""
    confirmed: StrictBool = False
    """Only true confirms: "yes", 1 and "true" are rejected."""
    payload: Any | None = None
    """JSON: values that the tool requests from the person, and the person's values."""

    @classmethod
    def from_response_dict(cls, response: dict[str, Any]) -> Self:
        """Read the response to a request; ADK's web client wraps its JSON in ``response``."""
        if set(response) == {"response"}:
            response = json.loads(response["response"])
        return cls.model_validate(response)
