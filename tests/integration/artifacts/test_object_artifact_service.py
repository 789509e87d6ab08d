"""What a bucket keeps when processes share it, are killed, or find it unusable."""

import asyncio
import re

import pytest
from google.genai import types

from durable_adk.artifacts import (
    ObjectArtifactService,
    _objects,
)
from durable_adk.errors import InvalidRequestError, StoreUnavailableError
from durable_adk.storage.object_store import ObjectStore
from tests.integration.artifacts import processes

SCOPE = {"app_name": "app", "user_id": "user", "session_id": "session"}
IMPATIENT = {"retry_config": {"max_retries": 0}}
RACE = """
def work(process):
    numbers = {}
    def writer(thread):
        async def saves():
            # every second one has a key that a writer of the other process uses too
            return [await save("a", f"{process}.{thread}.{n}", f"{thread}.{n}" if n % 2 else None)
                    for n in range(5)]
        numbers[thread] = asyncio.run(saves())  # an event loop of its own
    threads = [threading.Thread(target=writer, args=[thread]) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.write(1, (json.dumps([process, sorted(numbers.items())]) + "\\n").encode())  # in one piece

for pid in [fork(lambda: work(process)) for process in range(2)]:
    os.waitpid(pid, 0)
"""
KILLED_AT = """
def arm(place):
    fault = json.dumps({"kill_at": place, "pid": os.getpid()}).encode()
    stub = os.environ["AWS_ENDPOINT_URL"] + "/_stub"
    urllib.request.urlopen(urllib.request.Request(stub, method="POST", data=fault)).close()

def work(name, place):
    __BEFORE__
    arm(place)
    asyncio.run(__CALL__)

for place in range(1, 100):
    _, status = os.waitpid(fork(lambda: work(f"file {place}", place)), 0)
    arm(0)
    if not os.WIFSIGNALED(status):
        print(place - 1)
        break
"""
LARGE = """
MB = 1024 * 1024

async def large():
    for n in range(200):
        yield n.to_bytes(2, "big") * (MB // 2)

async def main():
    await save("small", "x")  # what the libraries need for themselves
    await service.load_artifact(**scope, filename="small")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await service.save_artifact_stream(**scope, filename="a", chunks=large())
    read, right = 0, True
    async for chunk in await service.open_artifact(**scope, filename="a"):
        right = right and chunk[:2] == (read // MB).to_bytes(2, "big")
        read += len(chunk)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps([read, right, grown // 1024]))

asyncio.run(main())
"""


@pytest.fixture
def uri(s3):
    return s3.uri()


@pytest.fixture
def service(uri):
    return ObjectArtifactService(uri)


async def run(script, place):
    """What processes that use the place print, by line."""
    return await asyncio.to_thread(processes.run, script, place)


def killed_at(call, before="pass"):
    return KILLED_AT.replace("__CALL__", call).replace("__BEFORE__", before)


async def save(service, name, text="x", *, key=None):
    part = types.Part(text=text)
    return await service.save_artifact(**SCOPE, filename=name, artifact=part, save_key=key)


async def paths(uri):
    return [entry.path for entry in await ObjectStore(uri).list()]


async def test_processes_lose_no_save_and_share_no_number(service, uri):
    """40 saves by 8 writers in 2 processes, 16 of them keyed in pairs: 32 versions, all right."""
    numbers = {process: dict(found) for process, found in await run(RACE, uri)}
    assert await service.list_versions(**SCOPE, filename="a") == list(range(32))
    for process, writers in numbers.items():
        for thread, own in writers.items():
            for n, version in enumerate(own):
                assert (version == numbers[1 - process][thread][n]) == bool(n % 2)
                found = await service.load_artifact(**SCOPE, filename="a", version=version)
                makers = [0, 1] if n % 2 else [process]
                assert found.text in {f"{maker}.{thread}.{n}" for maker in makers}


async def test_a_save_that_is_killed_anywhere_can_be_repeated(service, uri):
    """Whichever request was the last, a retry leaves one whole version, the next is 1 (F45)."""
    (places,) = await run(killed_at("save(name, 'x' * 9000, 'key')"), uri)
    assert places >= 5, "a save checks the store, lists, claims, puts the content and the record"
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


