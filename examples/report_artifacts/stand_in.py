"""The scripted stand-in that answers when there is no key: a few rules, and no LLM."""

import re
from typing import Any

from google.genai import types

from durable_adk.models import LlmRequest, ScriptedModel

HELP = (
    'Say "Write the report for May", "Show the report", "Which versions are there?" or '
    '"Sign with: Yours, Ann".'
)
SHOWN = "Content of artifact"


def _answer(request: LlmRequest) -> str | types.Part:
    """The next call that the message asks for, or what came of the last one."""
    parts = [part for content in request.contents for part in content.parts or []]
    if len(parts) > 1 and (parts[-2].text or "").startswith(SHOWN):
        return parts[-1].text or ""
    if not parts:
        return HELP
    if result := parts[-1].function_response:
        return _go_on(result.name or "", result.response or {}, _signature(request))
    return _begin(parts[-1].text or "")


def _begin(message: str) -> str | types.Part:
    signature = re.search(r"\bsign\b.*?: *(.+)", message, re.IGNORECASE)
    month = re.search(r"\bfor (\w+)", message)
    if signature:
        return _call("set_signature", text=signature[1])
    if "version" in message.lower():
        return _call("list_versions")
    if "show" in message.lower():
        return _call("load_artifacts", artifact_names=["report.md"])
    return _call("get_sales", month=month[1]) if month else HELP


def _go_on(tool: str, result: dict[str, Any], signature: str) -> str | types.Part:
    if "error" in result:
        return str(result["error"])
    if tool == "get_sales":
        lines = [f"- {product}: {count}" for product, count in result["sold"].items()]
        text = "\n".join([f"# Sales in {result['month']}", *lines, signature]).strip()
        return _call("save_report", text=text)
    if tool == "list_versions":
        titles = [f"{version}: {title}" for version, title in enumerate(result["titles"])]
        return "\n".join(titles) or "There is no report yet."
    return f"Saved as version {result['version']} of {result['name']}."


def _call(tool: str, **args: Any) -> types.Part:
    return types.Part.from_function_call(name=tool, args=args)


def _signature(request: LlmRequest) -> str:
    config: Any = request.config
    return str(config.system_instruction).partition("<signature>")[2].partition("</")[0]


reporter = ScriptedModel(replies=_answer)
