"""What the artifact folder keeps when processes share it, are killed, or find it unusable."""

import asyncio

import pytest

from durable_adk.artifacts import FileArtifactService
from tests.integration.artifacts.processes import run
from tests.unit.artifacts.test_file_artifact_service import SCOPE, save

KILLED_AT = """
def kill_at(place):
    '''Die right after the given system call of a save, counted over those that change the disk.'''
    count = 0
    def counting(real):
        def call(*args, **kwargs):
            nonlocal count
            result = real(*args, **kwargs)
            count += 1
            if count == place:
                os.kill(os.getpid(), signal.SIGKILL)
            return result
        return call
    for name in ("mkdir", "link", "replace", "unlink", "rmdir", "open", "fsync"):
        setattr(os, name, counting(getattr(os, name)))

def work(place):
    kill_at(place)
    asyncio.run({call})

for place in range(1, 100):
    name = f"file {{place}}"
    {before}
    _, status = os.waitpid(fork(lambda: work(place)), 0)
    if not os.WIFSIGNALED(status):
        print(place - 1)
        break
"""
RACE = """
def work(number):
    async def saves():
        async def one(n):
            # every key is used by two processes, and every second save has none
            return await save("a", f"{number}.{n}", f"{number // 2}.{n}" if n % 2 else None)
        return await asyncio.gather(*(one(n) for n in range(30)))
    line = json.dumps([number, asyncio.run(saves())]) + "\\n"
    os.write(1, line.encode())  # in one piece

for pid in [fork(lambda: work(number)) for number in range(4)]:
    os.waitpid(pid, 0)
"""
DELETING = """
async def works(number):
    for n in range(60):
        if number == 0:
            await service.delete_artifact(**scope, filename="a")
        else:
            await save("a", f"{number}.{n}")

for pid in [fork(lambda: asyncio.run(works(number))) for number in range(3)]:
    os.waitpid(pid, 0)
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "artifacts"


@pytest.fixture
def service(folder):
    return FileArtifactService(folder)


async def test_processes_lose_no_save_and_share_no_number(service, folder):
    """120 saves by 4 processes, half of them keyed in pairs: 90 versions, each the right one."""
    numbers = dict(await asyncio.to_thread(run, RACE, folder))
    assert await service.list_versions(**SCOPE, filename="a") == list(range(90))
    for number, own in numbers.items():
        twin = numbers[number ^ 1]
        assert all((own[n] == twin[n]) == bool(n % 2) for n in range(30))
        for n, version in enumerate(own):
            found = await service.load_artifact(**SCOPE, filename="a", version=version)
            authors = {f"{number}.{n}", f"{number ^ 1}.{n}"} if n % 2 else {f"{number}.{n}"}
            assert found.text in authors


async def test_a_save_that_is_killed_anywhere_can_be_repeated(service, folder):
    """Whichever step was the last, a retry leaves one whole version, and the next is 1 (F45)."""
    script = KILLED_AT.format(call='save(f"file {place}", "x" * 9000, "key")', before="")
    (places,) = await asyncio.to_thread(run, script, folder)
    assert places >= 12, "a save makes folders, a claim, content and a record, and syncs them all"
    seen = 0
    for place in range(1, places + 1):
        name = f"file {place}"
        before = await service.list_versions(**SCOPE, filename=name)
        seen += len(before)
        for n in before:
            found = await service.load_artifact(**SCOPE, filename=name, version=n)
            assert found.text == "x" * 9000
        assert await save(service, name, "y" * 9000, key="key") == 0
        assert await save(service, name) == 1
        assert await service.list_versions(**SCOPE, filename=name) == [0, 1]
    assert 0 < seen < places, "some were killed before the version was there, some after"
    assert await service.list_artifact_keys(**SCOPE) == sorted(
        f"file {place}" for place in range(1, places + 2)
    )


async def test_a_deletion_that_is_killed_anywhere_is_whole(service, folder):
    """All versions are there or none, and the next save of the name continues from that."""
    before = "asyncio.run(save(name, 'x')); asyncio.run(save(name, 'y'))"
    call = 'service.delete_artifact(**scope, filename=f"file {place}")'
    (places,) = await asyncio.to_thread(run, KILLED_AT.format(call=call, before=before), folder)
    assert places >= 2
    for place in range(1, places + 1):
        there = await service.list_versions(**SCOPE, filename=f"file {place}")
        assert there in ([], [0, 1])
        assert await save(service, f"file {place}") == len(there)
        await service.delete_artifact(**SCOPE, filename=f"file {place}")
    left = {path.name for path in folder.rglob("*") if path.is_file() and ".new" not in path.parts}
    assert left == {"deleted"}, "the next deletion clears up"


async def test_saves_during_deletions_count_without_gap(service, folder):
    """Processes that save and delete a name at once leave versions 0 to n, and no debris."""
    await asyncio.to_thread(run, DELETING, folder)
    there = await service.list_versions(**SCOPE, filename="a")
    assert there == list(range(len(there)))
    assert await save(service, "a") == len(there)
    assert list((folder / ".new").iterdir()) == []