async def test_a_deletion_that_is_killed_anywhere_is_whole(service, uri):
    """All versions are there or none, and the next save of the name continues from that."""
    before = "[asyncio.run(save(name, text)) for text in 'xy']"
    call = "service.delete_artifact(**scope, filename=name)"
    (places,) = await run(killed_at(call, before), uri)
    assert places >= 5, "a deletion lists, marks, lists and deletes"
    lengths = set()
    for place in range(1, places + 1):
        there = await service.list_versions(**SCOPE, filename=f"file {place}")
        assert there in ([], [0, 1])
        lengths.add(len(there))
        assert await save(service, f"file {place}") == len(there)
    assert lengths == {0, 2}
    for place in range(1, places + 2):
        await service.delete_artifact(**SCOPE, filename=f"file {place}")
    left = [path for path in await paths(uri) if path.endswith("/deleted")]
    assert len(left) == places + 1, "of a name that is deleted one mark is left, and no more"


async def test_what_is_deleted_leaves_nothing_of_it_behind(service, uri):
    """One empty object stays, whose path does not say the name."""
    await save(service, "secret plans", "secret", key="k")
    await service.delete_artifact(**SCOPE, filename="secret plans")
    await save(service, "secret plans", "secret", key="k")
    await service.delete_artifact(**SCOPE, filename="secret plans")
    (left,) = [path for path in await paths(uri) if path != "conditional-put"]
    assert left.endswith("/0000000001/deleted")
    assert "secret" not in left


async def test_nothing_is_left_of_a_user_who_is_deleted(service, uri):
    """S6: not even the marks of names that were deleted before, whose paths begin with the user."""
    other = {**SCOPE, "user_id": "other"}
    for scope in (SCOPE, other):
        await service.save_artifact(**scope, filename="a", artifact=types.Part(text="a"))
    await service.delete_artifact(**SCOPE, filename="a")
    whose = {"app_name": "app", "user_id": "user", "session_ids": []}
    assert await service.delete_user(**whose) == 0
    left = await ObjectStore(uri).list()
    assert left
    assert not [entry.path for entry in left if "/user-" in entry.path]


async def test_a_saver_from_before_a_deletion_takes_no_number_after_it(service, uri, monkeypatch):
    """A name deleted and saved anew while another save is under way still counts without gap."""
    for _ in range(3):
        await save(service, "a")
    put = ObjectStore.put

    async def interrupted(self, path, content):
        monkeypatch.setattr(ObjectStore, "put", put)
        await service.delete_artifact(**SCOPE, filename="a")
        await save(service, "a", "after")
        await put(self, path, content)

    monkeypatch.setattr(ObjectStore, "put", interrupted)
    await save(service, "a", "before")
    assert await service.list_versions(**SCOPE, filename="a") == [0]
    assert await save(service, "a") == 1
    assert (await service.load_artifact(**SCOPE, filename="a", version=0)).text == "after"
    assert not [path for path in await paths(uri) if "/0000000000/content" in path]


async def test_an_answer_that_is_lost_makes_no_second_version(service, s3):
    """A put that is sent again finds its own record, with and without a save key (ART-10)."""
    assert await save(service, "a", "0") == 0
    for number, key in enumerate([None, "key"], start=1):
        s3.arm(loses_an_answer=True)
        assert await save(service, "a", str(number), key=key) == number
    assert await service.list_versions(**SCOPE, filename="a") == [0, 1, 2]
    # of the second save it was the claim's answer, so here is one where it is the record's
    await save(service, "b", key="other")
    s3.arm(loses_an_answer=True)
    assert await save(service, "b") == 1
    assert await service.list_versions(**SCOPE, filename="b") == [0, 1]


async def test_content_that_no_record_names_is_removed(service, uri, monkeypatch):
    """I24: what a killed save has left goes at a later one, and all versions stay."""
    for n in range(3):
        await save(service, "a", str(n))
    store = ObjectStore(uri)
    version = next(path for path in await paths(uri) if path.endswith("/0000000002"))
    orphan = version.replace("0000000002", "content-orphan")
    await store.put(orphan, b"half")
    await save(service, "a", "3")
    assert await store.get(orphan) == b"half", "it may be somebody's who is saving just now"
    monkeypatch.setattr(_objects, "LEFT_BEHIND", -3600.0)
    await save(service, "a", "4")
    assert await store.get(orphan) is None
    for n in range(5):
        found = await service.load_artifact(**SCOPE, filename="a", version=n)
        assert found.text == str(n)


