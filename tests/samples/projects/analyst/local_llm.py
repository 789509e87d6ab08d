"""A model behind a server that speaks OpenAI's chat completions."""

import asyncio
import json
import os
import urllib.request
from typing import AsyncGenerator

from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.genai import types


def _post(body: dict) -> dict:
    request = urllib.request.Request(
        os.environ["LOCAL_LLM_BASE"] + "/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": "Bearer none"},
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


class LocalLlm(BaseLlm):
    max_tokens: int = 1000

    @classmethod
    def supported_models(cls) -> list[str]:
        return [r"local/.*"]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self._maybe_append_user_content(llm_request)
        messages = [{"role": "system", "content": llm_request.config.system_instruction or ""}]
        for content in llm_request.contents:
            for part in content.parts or []:
                if part.function_call:
                    call = part.function_call
                    function = {"name": call.name, "arguments": json.dumps(call.args)}
                    calls = [{"id": call.id, "type": "function", "function": function}]
                    messages.append({"role": "assistant", "tool_calls": calls})
                elif part.function_response:
                    answer = part.function_response
                    messages.append({
                        "role": "tool",
                        "tool_call_id": answer.id,
                        "content": json.dumps(answer.response),
                    })
                elif part.text:
                    role = "assistant" if content.role == "model" else "user"
                    messages.append({"role": role, "content": part.text})
        tools = [
            {
                "type": "function",
                "function": {
                    "name": declaration.name,
                    "description": declaration.description,
                    "parameters": declaration.parameters_json_schema
                    or (declaration.parameters and declaration.parameters.model_dump(mode="json", exclude_none=True)),
                },
            }
            for tool in llm_request.config.tools or []
            for declaration in tool.function_declarations or []
        ]
        body = {
            "model": (llm_request.model or self.model).removeprefix("local/"),
            "messages": messages,
            "max_tokens": self.max_tokens,
        }
        if tools:
            body["tools"] = tools
        reply = await asyncio.to_thread(_post, body)
        message = reply["choices"][0]["message"]
        parts = []
        if message.get("content"):
            parts.append(types.Part(text=message["content"]))
        for call in message.get("tool_calls") or []:
            arguments = json.loads(call["function"]["arguments"])
            part = types.Part.from_function_call(name=call["function"]["name"], args=arguments)
            part.function_call.id = call["id"]
            parts.append(part)
        usage = reply["usage"]
        yield LlmResponse(
            content=types.Content(role="model", parts=parts),
            partial=False,
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=usage["prompt_tokens"],
                candidates_token_count=usage["completion_tokens"],
                total_token_count=usage["total_tokens"],
            ),
        )
