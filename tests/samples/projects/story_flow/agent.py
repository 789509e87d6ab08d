import logging
from typing import AsyncGenerator

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, SequentialAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event, EventActions
from google.genai import types
from pydantic import Field
from typing_extensions import override

GEMINI_2_FLASH = "gemini-2.0-flash"

logging.basicConfig(level=logging.WARNING)
logger = logging.getLogger(__name__)


class StoryFlowAgent(BaseAgent):
    """Writes a story, has it revised, and writes it again if its tone is sad."""

    writer: LlmAgent
    reviser_loop: LoopAgent
    checks: SequentialAgent
    max_rewrites: int = Field(default=1, ge=0)

    model_config = {"arbitrary_types_allowed": True}

    def __init__(self, name: str, writer: LlmAgent, critic: LlmAgent, reviser: LlmAgent,
                 grammar: LlmAgent, tone: LlmAgent):
        reviser_loop = LoopAgent(
            name="CriticReviserLoop", sub_agents=[critic, reviser], max_iterations=2
        )
        checks = SequentialAgent(name="Checks", sub_agents=[grammar, tone])
        super().__init__(
            name=name,
            writer=writer,
            reviser_loop=reviser_loop,
            checks=checks,
            sub_agents=[writer, reviser_loop, checks],
        )

    @override
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        logger.info(f"[{self.name}] The story begins.")
        async for event in self.writer.run_async(ctx):
            logger.info(f"{self.name}: {event.model_dump_json(indent=2, exclude_none=True)}")
            yield event
        if "story" not in ctx.session.state or not ctx.session.state["story"]:
            logger.error(f"[{self.name}] There is no story.")
            return

        async for event in self.reviser_loop.run_async(ctx):
            yield event
        async for event in self.checks.run_async(ctx):
            yield event

        rewrites = 0
        while ctx.session.state.get("tone") == "negative" and rewrites < self.max_rewrites:
            rewrites += 1
            yield Event(
                author=self.name,
                invocation_id=ctx.invocation_id,
                actions=EventActions(state_delta={"rewrites": rewrites}),
            )
            async for event in self.writer.run_async(ctx):
                yield event

        yield Event(
            author=self.name,
            content=types.Content(
                role="model",
                parts=[types.Part(text=f"Written with {ctx.session.state.get('rewrites', 0)} rewrite.")],
            ),
        )


writer = LlmAgent(
    name="Writer",
    model=GEMINI_2_FLASH,
    instruction="You write a story of about one sentence on the topic: {topic?}",
    output_key="story",
)
critic = LlmAgent(
    name="Critic",
    model=GEMINI_2_FLASH,
    instruction="You criticise this story: {{story}}",
    output_key="criticism",
)
reviser = LlmAgent(
    name="Reviser",
    model=GEMINI_2_FLASH,
    instruction="You revise this story: {story} Follow this criticism: {criticism}",
    output_key="story",
)
grammar = LlmAgent(
    name="Grammar",
    model=GEMINI_2_FLASH,
    instruction="You check the grammar of: {story}",
    output_key="grammar",
)
tone = LlmAgent(
    name="Tone",
    model=GEMINI_2_FLASH,
    instruction="You say the tone of: {story} One word.",
    output_key="tone",
)

root_agent = StoryFlowAgent(
    name="StoryFlow", writer=writer, critic=critic, reviser=reviser, grammar=grammar, tone=tone
)
