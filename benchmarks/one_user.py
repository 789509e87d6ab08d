"""How long requests take while another user is at every limit: ``python -m benchmarks.one_user``.

A server, a user who sends and asks for more than is taken, and another user, each in a process of
its own. The other user's requests are measured in turns with and without the first one, in one run.
Prints the ratios of their p50 and of their p95, during the first user's burst and after it.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import httpx

from durable_adk.server.app import app, serve
from durable_adk.server.settings import ServerSettings
from durable_adk.sessions import DatabaseSessionService

TOKENS = {"alice": "a" * 40, "bob": "b" * 40}
SESSIONS = "/apps/app/users/{}/sessions"
TURNS, REQUESTS = 10, 40
BURST = 2
"""Turns in which the first user's burst lasts: what it may send at once, after a pause."""
STREAMS, SENDERS = 100, 20
LARGE = json.dumps({"events": [{"author": "a", "content": {"parts": [{"text": "x" * 900_000}]}}]})
MANY = json.dumps({"state": {"a": [1] * 45_000}})
MALFORMED = json.dumps({"events": [1] * 4_000})


async def served(folder: str) -> None:
    """Serve until the parent ends, over a store of its own; no request here needs Temporal."""

    async def healthy() -> None:
        pass

    connection = SimpleNamespace(service_client=SimpleNamespace(check_health=healthy))
    users = [
        {"user": name, "sha256": hashlib.sha256(token.encode()).hexdigest()}
        for name, token in TOKENS.items()
    ]
    async with DatabaseSessionService(f"sqlite:///{folder}/s.db") as sessions:
        made = app(
            session_service=sessions,
            client=cast("Any", connection),
            apps=["app"],
            settings=ServerSettings.model_validate({"port": 0, "tokens": users}),
        )
        await serve(made, listening=lambda url: print(url, flush=True))


def client(url: str, user: str) -> httpx.AsyncClient:
    """Return a client of a user."""
    headers = {"Authorization": f"Bearer {TOKENS[user]}", "Content-Type": "application/json"}
    limits = httpx.Limits(max_connections=500)
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=60, limits=limits)


async def flood(url: str) -> None:
    """Hold streams, and send and list as much as the server takes, between two lines of input."""
    print("ready", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        async with client(url, "bob") as http, contextlib.AsyncExitStack() as held:
            for _ in range(STREAMS):
                await held.enter_async_context(http.stream("GET", "/changes"))
            senders = [asyncio.create_task(_send(http, number)) for number in range(SENDERS)]
            print("flooding", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            for one in senders:
                one.cancel()
            await asyncio.gather(*senders, return_exceptions=True)
        print("ended", flush=True)


async def _send(http: httpx.AsyncClient, number: int) -> None:
    bodies = (LARGE, MANY, MALFORMED)
    while True:
        with contextlib.suppress(httpx.HTTPError):
            if number % 4 == 3:
                await http.get(SESSIONS.format("bob"))
            else:
                await http.post(SESSIONS.format("bob"), content=bodies[number % 4])
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def beside(*arguments: str) -> AsyncGenerator[Callable[[str], Awaitable[str]]]:
    """Run this module in another process; yields a function that sends a line and reads one."""
    command = sys.executable, "-m", "benchmarks.one_user", *arguments
    pipe = asyncio.subprocess.PIPE
    # A session of its own has its own share of the processors.
    child = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, start_new_session=True
    )

    async def ask(line: str) -> str:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(line.encode())
        return (await child.stdout.readline()).decode().strip()

    try:
        yield ask
    finally:
        child.terminate()
        await child.wait()


async def times(http: httpx.AsyncClient) -> list[float]:
    """Return the milliseconds of some requests, each of another kind in turn."""
    found = list[float]()
    path = SESSIONS.format("alice")
    for number in range(REQUESTS):
        begun = time.perf_counter()
        if number % 2:
            answer = await http.patch(f"{path}/s", json={"stateDelta": {"n": number % 7}})
        else:
            answer = await http.get(path)
        answer.raise_for_status()
        found.append((time.perf_counter() - begun) * 1000)
        await asyncio.sleep(0.05)  # within the rate
    return found


async def measure() -> None:
    """Print both ratios."""
    alone, together = list[float](), list[list[float]]()
    with tempfile.TemporaryDirectory() as folder:
        async with beside("--serve", folder) as server:
            url = await server("")
            async with beside("--flood", url) as bob, client(url, "alice") as http:
                await http.post(SESSIONS.format("alice"), json={"sessionId": "s"})
                await bob("")
                await times(http)
                for _ in range(TURNS):
                    alone += await times(http)
                    await bob("\n")
                    together.append(await times(http))
                    await bob("\n")
    for when, turns in (("during the burst", together[:BURST]), ("then", together[BURST:])):
        beside_it = [one for turn in turns for one in turn]
        for name, of in (("p50", 9), ("p95", 18)):
            first, second = (statistics.quantiles(one, n=20)[of] for one in (alone, beside_it))
            print(f"{when}, {name}: {first:.1f} ms alone, {second:.1f} ms, {second / first:.2f}")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", metavar="FOLDER")
    parser.add_argument("--flood", metavar="URL")
    arguments = parser.parse_args()
    if arguments.serve:
        work = served(arguments.serve)
    else:
        work = flood(arguments.flood) if arguments.flood else measure()
    asyncio.run(work)


if __name__ == "__main__":
    main()
