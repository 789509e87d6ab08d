"""A model behind any server that speaks OpenAI's chat completions: OpenAI, vLLM, Ollama, others."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2  # comes with google-genai
from google.genai import types
from pydantic import SecretStr

from durable_adk.errors import ModelError, ModelUnavailableError
from durable_adk.models import BaseLlm, LlmRequest, LlmResponse


class ChatCompletions(BaseLlm):
    """Asks `base_url`. It does not retry: the runtime does, also after a crash."""

    base_url: str = "https://api.openai.com/v1"
    api_key: SecretStr
    timeout: float = 120

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002 - a whole response is right for both
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the whole response, also if `stream`."""
        headers = {"Authorization": f"Bearer {self.api_key.get_secret_value()}"}
        body = {"model": llm_request.model or self.model, "messages": messages(llm_request)}
        if declared := tools(llm_request):
            body["tools"] = declared
        url = f"{self.base_url}/chat/completions"
        try:
            async with httpx2.AsyncClient(timeout=self.timeout, headers=headers) as client:
                reply = await client.post(url, json=body)
        except httpx2.TransportError as error:
            raise ModelUnavailableError(f"{url} is out of reach: {error!r}") from error
        if reply.status_code in (408, 429) or reply.is_server_error:
            seconds = reply.headers.get("retry-after", "")
            after = float(seconds) if seconds.isdecimal() else None
            raise ModelUnavailableError(f"{url}: {reply.status_code}", retry_after=after)
        if reply.is_error:
            raise ModelError(f"{url}: {reply.status_code} {reply.text[:500]}")
        yield response(reply.json())


def messages(request: LlmRequest) -> list[dict[str, Any]]:
    """The system instruction, and the conversation with its tool calls and results."""
    config: Any = request.config
    system = config.system_instruction
    said: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for content in request.contents:
        role = "assistant" if content.role == "model" else "user"
        for part in content.parts or []:
            if part.text and not part.thought:
                said.append({"role": role, "content": part.text})
            if call := part.function_call:
                function = {"name": call.name, "arguments": json.dumps(call.args or {})}
                made = {"id": call.id, "type": "function", "function": function}
                if said[-1].get("tool_calls"):  # of the same turn
                    said[-1]["tool_calls"].append(made)
                else:
                    said.append({"role": role, "content": None, "tool_calls": [made]})
            if answer := part.function_response:
                result = json.dumps(answer.response)
                said.append({"role": "tool", "tool_call_id": answer.id, "content": result})
    return said


def tools(request: LlmRequest) -> list[dict[str, Any]]:
    """The tools that the model may call, each with the JSON schema of its parameters."""
    found: list[dict[str, Any]] = []
    for tool in request.tools_dict.values():
        if it := tool.get_declaration():
            schema = it.parameters_json_schema or {"type": "object"}
            function = {"name": it.name, "description": it.description, "parameters": schema}
            found.append({"type": "function", "function": function})
    return found


def response(reply: dict[str, Any]) -> LlmResponse:
    """The reply as a response with text, calls and token counts."""
    message: dict[str, Any] = reply["choices"][0]["message"]
    calls: list[dict[str, Any]] = message.get("tool_calls") or []
    usage: dict[str, int] = reply.get("usage") or {}
    parts = [types.Part(text=message["content"])] if message.get("content") else []
    for call in calls:
        name, args = call["function"]["name"], json.loads(call["function"]["arguments"] or "{}")
        made = types.FunctionCall(id=call["id"], name=name, args=args)
        parts.append(types.Part(function_call=made))
    return LlmResponse(
        content=types.Content(role="model", parts=parts),
        model_version=reply.get("model"),
        usage_metadata=types.GenerateContentResponseUsageMetadata(
            prompt_token_count=usage.get("prompt_tokens"),
            candidates_token_count=usage.get("completion_tokens"),
            total_token_count=usage.get("total_tokens"),
        ),
    )
