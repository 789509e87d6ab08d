"""Many readers at once: connections that are cut anywhere, and readers that do not read."""

import asyncio
import json
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from durable_adk.agents import LlmAgent
from tests.support.http_server import IDS, USERS, placed, read, session
from tests.support.seeds import dice
from tests.support.streams import StreamingModel
from tests.support.waiting import PATIENCE, until

pytestmark = [pytest.mark.thorough, pytest.mark.sampled(6)]
RUNS, STALLED = 50, 20
WORDS = [f"{number} " for number in range(30)]


@dataclass
class CutReader:
    """Reads a run's stream, over connections that are cut after a random number of bytes."""

    host: str
    port: int
    path: str
    chance: random.Random
    begun: bool = False
    """Whether a response has begun."""
    items: list[dict[str, Any]] = field(default_factory=list)
    cuts: int = 0
    _last: str = ""

    async def read(self) -> None:
        """Connect again and again, with the id of the last item, until the run is over."""
        while not (self.items and self.items[-1].get("status") == "completed"):
            reader, writer = await asyncio.open_connection(self.host, self.port)
            writer.write(
                f"GET {self.path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
                f"Last-Event-ID: {self._last}\r\n\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            self.begun = True
            body = await _some(reader, self.chance.randrange(300, 900))
            writer.close()
            self.cuts += 1
            self._take(body)

    def _take(self, body: bytes) -> None:
        """Take the whole items of what has arrived; an item that was cut in two is none."""
        text = b"".join(_parts(body)).decode(errors="replace")
        *whole, _ = text.split("\n\n")
        for one in whole:
            lines = dict(line.partition(": ")[::2] for line in one.split("\n"))
            if "data" in lines:
                self.items.append(json.loads(lines["data"]))
                self._last = lines.get("id", self._last)


def _parts(body: bytes) -> list[bytes]:
    """Return the chunks of a chunked body; the last may be cut."""
    found = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        if not size:
            break
        length = int(size, 16)
        found.append(rest[:length])
        body = rest[length + 2 :]
    return found


async def _some(reader: asyncio.StreamReader, most: int) -> bytes:
    """Return so many bytes, or all that there are."""
    data = b""
    while len(data) < most and (found := await reader.read(most - len(data))):
        data += found
    return data


async def test_streams_that_are_cut_anywhere_have_no_gap_and_no_repeat(client, tmp_path):
    """Of many runs at once, beside readers who never read; from either of two servers."""
    gate = asyncio.Event()
    turn = [*WORDS[:15], gate, *WORDS[15:], "".join(WORDS)]
    agent = LlmAgent(name="a", model=StreamingModel(turns=[turn]))
    chance = dice("test_many_readers")
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(5 * PATIENCE):
        servers = [await place.server() for _ in range(2)]
        urls = [http.base_url for http in servers]
        names = [f"cut-run-{number}" for number in range(RUNS)]
        for name in names:
            await session(servers[0], name)

        async def start(name: str) -> str:
            message = {"role": "user", "parts": [{"text": "count"}]}
            body = IDS | {"sessionId": name, "newMessage": message}
            once = {"Idempotency-Key": name}

            async def made() -> str | None:
                response = await servers[0].post("/invocations", json=body, headers=once)
                # So many at once may be more than Temporal can take.
                return None if response.status_code == 503 else response.json()["invocationId"]

            return await until(made)

        started = await asyncio.gather(*map(start, names))
        readers = [
            CutReader(url.host, url.port or 0, f"/invocations/{name}/events", chance)
            for name in started
            for url in [chance.choice(urls)]
        ]
        stalled = [
            await asyncio.open_connection(urls[0].host, urls[0].port) for _ in range(STALLED)
        ]
        for (_, writer), name in zip(stalled, started, strict=False):
            line = f"GET /invocations/{name}/events HTTP/1.1\r\nHost: {urls[0].host}\r\n\r\n"
            writer.write(line.encode())
        async with asyncio.TaskGroup() as group:
            for one in readers:
                group.create_task(one.read())
            await until(lambda: all(one.begun for one in readers))
            gate.set()
        for _, writer in stalled:
            writer.close()
        whole = await read(servers[1], f"/invocations/{started[0]}/events")
        assert await servers[0].get(f"{USERS}/{names[0]}")
    assert all(reader.cuts > 1 for reader in readers)  # a whole stream has at least 1,300 bytes
    expected = [one.data["event"]["content"]["parts"][0]["text"] for one in whole[:-1]]
    for reader in readers:
        events = [one for one in reader.items if one["type"] == "event"]
        texts = [one["event"]["content"]["parts"][0]["text"] for one in events]
        assert texts == expected == ["count", "".join(WORDS)]
        chunks = [one for one in reader.items if one["type"] == "partial"]
        places = [
            (one["attempt"], one["position"] - behind)
            for one in chunks
            for behind in reversed(range(one["chunks"]))
        ]
        for attempt in {number for number, _ in places}:
            own = [place for number, place in places if number == attempt]
            assert own == list(range(len(own)))
        assert places == sorted(places)  # an attempt that was begun anew shows no more
