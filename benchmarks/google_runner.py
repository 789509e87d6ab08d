"""google-adk's own Runner on its database: ``python -m benchmarks.google_runner - - STORE``.

Runs in ``.venv/peers``, without Temporal: what a process has begun is lost with it.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService
from google.genai import types
from sqlalchemy.exc import OperationalError

from benchmarks.task import answer, at_a_time, get_capital, message, reply


class CapitalModel(BaseLlm):
    """The model of all systems."""

    model: str = "capital"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """See base class."""
        del stream
        yield LlmResponse(content=reply(llm_request.contents))


async def serve(store: str) -> None:
    """Run turns, each in a session of its own, as they are asked for."""
    agent = LlmAgent(name="g", model=CapitalModel(), tools=[get_capital])
    sessions = DatabaseSessionService(f"sqlite+aiosqlite:///{store}")
    runner = Runner(app_name="bench", agent=agent, session_service=sessions)

    repeated = 0

    async def turn(steps: int) -> None:
        session = await sessions.create_session(app_name="bench", user_id="u")
        content = types.Content(role="user", parts=[types.Part(text=message(steps))])
        whose = {"user_id": "u", "session_id": session.id}
        said = [event async for event in runner.run_async(**whose, new_message=content)]
        assert len(said) == 2 * steps + 1

    async def run(number: int, most: int, steps: int) -> int:
        async def repeat() -> None:
            nonlocal repeated
            while True:
                try:
                    return await turn(steps)
                except OperationalError:  # "database is locked": the turn is lost
                    repeated += 1

        await at_a_time(number, most, repeat)
        return repeated

    await answer(run)


if __name__ == "__main__":
    logging.getLogger("google_adk").setLevel(logging.ERROR)  # it misses token counts
    asyncio.run(serve(sys.argv[3]))
