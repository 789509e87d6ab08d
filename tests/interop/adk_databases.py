"""google-adk's own session services, in a process of its environment.

They write and read the databases that are copied.

Each line of JSON that it reads is answered by one.
"""

import asyncio
import json
import os
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")

from fastapi.openapi.models import OAuth2, OAuthFlowAuthorizationCode, OAuthFlows  # noqa: E402
from google.adk.agents import LlmAgent  # noqa: E402
from google.adk.auth.auth_tool import AuthConfig  # noqa: E402
from google.adk.events.event import Event  # noqa: E402
from google.adk.events.event_actions import EventActions, EventCompaction  # noqa: E402
from google.adk.models import BaseLlm, LlmRequest, LlmResponse  # noqa: E402
from google.adk.runners import Runner  # noqa: E402
from google.adk.sessions.base_session_service import BaseSessionService  # noqa: E402
from google.adk.sessions.database_session_service import DatabaseSessionService  # noqa: E402
from google.adk.sessions.schemas import v0  # noqa: E402
from google.adk.sessions.sqlite_session_service import SqliteSessionService  # noqa: E402
from google.adk.tools import FunctionTool, LongRunningFunctionTool  # noqa: E402
from google.adk.tools.tool_confirmation import ToolConfirmation  # noqa: E402
from google.genai import types  # noqa: E402

START = 1_700_000_000.123456
SCHEME = OAuth2(
    flows=OAuthFlows(
        authorizationCode=OAuthFlowAuthorizationCode(
            authorizationUrl="https://example.com/auth",
            tokenUrl="https://example.com/token",
            scopes={"read": "Reads."},
        )
    )
)


def call(name: str, call_id: str) -> types.Part:
    """A part with a call."""
    part = types.Part(
        function_call=types.FunctionCall(name=name, id=call_id, args={"x": [1, None]})
    )
    part.thought_signature = b"\x00\xff\xfe"
    return part


def events() -> list[Event]:
    """One event of each kind, in an order that their ids do not have."""
    answer = types.FunctionResponse(name="book", id="c1", response={"result": {"id": 7}})
    made: list[dict[str, Any]] = [
        {
            "author": "user",
            "content": types.UserContent(["Bonjour à tous", _blob()]),
            "actions": EventActions(state_delta={"lang": "fr", "temp:gone": 1}),
        },
        {
            "author": "root",
            "content": types.ModelContent([call("book", "c1"), call("ask", "c2")]),
            "long_running_tool_ids": {"c2", "c1"},
            "usage_metadata": types.GenerateContentResponseUsageMetadata(total_token_count=12),
            "custom_metadata": {"trace": {"a": [1, 2.5, None]}},
            "branch": "root.helper",
        },
        {
            "author": "root",
            "content": types.Content(role="user", parts=[types.Part(function_response=answer)]),
            "actions": EventActions(
                state_delta={"cart": [{"n": 1}], "user:name": "Anna", "app:rate": 1.25, "no": None},
                artifact_delta={"ticket.pdf": 0},
                skip_summarization=True,
                requested_tool_confirmations={"c2": ToolConfirmation(hint="Sure?")},
                requested_auth_configs={"c2": AuthConfig(auth_scheme=SCHEME)},
            ),
        },
        {
            "author": "helper",
            "actions": EventActions(transfer_to_agent="helper", escalate=True),
            "error_code": "429",
            "error_message": "slow down",
            "grounding_metadata": types.GroundingMetadata(web_search_queries=["q"]),
        },
        {
            "author": "user",
            "actions": EventActions(
                compaction=EventCompaction(
                    start_timestamp=START,
                    end_timestamp=START + 1,
                    compacted_content=types.Content(role="model", parts=[types.Part(text="So.")]),
                )
            ),
        },
    ]
    return [
        Event(id=f"event-{9 - n}", invocation_id=f"e-{n // 3}", timestamp=START + n / 4, **one)
        for n, one in enumerate(made)
    ]


def _blob() -> types.Part:
    return types.Part.from_bytes(data=bytes(range(256)), mime_type="image/png")


async def service(url: str, kind: str) -> BaseSessionService:
    """A service; `kind` is the schema, or ``file`` for a `SqliteSessionService`."""
    if kind == "file":
        return SqliteSessionService(url.partition(":///")[2])
    made = DatabaseSessionService(url)
    if kind == "v0":
        async with made.db_engine.begin() as connection:
            await connection.run_sync(v0.Base.metadata.create_all)
    return made


