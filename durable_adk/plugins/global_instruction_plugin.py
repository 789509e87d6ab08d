"""A plugin that adds one instruction for all agents of an app."""

from typing import Any

from google.genai import types

from durable_adk.agents.instructions import render
from durable_adk.agents.llm_agent import InstructionProvider
from durable_adk.calling import call
from durable_adk.context.activity import CallbackContext
from durable_adk.models.llm_request import LlmRequest
from durable_adk.plugins.base_plugin import BasePlugin


class GlobalInstructionPlugin(BasePlugin):
    """Prepends an instruction to every agent's own (AGT-14, PLG-7)."""

    def __init__(
        self,
        global_instruction: str | InstructionProvider = "",
        name: str = "global_instruction",
    ) -> None:
        """Set the instruction.

        Args:
            global_instruction: A template over state (AGT-13), or a provider, sync or async, whose
                text is used verbatim (AGT-12).
            name: The plugin's name.
        """
        super().__init__(name)
        self.global_instruction = global_instruction

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Prepend the instruction to the request's system instruction."""
        text = await self._text(callback_context)
        if text:
            # google-genai's union type refers to libraries that are not installed
            config: Any = llm_request.config
            config.system_instruction = _prepended(text, config.system_instruction)

    async def _text(self, context: CallbackContext) -> str:
        if isinstance(self.global_instruction, str):
            return await render(
                self.global_instruction,
                context.session.state,
                agent=context.agent_name,
                load_artifact=context.load_artifact,
            )
        return str(await call(self.global_instruction, context) or "")


def _prepended(text: str, instruction: Any) -> Any:
    """Prepend the text to the instruction, whose type stays; a blank line joins strings."""
    match instruction:
        case None:
            return text
        case str():
            return f"{text}\n\n{instruction}" if instruction else text
        case types.Content(role=role, parts=parts):
            return types.Content(role=role, parts=[types.Part(text=text), *(parts or [])])
        case list():
            return [text, *instruction]
        case _:
            return [text, instruction]
