"""What a model is asked."""

from typing import TYPE_CHECKING, Any

from google.genai import types
from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from durable_adk.tools.base_tool import BaseTool


class LlmRequest(BaseModel):
    """One request to a model; callbacks may change it in place (semantics FLW-98, CB-6)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    model: str | None = None
    contents: list[types.Content] = Field(default_factory=list[types.Content])
    config: types.GenerateContentConfig = Field(default_factory=types.GenerateContentConfig)
    # BaseTool is above this layer, and pydantic would need the class: Any keeps the layers apart.
    tools_dict: dict[str, Any] = Field(default_factory=dict[str, Any], exclude=True)

    def append_instructions(self, instructions: list[str]) -> None:
        """Add pieces to the system instruction, a blank line between each (semantics AGT-15)."""
        pieces = [piece for piece in instructions if piece]
        if not pieces:
            return
        current = self.config.system_instruction
        if current is None:
            self.config.system_instruction = "\n\n".join(pieces)
        elif isinstance(current, str):
            self.config.system_instruction = "\n\n".join([current, *pieces])
        else:
            existing = current if isinstance(current, list) else [current]
            self.config.system_instruction = [*existing, *pieces]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]: google-genai's union type

    def append_tools(self, tools: "list[BaseTool]") -> None:
        """Declare tools to the model, all in one `types.Tool`; the last of a name wins (TOL-2)."""
        declarations = {
            declaration.name: declaration
            for tool in tools
            if (declaration := tool.get_declaration()) is not None
        }
        self.tools_dict |= {tool.name: tool for tool in tools}
        if not declarations:
            return
        config_tools: list[Any] = list(self.config.tools or [])
        shared = next(
            (t for t in config_tools if isinstance(t, types.Tool) and t.function_declarations), None
        )
        if shared is None:
            shared = types.Tool(function_declarations=[])
            config_tools.append(shared)
        kept = [d for d in shared.function_declarations or [] if d.name not in declarations]
        shared.function_declarations = [*kept, *declarations.values()]
        self.config.tools = config_tools

    def set_output_schema(self, schema: type[BaseModel]) -> None:
        """Ask for JSON of this shape (semantics AGT-19)."""
        self.config.response_schema = schema
        self.config.response_mime_type = "application/json"
