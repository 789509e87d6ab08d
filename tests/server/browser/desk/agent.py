"""A desk that does what a message names: pays, asks somebody or an expert, draws, fails, talks."""

from collections.abc import AsyncGenerator
from functools import partial

from anyio import Path
from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.context.activity import ToolContext
from durable_adk.models import BaseLlm, LlmRequest, LlmResponse
from durable_adk.tools import FunctionTool
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from tests.support.waiting import until

WORDS = [f"word{number} " for number in range(24)]
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cf"
    "c0000003010100c9fe92ef0000000049454e44ae426082"
)


class Words(BaseLlm):
    """Not an LLM: calls the tool that the message names, and repeats its results."""

    model: str = "words"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer, for "talk" word by word."""
        last = llm_request.contents[-1].parts[-1]
        if last.function_response:
            yield whole(types.Part(text=f"{last.function_response.name} is done."))
        elif "talk" in last.text:
            for number, word in enumerate(WORDS if stream else (), 1):
                await until(partial(may_say, number))
                content = types.Content(role="model", parts=[types.Part(text=word)])
                yield LlmResponse(content=content, partial=True)
            yield whole(types.Part(text="".join(WORDS)))
        elif "fail" in last.text:
            raise ValueError("The desk is closed.")
        else:
            name, *more = last.text.lower().split()
            arguments = {"pay": {"amount": 3}, "expert": {"request": " ".join(more)}, "rest": {}}
            arguments = arguments.get(name, {"about": "a fish"})
            yield whole(types.Part.from_function_call(name=name, args=arguments))


async def may_say(number: int) -> bool:
    """Whether the file `words` lets the desk say so many words; without it all may be said."""
    try:
        return int(await Path("words").read_text()) >= number
    except FileNotFoundError:
        return True


def whole(part: types.Part) -> LlmResponse:
    """A whole answer."""
    counts = types.GenerateContentResponseUsageMetadata(total_token_count=15)
    content = types.Content(role="model", parts=[part])
    return LlmResponse(content=content, usage_metadata=counts, model_version="words-1")


def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def ask(about: str) -> None:
    """Ask somebody, who answers later."""


async def draw(about: str, tool_context: ToolContext) -> str:
    """Draw a picture."""
    picture = types.Part.from_bytes(data=PIXEL, mime_type="image/png")
    await tool_context.save_artifact("picture.png", picture)
    tool_context.state["drawn"] = about
    return "drawn"


async def rest() -> str:
    """Rest until the file `rested` is there."""
    await until(Path("rested").exists)
    return "rested"


expert = LlmAgent(name="expert", description="Knows how.", model=Words(), tools=[draw, rest])
root_agent = LlmAgent(
    name="desk",
    model=Words(),
    tools=[
        FunctionTool(pay, require_confirmation=True),
        LongRunningFunctionTool(ask),
        draw,
        AgentTool(expert),
    ],
)
