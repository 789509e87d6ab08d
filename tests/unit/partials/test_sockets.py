"""Partial events between processes."""

import asyncio
import socket
from pathlib import Path

import pytest

from durable_adk.partials import SocketPartials
from durable_adk.partials.sockets import BACKLOG, MAX_DATAGRAM
from tests.support.chunks import INVOCATION, KEY, chunk
from tests.support.waiting import PATIENCE


@pytest.fixture
def channel(temp):
    """A channel of this process."""
    return SocketPartials(temp / "sessions.db")


def sockets_in(folder):
    return [path for path in folder.rglob("*") if path.is_socket()]


async def test_another_store_is_another_channel(channel, temp):
    """Processes that use different files do not meet, though ids are equal."""
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        SocketPartials(temp / "other" / "sessions.db").publish(chunk("theirs"))
        SocketPartials(temp / "." / "sessions.db").publish(chunk("ours"))
        assert await viewer.get() == chunk("ours")


async def test_a_short_stall_loses_nothing(channel):
    """Linux takes ten datagrams for a viewer that is busy; the others follow with the next."""
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        for index in range(BACKLOG // 2):  # our loop, the viewer's, does not run meanwhile
            channel.publish(chunk("x", index))
        for index in range(BACKLOG // 2, BACKLOG):
            await asyncio.sleep(0)
            channel.publish(chunk("x", index))
        async with asyncio.timeout(PATIENCE):
            assert [(await viewer.get()).index for _ in range(BACKLOG)] == list(range(BACKLOG))


async def test_what_is_kept_for_stuck_viewers_is_bounded(channel, monkeypatch):
    """Neither many chunks nor many viewers make a step's process grow."""
    monkeypatch.setattr("durable_adk.partials.sockets.MAX_BACKLOGS", 2)
    async with (
        channel.subscribe(KEY, INVOCATION),
        channel.subscribe(KEY, INVOCATION),
        channel.subscribe(KEY, INVOCATION),
    ):
        for index in range(BACKLOG + 50):
            channel.publish(chunk("x", index))
        assert [len(kept) for kept in channel._backlogs.values()] == [BACKLOG, BACKLOG]


async def test_viewers_leave_nothing_behind(channel, temp):
    """Socket and folder go with the viewer."""
    async with channel.subscribe(KEY, INVOCATION):
        assert len(sockets_in(temp)) == 1
    assert [path for path in temp.rglob("*/*") if path.parent != temp] == []


def leave_dead_socket(temp):
    """What a viewer that was killed leaves behind."""
    live = sockets_in(temp)[0]
    dead = live.with_name("dead")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(dead))
    return dead


async def test_a_killed_viewer_is_forgotten(channel, temp):
    """A step that finds a socket without a process removes it and reaches the others."""
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        dead = leave_dead_socket(temp)
        channel.publish(chunk("a"))
        assert not dead.exists()
        assert await viewer.get() == chunk("a")


async def test_a_viewer_that_leaves_disturbs_no_sweep(channel, temp, monkeypatch):
    """Its folder goes while another process looks through all; that one's viewer gets all."""
    listed = Path.iterdir

    def vanish(folder):
        if folder.name == "gone":
            folder.rmdir()
        return listed(folder)

    async with channel.subscribe(KEY, "e-2"):
        (sockets_in(temp)[0].parents[1] / "gone").mkdir()
        monkeypatch.setattr(Path, "iterdir", vanish)
        other = SocketPartials(temp / "sessions.db")
        async with other.subscribe(KEY, INVOCATION) as viewer, asyncio.timeout(PATIENCE):
            channel.publish(chunk("a"))
            assert await viewer.get() == chunk("a")


async def test_the_first_viewer_sweeps(channel, temp):
    """Sockets of killed viewers go also when nothing is published there any more."""
    async with channel.subscribe(KEY, INVOCATION):
        dead = leave_dead_socket(temp)
        async with SocketPartials(temp / "sessions.db").subscribe(KEY, "e-2"):
            assert not dead.exists()
            assert len(sockets_in(temp)) == 2


async def test_viewers_that_come_and_go_do_not_take_each_others_folder(channel):
    """A folder that vanishes between its making and the binding is made again."""

    async def come_and_go():
        for _ in range(50):
            async with channel.subscribe(KEY, INVOCATION) as viewer:
                async with asyncio.timeout(PATIENCE):
                    while not viewer.drain():  # of many at once the last may stay behind
                        channel.publish(chunk("a"))
                        await asyncio.sleep(0)

    def in_a_thread():
        asyncio.run(come_and_go())

    await asyncio.gather(*(asyncio.to_thread(in_a_thread) for _ in range(4)))


async def test_too_large_a_chunk_is_lost_in_silence(channel):
    """What no datagram holds is skipped; the next chunk arrives."""
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        for _ in range(50):
            channel.publish(chunk("x" * MAX_DATAGRAM, 0))
        assert channel._backlogs == {}  # nor is it kept
        channel.publish(chunk("x" * (MAX_DATAGRAM - 1000), 1))
        assert (await viewer.get()).index == 1


async def test_what_is_no_chunk_is_skipped(channel, temp):
    """A datagram of another version, or of another program, never fails a viewer."""
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
            for data in (b"", b"\xff", b"[]", b'{"event": 1}'):
                stranger.sendto(data, str(sockets_in(temp)[0]))
        channel.publish(chunk("a"))
        assert await viewer.get() == chunk("a")


@pytest.mark.parametrize("kind", ["open to others", "link", "file"])
async def test_a_folder_that_is_not_private_is_not_used(channel, temp, kind, caplog):
    """Somebody may have made our folder to read our texts: nothing is bound there or sent there."""
    elsewhere = temp / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if kind == "open to others":
        channel._root.mkdir()
        channel._root.chmod(0o755)
    elif kind == "link":
        channel._root.symlink_to(elsewhere)
    else:
        channel._root.touch()
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        channel.publish(chunk("secret"))
        assert sockets_in(temp) == [], "nobody can hear of it"
        assert viewer.drain() == []
    assert "cannot be received" in caplog.text


async def test_a_folder_of_another_user_is_not_used(channel, temp, monkeypatch):
    """The owner counts, for viewers and for steps, whatever the permissions are."""
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        owner = channel._root.stat().st_uid
        with monkeypatch.context() as patch:
            patch.setattr("os.geteuid", lambda: owner + 1)
            channel.publish(chunk("secret"))
            async with channel.subscribe(KEY, INVOCATION):
                assert len(sockets_in(temp)) == 1
        channel.publish(chunk("ours"))
        async with asyncio.timeout(PATIENCE):
            assert await viewer.get() == chunk("ours")


async def test_a_path_too_long_for_a_socket_costs_only_the_chunks(temp, monkeypatch):
    """The run continues without partial events, and says so once."""
    deep = temp / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    channel = SocketPartials(temp / "sessions.db")
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        channel.publish(chunk("a"))
        assert viewer.drain() == []