async def write(url: str, kind: str, long: int) -> None:
    """Write the sessions that tests copy.

    Args:
        url: The database.
        kind: As for `service`.
        long: Events of one session.
    """
    made = await service(url, kind)
    ids = [("anna", "s1"), ("ben", "s1"), ("anna", "empty"), ("anna", "long")]
    for user, name in ids:
        state = {"begun": {"by": name}, "user:tier": "gold"}
        session = await made.create_session(
            app_name="shop", user_id=user, session_id=name, state=state
        )
        said = {"s1": events(), "empty": [], "long": talk(0, long)}[name]
        for event in said:
            await made.append_event(session, event)
    await made.close()


def talk(start: int, upto: int) -> list[Event]:
    """Messages that count."""
    return [
        Event(
            id=f"m{n}",
            invocation_id=f"e-{n // 2}",
            author="root" if n % 2 else "user",
            timestamp=START + n,
            content=types.Content(
                role="model" if n % 2 else "user", parts=[types.Part(text=f"{n}")]
            ),
            actions=EventActions(state_delta={"count": n}),
        )
        for n in range(start, upto)
    ]


async def grow(url: str, kind: str, start: int, upto: int) -> None:
    """Go on with the long session."""
    made = await service(url, kind)
    session = await made.get_session(app_name="shop", user_id="anna", session_id="long")
    assert session is not None
    for event in talk(start, upto):
        await made.append_event(session, event)
    await made.close()


class Payer(BaseLlm):
    """Pays what it is asked for, then says so."""

    model: str = "payer"

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
        answered = llm_request.contents[-1].parts[-1].function_response
        paying = types.Part.from_function_call(name="pay", args={"amount": 300})
        part = types.Part(text="Paid.") if answered else paying
        yield LlmResponse(content=types.ModelContent([part]))


def pay(amount: int) -> str:
    """Pay."""
    return f"{amount} paid"


async def converse(url: str, kind: str) -> None:
    """Have google-adk's runner talk in two sessions; in one a tool waits for approval."""
    made = await service(url, kind)
    for name, rule in (("asks", True), ("pays", False)):
        tool = FunctionTool(pay, require_confirmation=rule)
        agent = LlmAgent(name="root", model=Payer(), tools=[tool])
        runner = Runner(app_name="shop", agent=agent, session_service=made)
        where = {"user_id": "anna", "session_id": name}
        await made.create_session(app_name="shop", **where, state={"user:tier": "gold"})
        message = types.UserContent("300, please.")
        async for _ in runner.run_async(**where, new_message=message):
            pass
    await made.close()


class Scripted(BaseLlm):
    """Gives its replies in turn."""

    model: str = "scripted"
    replies: list[types.Part]

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
        yield LlmResponse(content=types.ModelContent([self.replies.pop(0)]))


def book(city: str) -> dict[str, str]:
    """Book."""
    return {"status": "pending"}


async def hand_over(url: str, kind: str) -> None:
    """Have google-adk's root agent transfer to one whose booking goes on."""
    made = await service(url, kind)
    transfer = types.Part.from_function_call(name="transfer_to_agent", args={"agent_name": "clerk"})
    booking = types.Part.from_function_call(name="book", args={"city": "Rome"})
    replies = [booking, types.Part(text="I am on it.")]
    tools = [LongRunningFunctionTool(book)]
    clerk = LlmAgent(name="clerk", model=Scripted(replies=replies), tools=tools)
    agent = LlmAgent(name="root", model=Scripted(replies=[transfer]), sub_agents=[clerk])
    runner = Runner(app_name="shop", agent=agent, session_service=made)
    where = {"user_id": "anna", "session_id": "hands"}
    await made.create_session(app_name="shop", **where)
    async for _ in runner.run_async(**where, new_message=types.UserContent("Rome, please.")):
        pass
    await made.close()


async def read(url: str, kind: str) -> list[Any]:
    """All sessions, as google-adk sees them."""
    made = await service(url, kind)
    found = list[Any]()
    listed = await made.list_sessions(app_name="shop")
    for one in sorted(listed.sessions, key=lambda one: (one.user_id, one.id)):
        session = await made.get_session(app_name="shop", user_id=one.user_id, session_id=one.id)
        assert session is not None
        dumped = session.model_dump(mode="json", by_alias=True, exclude_none=True)
        dumped["lastUpdateTime"] = round(dumped["lastUpdateTime"], 6)  # as most databases keep it
        for event in dumped["events"]:
            event["longRunningToolIds"] = sorted(event.get("longRunningToolIds", []))
        found.append(dumped)
    await made.close()
    return found


WORK = {"write": write, "grow": grow, "read": read, "converse": converse, "hand_over": hand_over}


def main() -> None:
    """Answer until the input ends; what google-adk prints goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            order = json.loads(line)
            told = runner.run(WORK[order.pop("work")](**order))
            print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    main()
