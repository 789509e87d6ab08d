"""The task of all systems, and how a worker's process receives it; needs no durable_adk."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterable

from google.genai import types

ANSWER = "= "
"""Begins the lines with which a worker answers; libraries may print others."""


CHAIN = 10
"""Functions of a chain."""


def message(steps: int = 1) -> str:
    """What the user says: 2 KB, and how many tool calls the model has to make."""
    return f"{steps} {'x' * 2048}"


def get_capital(country: str) -> str:
    """Return the capital of a country."""
    del country
    return "Paris"


def passed_on(text: str) -> str:
    """What a function of a chain hands on: a hundred characters."""
    return text[:100]


def reply(contents: Iterable[types.Content]) -> types.Content:
    """What the model says: so many tool calls, one after the other, and then a text."""
    done = 0
    for content in reversed(list(contents)):
        for part in content.parts or []:
            done += part.function_response is not None
            if content.role == "user" and part.text:
                return types.Content(role="model", parts=[_next(part.text, done)])
    raise ValueError("The user has said nothing.")


def _next(text: str, done: int) -> types.Part:
    if done >= int(text.split(maxsplit=1)[0]):
        return types.Part(text="It is Paris.")
    call = types.FunctionCall(name="get_capital", args={"country": "France"})
    return types.Part(function_call=call)


async def answer(run: Callable[[int, int, int], Awaitable[int]] | None = None) -> None:
    """Answer each line of the input until it ends.

    An answer is this process's seconds of CPU, and how many turns had to be repeated, so far.

    Args:
        run: Runs turns first if the line has their number, how many at a time, and their tool
            calls; returns how many had to be repeated so far. None: they arrive by Temporal.
    """
    repeated = 0
    print(ANSWER, flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        if run and (arguments := json.loads(line)):
            repeated = await run(*arguments)
        print(ANSWER + json.dumps([time.process_time(), repeated]), flush=True)


async def at_a_time(number: int, most: int, turn: Callable[[], Awaitable[None]]) -> None:
    """Run so many turns, at most some of them at a time."""
    gate = asyncio.Semaphore(most)

    async def one() -> None:
        async with gate:
            await turn()

    async with asyncio.TaskGroup() as group:
        for _ in range(number):
            group.create_task(one())