async def test_a_save_that_takes_too_long_gives_up(service, monkeypatch):
    """Its content may be removed at any moment, so it makes no version of it."""
    monkeypatch.setattr(_objects, "LONGEST_SAVE", -1.0)
    with pytest.raises(StoreUnavailableError, match="too long"):
        await save(service, "a")
    assert await service.list_versions(**SCOPE, filename="a") == []


async def test_a_version_deleted_while_it_is_read_is_said_to_be(service):
    """A reader raises FileNotFoundError; nobody takes half of it for the whole."""
    await save(service, "a", "x")
    reader = await service.open_artifact(**SCOPE, filename="a")
    await service.delete_artifact(**SCOPE, filename="a")
    with pytest.raises(FileNotFoundError, match="deleted"):
        [chunk async for chunk in reader]


async def test_one_service_serves_several_event_loops_at_once(service):
    """The worker's loop and the user's share one; none waits for another's."""

    def elsewhere(n):
        async def saves():
            return [await save(service, f"name {n}", str(k)) for k in range(3)]

        return asyncio.run(saves())

    here = asyncio.gather(*(save(service, "here", str(n)) for n in range(3)))
    done = await asyncio.gather(*(asyncio.to_thread(elsewhere, n) for n in range(4)))
    assert done == [[0, 1, 2]] * 4
    assert sorted(await here) == [0, 1, 2]
    assert len(await service.list_artifact_keys(**SCOPE)) == 5


@pytest.mark.thorough
@pytest.mark.sampled(3)
@pytest.mark.parametrize("place", ["s3", "files"])
async def test_a_large_artifact_is_never_whole_in_memory(place, s3, tmp_path):
    """200 MB are saved and read while the process grows by less than a third of that."""
    places = {
        "s3": s3.uri(),
        "files": str(tmp_path / "files"),
    }
    ((size, right, grown),) = await run(LARGE, places[place])
    assert size == 200 * 1024 * 1024
    assert right
    assert grown < 64, f"{grown} MB"


# ----- stores that cannot serve


async def test_a_store_that_is_away_is_worth_waiting_for(uri, s3):
    """What the store does not answer is a transient error, which steps retry; nothing is lost."""
    service = ObjectArtifactService(uri, **IMPATIENT)
    await save(service, "a", "kept")
    s3.arm(down=True)
    with pytest.raises(StoreUnavailableError, match="does not respond") as caught:
        await save(service, "a")
    assert "Debug source" not in str(caught.value)
    with pytest.raises(StoreUnavailableError):
        await service.load_artifact(**SCOPE, filename="a")
    s3.arm()
    assert (await service.load_artifact(**SCOPE, filename="a")).text == "kept"
    assert await service.list_versions(**SCOPE, filename="a") == [0]


async def test_a_bucket_that_is_missing_is_no_empty_one(s3):
    """A misspelt name is an error, not an empty bucket."""
    service = ObjectArtifactService("s3://no-such-bucket/x", **IMPATIENT)
    with pytest.raises(StoreUnavailableError, match="no-such-bucket"):
        await service.load_artifact(**SCOPE, filename="a")
    with pytest.raises(StoreUnavailableError, match="no-such-bucket"):
        await save(service, "a")


async def test_a_store_without_conditional_puts_is_refused(service, s3):
    """It would let two processes take one number."""
    s3.arm(ignores_conditions=True)
    with pytest.raises(InvalidRequestError, match="If-None-Match"):
        await save(service, "a")
    assert await service.list_artifact_keys(**SCOPE) == []


async def test_no_name_or_id_means_anything_to_the_store(service, uri):
    """S4: whatever they are, a path is made of letters, digits and few signs, below the prefix."""
    scope = {"app_name": "../a", "user_id": "%2e%2e/\u00fc", "session_id": "a\\\\b?c#d"}
    for name in ["user:a b/..c", "%41", "\u6f22" * 500, "a?b#c"]:
        part = types.Part(text="x")
        await service.save_artifact(**scope, filename=name, artifact=part, save_key="../k")
    for path in await paths(uri):
        assert re.fullmatch(r"[\w.-]+(/[\w.-]+)*", path, re.ASCII)
        assert {".", ".."}.isdisjoint(path.split("/"))
    found = await service.get_artifact_version(**scope, filename="%41")
    assert found.canonical_uri.startswith(f"{uri}/a-")
