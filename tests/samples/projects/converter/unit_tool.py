from typing import Any, Optional

from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext
from google.genai import types


class UnitTool(BaseTool):
    """Converts between two units, in both directions."""

    def __init__(self, large: str, small: str, factor: float):
        super().__init__(
            name=f"{large}_to_{small}", description=f"Converts {large} to {small} and back."
        )
        self.units = (large, small)
        self.factor = factor

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters=types.Schema(
                type=types.Type.OBJECT,
                properties={
                    "amount": types.Schema(type=types.Type.NUMBER),
                    "back": types.Schema(type=types.Type.BOOLEAN),
                },
                required=["amount"],
            ),
        )

    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        await super().process_llm_request(tool_context=tool_context, llm_request=llm_request)
        done = tool_context.state.get("conversions", 0)
        llm_request.append_instructions([f"{self.name} has been used {done} times."])

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        if args["amount"] < 0:
            return {"error": "There is no negative length."}
        tool_context.state["conversions"] = tool_context.state.get("conversions", 0) + 1
        large, small = self.units
        if args.get("back"):
            return {"amount": args["amount"] / self.factor, "unit": large}
        return {"amount": args["amount"] * self.factor, "unit": small}


class UnitToolset(BaseToolset):
    """The units that a user has chosen."""

    def __init__(self, **units: tuple[str, float]):
        super().__init__(tool_name_prefix="convert")
        self.tools = [UnitTool(large, small, factor) for large, (small, factor) in units.items()]

    async def get_tools(
        self, readonly_context: Optional[ReadonlyContext] = None
    ) -> list[BaseTool]:
        wanted = readonly_context.state.get("units") if readonly_context else None
        return [tool for tool in self.tools if wanted is None or tool.units[0] in wanted]

    async def close(self) -> None:
        self.tools = []
