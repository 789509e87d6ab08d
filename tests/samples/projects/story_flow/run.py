import asyncio
import json

from dotenv import load_dotenv
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from story_flow.agent import root_agent

load_dotenv()

APP, USER, SESSION = "story_app", "12345", "123344"


async def main():
    session_service = InMemorySessionService()
    await session_service.create_session(
        app_name=APP, user_id=USER, session_id=SESSION, state={"topic": "a lonely robot"}
    )
    runner = Runner(agent=root_agent, app_name=APP, session_service=session_service)
    content = types.Content(role="user", parts=[types.Part(text="Tell me a story.")])
    final = "none"
    async for event in runner.run_async(user_id=USER, session_id=SESSION, new_message=content):
        if event.is_final_response() and event.content and event.content.parts:
            final = event.content.parts[0].text
    print("Agent's final answer:", final)
    session = await session_service.get_session(app_name=APP, user_id=USER, session_id=SESSION)
    print(json.dumps(session.state, indent=2, sort_keys=True))


if __name__ == "__main__":
    asyncio.run(main())
