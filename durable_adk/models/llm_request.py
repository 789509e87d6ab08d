"""`LlmRequest`: a request to a model."""

from collections.abc import Sequence
from typing import Any, Protocol, cast

from google.genai import types
from pydantic import BaseModel, ConfigDict, Field

from durable_adk.calling.copies import lazy_copies

FOREIGN_CONTEXT = "For context:"
"""Start of a content that quotes another agent (FLW-22)."""
SYSTEM_INSTRUCTION = "System instruction"
"""Start of a content that holds a part of the agent's own system instruction (AGT-16)."""
NOT_BY_THE_USER = (FOREIGN_CONTEXT, SYSTEM_INSTRUCTION)
"""Starts of contents with role ``user`` that the user did not write."""
SET_MODEL_RESPONSE = "set_model_response"
"""Name of the tool that receives structured output (AGT-19)."""


def is_message(content: types.Content) -> bool:
    """Return whether the user wrote the content."""
    parts = content.parts or []
    for part in parts:  # not `any`: a test's model asks this of thousands of contents
        if part.function_response:
            return False
    by_runtime = bool(parts) and (parts[0].text or "").startswith(NOT_BY_THE_USER)
    return content.role == "user" and not by_runtime


class DeclaredTool(Protocol):
    """The part of `BaseTool` that a request needs; importing tools would be circular."""

    name: str

    def get_declaration(self) -> types.FunctionDeclaration | None:
        """Return the name, description and parameters for the model, if it can call the tool."""
        ...


class LlmRequest(BaseModel):
    """One request to a model; callbacks may change it in place (FLW-98, CB-6)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    model: str | None = None
    contents: list[types.Content] = Field(default_factory=list[types.Content])
    config: types.GenerateContentConfig = Field(default_factory=types.GenerateContentConfig)
    tools_dict: dict[str, Any] = Field(default_factory=dict[str, Any], exclude=True)
    """The declared tools by name; any value that has the methods of `BaseTool`."""

    def snapshot(self) -> "LlmRequest":
        """Return a deep copy, except for the tools, which are shared.

        Contents that are still unread are copied when the copy is read.
        """
        return self.model_copy(
            update={
                "contents": lazy_copies(types.Content, self.contents),
                "config": self.config.model_copy(deep=True),
                "tools_dict": dict(self.tools_dict),
            }
        )

    def append_instructions(self, instructions: list[str] | types.Content) -> list[types.Content]:
        """Append to the system instruction, separated by blank lines (AGT-15).

        The system instruction holds only text. So the files of a Content become contents of their
        own, which the instruction refers to; they are appended to `contents` and returned.

        Raises:
            TypeError: The argument is neither a list of texts nor a Content.
        """
        if isinstance(instructions, types.Content):
            texts, files = _divided(instructions)
            self._append_texts(texts)
            self.contents += files
            return files
        instructions_arg: Any = instructions  # callers may be untyped
        if not isinstance(instructions_arg, list) or not all(
            isinstance(item, str) for item in cast("list[Any]", instructions_arg)
        ):
            raise TypeError(
                f"instructions must be list[str] or Content, not {instructions_arg!r:.80}."
            )
        self._append_texts(instructions)
        return []

    def _append_texts(self, texts: list[str]) -> None:
        pieces = [piece for piece in texts if piece]
        if not pieces:
            return
        config: Any = self.config  # google-genai's union type refers to libraries not installed
        current: Any = config.system_instruction
        match current:
            case None:
                config.system_instruction = "\n\n".join(pieces)
            case str():
                config.system_instruction = "\n\n".join([current, *pieces])
            case types.Content():
                added = [types.Part(text=piece) for piece in pieces]
                config.system_instruction = types.Content(
                    role=current.role, parts=[*(current.parts or []), *added]
                )
            case list():
                config.system_instruction = [*current, *pieces]
            case _:
                config.system_instruction = [current, *pieces]

    def append_tools(self, tools: Sequence[DeclaredTool]) -> None:
        """Declare tools in one `types.Tool`; among equal names, the last one wins (TOL-2)."""
        declarations = {
            declaration.name: declaration
            for tool in tools
            if (declaration := tool.get_declaration()) is not None
        }
        self.tools_dict |= {tool.name: tool for tool in tools}
        if not declarations:
            return
        config: Any = self.config
        config_tools: list[Any] = list(config.tools or [])
        shared = next(
            (t for t in config_tools if isinstance(t, types.Tool) and t.function_declarations), None
        )
        if shared is None:
            shared = types.Tool(function_declarations=[])
            config_tools.append(shared)
        kept = [d for d in shared.function_declarations or [] if d.name not in declarations]
        shared.function_declarations = [*kept, *declarations.values()]
        config.tools = config_tools

    def set_output_schema(self, output_schema: Any = None, *, base_model: Any = None) -> None:
        """Request JSON output that matches a type or a schema (AGT-19).

        Args:
            output_schema: The type or schema.
            base_model: ADK's older name for it.

        Raises:
            ValueError: Neither is given.
        """
        schema = output_schema or base_model
        if schema is None:
            raise ValueError("set_output_schema needs an output_schema.")
        self.config.response_schema = schema
        self.config.response_mime_type = "application/json"


def _divided(instruction: types.Content) -> tuple[list[str], list[types.Content]]:
    """Return the instruction's texts, with references to its files, and the files."""
    texts: list[str] = []
    files: list[types.Content] = []
    for part in instruction.parts or []:
        if part.text:
            texts.append(part.text)
        elif part.inline_data or part.file_data:
            name = f"{SYSTEM_INSTRUCTION}, file {len(files) + 1}"
            texts.append(f"[{name}, which is in the messages]")
            files.append(types.Content(role="user", parts=[types.Part(text=f"{name}:"), part]))
    return texts, files
