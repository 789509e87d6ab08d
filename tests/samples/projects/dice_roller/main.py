import asyncio
import time

from dotenv import load_dotenv
from google.adk.agents.run_config import RunConfig
from google.adk.runners import InMemoryRunner
from google.adk.sessions.session import Session
from google.genai import types

from . import agent

load_dotenv(override=True)

APP_NAME = "dice"
USER_ID = "user1"


async def main():
    runner = InMemoryRunner(agent=agent.root_agent, app_name=APP_NAME)
    session = await runner.session_service.create_session(
        app_name=APP_NAME, user_id=USER_ID, state={"rolls": [3]}
    )

    async def run_prompt(session: Session, new_message: str):
        content = types.Content(role="user", parts=[types.Part.from_text(text=new_message)])
        print("** User says:", content.model_dump(exclude_none=True))
        async for event in runner.run_async(
            user_id=USER_ID,
            session_id=session.id,
            new_message=content,
            run_config=RunConfig(max_llm_calls=10),
        ):
            if event.content and event.content.parts and event.content.parts[0].text:
                print(f"** {event.author}: {event.content.parts[0].text}")

    started = time.time()
    await run_prompt(session, "Roll a die with 20 sides.")
    await run_prompt(session, "Is one of my rolls prime?")
    session = await runner.session_service.get_session(
        app_name=APP_NAME, user_id=USER_ID, session_id=session.id
    )
    print(session.state["rolls"], session.state["turns"], session.state["user:last_die"])
    print([type(event).__name__ for event in session.events].count("Event"), "events")
    assert time.time() > started
    for event in runner.run(
        user_id=USER_ID,
        session_id=session.id,
        new_message=types.UserContent(parts=[types.Part(text="Bye.")]),
    ):
        if event.is_final_response() and event.content:
            print(event.content.parts[0].text)


if __name__ == "__main__":
    asyncio.run(main())
