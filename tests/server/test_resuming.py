"""Streams that are cut, and continue at another server without gap or duplicate."""

import asyncio
import uuid

import httpx
import pytest

from durable_adk.agents import LlmAgent
from durable_adk.models import ScriptedModel
from durable_adk.tools import FunctionTool
from tests.support.http_server import (
    IDS,
    USERS,
    Sent,
    brief,
    message,
    placed,
    read,
    session,
    streamed,
)
from tests.support.scripts import call
from tests.support.streams import StreamingModel
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.thorough


def add(a: int, b: int) -> int:
    """Add numbers."""
    return a + b


async def some(http: httpx.AsyncClient, path: str, number: int, **headers: str) -> list[Sent]:
    """The first items of a stream, which is cut then."""
    found: list[Sent] = []
    async with streamed(http, path, **headers) as stream:
        async for one in stream:
            found.append(one)
            if len(found) == number:
                break
    return found


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
async def test_a_reader_goes_on_amid_an_answer(client, tmp_path, cut):
    """It has the chunks behind the one that it has, and each once, from another server."""
    gate = asyncio.Event()
    words = [f"{number} " for number in range(8)]
    whole = "".join(words)
    turn = [*words[:4], gate, *words[4:], whole]
    agent = LlmAgent(name="a", model=StreamingModel(turns=[turn]))
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(PATIENCE):
        first, second = await place.server(), await place.server()
        await session(first)
        name = (await first.post("/invocations", json=message("count"))).json()["invocationId"]
        path = f"/invocations/{name}/events"
        reading = asyncio.create_task(read(second, path))  # keeps all, from another server
        before: list[Sent] = []
        async with streamed(first, path) as stream:
            while not before or before[-1].data.get("position", -1) < cut - 1:
                before += [one] if (one := await anext(stream)).id else []
        gate.set()
        after = await read(second, path, last_event_id=before[-1].id or "")
        texts = [brief(one) for one in [*before, *after] if one.data["type"] != "status"]
        chunks = [text[1:] for text in texts if text.startswith("~")]
        # The rest of the chunks may come too late; none is missing in between.
        assert whole.startswith("".join(chunks))
        assert [text for text in texts if not text.startswith("~")] == ["count", whole]
        assert [brief(one) for one in await reading][-1] == "(completed)"


async def test_who_comes_late_sees_the_text_so_far(client, tmp_path):
    """A reader without a position gets the chunks from the first, with the next one."""
    gates = [asyncio.Event(), asyncio.Event()]
    turn = ["It ", "is ", gates[0], "now ", gates[1], "three.", "It is now three."]
    agent = LlmAgent(name="a", model=StreamingModel(turns=[turn]))
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(PATIENCE):
        http = await place.server()
        await session(http)
        name = (await http.post("/invocations", json=message("add"))).json()["invocationId"]
        path = f"/invocations/{name}/events"
        other = await place.server()
        seen: list[str] = []
        async with streamed(other, path) as stream:
            async for one in stream:
                if one.data["type"] == "status" and not gates[0].is_set():
                    gates[0].set()  # it has subscribed: the feed has begun
                    continue
                seen.append(brief(one))
                if seen[-1].endswith("now "):
                    gates[1].set()
                if "It is now three." in seen:
                    break
        first, *chunks, whole = seen
        assert (first, whole) == ("add", "It is now three.")
        assert "".join(chunks).replace("~", "") == whole


@pytest.mark.thorough
async def test_who_comes_after_thousands_of_chunks_has_all(client, tmp_path):
    """On every stream the text so far, or what is behind the reader's chunk, and then the rest."""
    gates = [asyncio.Event(), asyncio.Event()]
    words = [f"{number} " for number in range(2_000)]
    turn = [*words, gates[0], "the ", "end", gates[1], "whole"]
    agent = LlmAgent(name="a", model=StreamingModel(turns=[turn], pause=0))
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(PATIENCE):
        http, other = await place.server(), await place.server()
        await session(http)
        name = f"long-{uuid.uuid4()}"
        body = message("count", invocationId=name, streaming=True)
        follow = IDS | {"invocationId": name}
        async with streamed(http, "/run_sse", body) as stream:
            await anext(stream)
        path = f"/invocations/{name}/events"
        last = await until_chunk(other, path, 1_999)
        chunk, _ = (last.id or "").rsplit(":", 1)
        ways = [(path, None), (f"{USERS}/s/events", None), ("/run_sse", body), ("/run_sse", follow)]
        have = [(way, has) for way in ways for has in (None, 1, 777, 1_998)]
        begun = asyncio.Barrier(len(have) + 1)
        readers = [
            asyncio.create_task(text_from(other, way, has and f"{chunk}:{has}", begun))
            for way, has in have
        ]
        await begun.wait()  # all have the text so far
        gates[0].set()
        for (way, has), text in zip(have, await asyncio.gather(*readers), strict=True):
            rest = words if has is None else words[has + 1 :]
            assert text == "".join(rest) + "the end", (way, has)
        gates[1].set()


async def until_chunk(http, path, position):
    """The item that a new reader gets once there is a chunk."""
    while True:
        async with streamed(http, path) as stream:
            chunk = await anext(one async for one in stream if one.event == "partial")
        if chunk.data["position"] >= position:
            return chunk


async def text_from(http, way, position, begun):
    """What a reader gets behind its chunk, up to the last one before the whole answer."""
    found, headers = "", {"last_event_id": position or "0"}
    async with streamed(http, *way, **headers) as stream:
        async for one in stream:
            event = one.data.get("event", one.data)
            if event.get("partial"):
                if not found:
                    await begun.wait()
                found += "".join(part["text"] for part in event["content"]["parts"])
            if found.endswith("the end"):
                return found
    raise AssertionError(found[-100:])


