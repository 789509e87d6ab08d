"""The scripted stand-in that answers when there is no key: a few rules, and no LLM."""

import re
from typing import Any

from google.genai import types

from durable_adk.models import LlmRequest, ScriptedModel


def _answer(request: LlmRequest) -> str | types.Part:
    """What the clerk does next, by the results of this message's calls."""
    message, results = _turn(request)
    order = re.search(r"\b[A-Z]+-\d+", message)
    amount = re.search(r"(?<![\w.-])\d+(?:\.\d+)?", message)
    if order is None or amount is None:
        return "Tell me the order, like A-17, and the sum in euros."
    if "inspect_parcel" not in results:
        return types.Part.from_function_call(name="inspect_parcel", args={"order": order[0]})
    if "refund" in results:
        return _outcome(results["refund"])
    found = results["inspect_parcel"]
    if found.get("status") == "pending":
        return f"The warehouse inspects the parcel, ticket {found['ticket']}."
    if "damaged" in str(found):
        return "There is no refund: the parcel came back damaged."
    args = {"order": order[0], "amount": float(amount[0])}
    return types.Part.from_function_call(name="refund", args=args)


def _outcome(refund: dict[str, Any]) -> str:
    if "error" in refund:
        return f"There is no refund: {refund['error']}"
    return f"Refunded {refund['paid']}, receipt {refund['receipt']}."


def _turn(request: LlmRequest) -> tuple[str, dict[str, dict[str, Any]]]:
    """The user's last message, and the results of the calls since, by the tool's name."""
    message, results = "", dict[str, dict[str, Any]]()
    for content in request.contents:
        for part in content.parts or []:
            if part.text and content.role == "user":
                message, results = part.text, {}
            elif part.function_response:
                results[part.function_response.name or ""] = part.function_response.response or {}
    return message, results


clerk = ScriptedModel(replies=_answer)
