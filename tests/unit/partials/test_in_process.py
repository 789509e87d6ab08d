"""Partial events within a process."""

import asyncio

from durable_adk.partials import InProcessPartials
from tests.support.chunks import INVOCATION, KEY, chunk


async def test_a_viewer_whose_loop_is_gone_disturbs_nobody():
    """A loop that was closed amid a subscription is no error for a step."""
    channel, loop = InProcessPartials(), asyncio.new_event_loop()
    abandoned = channel.subscribe(KEY, INVOCATION)
    await asyncio.to_thread(loop.run_until_complete, abandoned.__aenter__())
    loop.close()
    async with channel.subscribe(KEY, INVOCATION) as other:
        channel.publish(chunk("a"))
        assert await other.get() == chunk("a")
    await abandoned.__aexit__(None, None, None)


async def test_viewers_leave_nothing_behind():
    """What is kept of an invocation goes with its last viewer."""
    channel = InProcessPartials()
    async with channel.subscribe(KEY, INVOCATION), channel.subscribe(KEY, INVOCATION):
        pass
    assert channel._viewers == {}