@pytest.mark.parametrize("path", ["/invocations/{name}/events", USERS + "/s/events"])
async def test_every_cut_leaves_no_gap_and_no_duplicate(client, tmp_path, path):
    """After each item in turn the stream is cut, and continued at the other server."""
    replies = [call("add", a=1, b=2), call("add", a=3, b=4), "Seven."]
    agent = LlmAgent(name="a", model=ScriptedModel(replies=replies), tools=[add])
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(PATIENCE):
        servers = [await place.server(), await place.server()]
        await session(servers[0])
        started = await servers[0].post("/invocations", json=message("add"))
        where = path.format(name=started.json()["invocationId"])
        seen: list[Sent] = []
        position = "0"
        while not seen or brief(seen[-1]) != "Seven.":
            server = servers[len(seen) % 2]
            async with streamed(server, where, last_event_id=position) as stream:
                async for one in stream:
                    if one.id:
                        seen.append(one)
                        position = one.id
                        break
        events = [one for one in seen if one.event == "event"]
        assert [one.id for one in events] == [str(number) for number in range(1, 7)]
        assert len({one.id for one in seen}) == len(seen)


async def test_a_status_behind_the_last_event_is_told(client, tmp_path):
    """A reader of a session who was cut before it has it after the last event's id."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["one", "two"]))
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(PATIENCE):
        http = await place.server()
        await session(http)
        for text in ("first", "second"):
            assert (await http.post("/run", json=message(text))).status_code == 200
        found = await some(http, f"{USERS}/s/events", 1, last_event_id="4")
        assert [brief(one) for one in found] == ["(completed)"]
        last = found[0].data["invocationId"]
        found = await some(http, f"{USERS}/s/events", 2, last_event_id="4")
        assert {one.data["status"] for one in found} == {"completed"}  # also of the first
        assert last in {one.data["invocationId"] for one in found}


async def test_a_run_that_is_answered_goes_on(client, tmp_path):
    """The stream ends at a pause behind the position, not at the one that is being answered."""
    replies = [call("add", a=1, b=2), "Three."]
    tools = [FunctionTool(add, require_confirmation=True)]
    agent = LlmAgent(name="a", model=ScriptedModel(replies=replies), tools=tools)
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(PATIENCE):
        http = await place.server()
        await session(http)
        sent = await read(http, "/run_sse", message("add", invocationId="i"))
        body = IDS | {"invocationId": "i"}
        again = await read(http, "/run_sse", body, last_event_id=sent[0].id or "")
        assert [one.id for one in again] == [one.id for one in sent[1:]]
        position = sent[-1].id or ""
        async with streamed(http, "/run_sse", body, last_event_id=position) as stream:
            (asked,) = (await http.get("/pending")).json()["pending"]
            answer = {"callId": asked["callId"], "confirmed": True}
            response = await http.post("/invocations/i/answers", json=answer)
            assert response.status_code == 202, response.text
            assert [brief(one) async for one in stream][-1:] == ["Three."]


async def test_the_same_request_again_goes_on(client, tmp_path):
    """Libraries that read streams repeat the request; it starts nothing and repeats nothing."""
    agent = LlmAgent(
        name="a", model=ScriptedModel(replies=[call("add", a=1, b=2), "3"]), tools=[add]
    )
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(PATIENCE):
        http = await place.server()
        await session(http)
        name = f"again-{uuid.uuid4()}"
        body = message("add", invocationId=name)
        sent = await read(http, "/run_sse", body)
        assert len(sent) == 3
        for number, one in enumerate(sent, 1):
            assert await read(http, "/run_sse", body, last_event_id=one.id or "") == sent[number:]
            rest = await read(http, f"/run_sse?after={one.id}", body)
            assert rest == sent[number:]
        other = message("other", invocationId=name)
        unnamed = message("add")
        for wrong, status in ((other, 409), (unnamed, 400)):
            response = await http.post("/run_sse", json=wrong, headers={"Last-Event-ID": "2"})
            assert response.status_code == status, response.text
        events = (await http.get(f"{USERS}/s")).json()["events"]
        assert {one["invocationId"] for one in events} == {name}


async def test_a_wrong_position_is_refused(client, tmp_path):
    """Status 400, and what a position looks like."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["hi"]))
    async with placed(client, tmp_path, agent) as place:
        http = await place.server()
        await session(http)
        for wrong in ("x", "1:2", "-1", "1:e:1:x", "9" * 30):
            response = await http.get(f"{USERS}/s/events", params={"after": wrong})
            assert response.status_code == 400, wrong


async def test_a_server_that_stops_ends_its_streams(client, tmp_path):
    """With a hint when to connect again; the run continues, and another server has it."""
    gate = asyncio.Event()
    agent = LlmAgent(name="a", model=StreamingModel(turns=[["It ", gate, "is.", "It is."]]))
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(PATIENCE):
        first, second = await place.server(), await place.server()
        await session(first)
        name = (await first.post("/invocations", json=message("hi"))).json()["invocationId"]
        path = f"/invocations/{name}/events"
        async with first.stream("GET", path) as response:
            lines = response.aiter_lines()
            assert await anext(lines) == "retry: 1000"
            place.stop(first)
            rest = [line async for line in lines]
        assert rest[-2:] == ["retry: 1000", ""]
        gate.set()
        assert "It is." in [brief(one) for one in await read(second, path)]
