"""What every memory service keeps, run against each of them."""

import asyncio
from uuid import uuid4

import pytest
from google.genai import types
from hypothesis import HealthCheck, given, settings, strategies as st

from durable_adk.errors import InvalidRequestError, StateValueError
from durable_adk.events import Event
from durable_adk.memory import MemoryEntry
from durable_adk.sessions import Session
from tests.support.examples import examples

OWNER = {"app_name": "app", "user_id": "user"}


def content(*parts, role="user"):
    parts = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
    return types.Content(role=role, parts=parts)


def event(event_id, *parts, timestamp=1.0, **fields):
    fields = {"author": "user", **fields}
    return Event(id=event_id, timestamp=timestamp, content=content(*parts), **fields)


def session(*events, session_id="session", app_name="app", user_id="user"):
    return Session(id=session_id, app_name=app_name, user_id=user_id, events=list(events))


def entry(text, **fields):
    return MemoryEntry(content=content(text), **fields)


async def search(service, query, **owner):
    found = await service.search_memory(**{**OWNER, **owner}, query=query)
    return found.memories


async def texts(service, query, **owner):
    return [memory.text for memory in await search(service, query, **owner)]


# ----- what is remembered


async def test_an_event_is_found_with_its_author_and_time(service):
    """A memory says what was said, by whom and when, with the event's id (MEM-2)."""
    await service.add_session_to_memory(session(event("e1", "I like Rust.", timestamp=86400.5)))
    (found,) = await search(service, "rust?")
    assert (found.id, found.author, found.text) == ("e1", "user", "I like Rust.")
    assert found.timestamp == "1970-01-02T00:00:00.500000+00:00"
    assert found.content == content("I like Rust.")


async def test_only_text_is_remembered_and_no_thoughts(service):
    """Thoughts, files and calls are neither searched nor returned."""
    blob = types.Part.from_bytes(data=b"picture", mime_type="image/png")
    thought = types.Part(text="secret", thought=True)
    call = types.Part(function_call=types.FunctionCall(name="lookup", args={"q": "argument"}))
    await service.add_session_to_memory(
        session(
            event("e1", thought, "spoken", blob, call),
            event("e2", thought),
            event("e3", blob, call),
            Event(id="e4"),
            event("e5", "spoken in part", partial=True),
        )
    )
    (found,) = await search(service, "spoken")
    assert found.content == content("spoken")
    for query in ("secret", "picture", "lookup", "argument", "image", "png"):
        assert await search(service, query) == []


async def test_adding_a_session_again_replaces_it(service):
    """Of a session, what its last adding brought is there, and other sessions stay (MEM-3)."""
    await service.add_session_to_memory(session(event("e1", "word one"), event("e2", "word two")))
    await service.add_session_to_memory(session(event("e1", "word three"), session_id="other"))
    await service.add_memory(**OWNER, memories=[entry("word four")])
    await service.add_session_to_memory(session(event("e2", "word five")))
    assert sorted(await texts(service, "word")) == ["word five", "word four", "word three"]
    await service.add_session_to_memory(session())
    assert sorted(await texts(service, "word")) == ["word four", "word three"]
    assert await texts(service, "two") == []


async def test_added_events_come_once_beside_what_is_there(service):
    """Events add up; one whose id is there already is not added again (MEM-6)."""
    first, second = event("e1", "word one"), event("e2", "word two")
    await service.add_session_to_memory(session(first))
    for _ in range(2):
        await service.add_events_to_memory(**OWNER, events=[first, second], session_id="session")
    assert sorted(await texts(service, "word")) == ["word one", "word two"]
    await service.add_events_to_memory(**OWNER, events=[first])
    assert len(await texts(service, "word")) == 3


async def test_a_memory_is_added_once(service):
    """The same entry is stored once however often it is added; others beside it (MEM-6)."""
    for _ in range(3):
        await service.add_memory(**OWNER, memories=[entry("likes tea"), entry("likes tea", id="x")])
    found = await search(service, "tea")
    assert len(found) == 2
    assert "x" in {memory.id for memory in found}
    assert all(memory.id for memory in found)


async def test_metadata_is_kept(service):
    """Metadata of the call is kept with each memory; an entry's own wins."""
    given = {"a": 1, "b": [None, "ü"]}
    await service.add_events_to_memory(**OWNER, events=[event("e", "one")], custom_metadata=given)
    await service.add_memory(
        **OWNER, memories=[entry("two", custom_metadata={"a": 2})], custom_metadata=given
    )
    assert [m.custom_metadata for m in await search(service, "one")] == [given]
    assert [m.custom_metadata for m in await search(service, "two")] == [{**given, "a": 2}]


async def test_memories_are_forgotten(service):
    """Deleting takes the memories of one id, or all of the user's, and nobody else's (MEM-6)."""
    await service.add_memory(**OWNER, memories=[entry(f"tea {n}", id=str(n)) for n in range(3)])
    await service.add_memory(app_name="app", user_id="other", memories=[entry("tea 0", id="0")])
    await service.delete_memory(**OWNER, memory_id="0")
    await service.delete_memory(**OWNER, memory_id="never")
    assert sorted(await texts(service, "tea")) == ["tea 1", "tea 2"]
    await service.delete_memory(**OWNER)
    await service.delete_memory(app_name="nobody", user_id="nobody")
    assert await texts(service, "tea") == []
    assert await texts(service, "tea", user_id="other") == ["tea 0"]
    await service.add_memory(**OWNER, memories=[entry("tea again", id="0")])
    assert await texts(service, "tea") == ["tea again"]


async def test_copies_are_independent(service):
    """Changing what was passed or found changes nothing in memory."""
    given = entry("tea", custom_metadata={"a": []})
    await service.add_memory(**OWNER, memories=[given])
    given.content.parts[0].text = "changed"
    (found,) = await search(service, "tea")
    found.content.parts[0].text = "changed"
    found.custom_metadata["a"].append(1)
    assert [(m.text, m.custom_metadata) for m in await search(service, "tea")] == [
        ("tea", {"a": []})
    ]


# ----- who finds it


async def test_no_user_finds_anothers_memories(service):
    """Apps and users share nothing, whatever their ids look like (I18, S1, S2)."""
    owners = [("a", "b:c"), ("a:b", "c"), ("a", "b"), ("A", "b"), ("b", "a"), ('a"', "b OR 1")]
    for app_name, user_id in owners:
        memory = entry(f"tea for {app_name} and {user_id}")
        await service.add_memory(app_name=app_name, user_id=user_id, memories=[memory])
    for app_name, user_id in owners:
        found = await texts(service, "tea", app_name=app_name, user_id=user_id)
        assert found == [f"tea for {app_name} and {user_id}"]


# ----- how it is found


async def test_the_best_come_first_and_at_most_ten(service):
    """What shares more words with the query is found before what shares fewer (MEM-3)."""
    filler = [f"alpha only {n}" for n in range(20)]
    best = ["alpha beta gamma", "alpha beta"]
    await service.add_memory(**OWNER, memories=[entry(text) for text in [*filler, *best]])
    found = await texts(service, "Alpha, BETA; gamma!")
    assert found[:2] == best
    assert len(found) == 10


async def test_among_equals_the_latest_comes_first(service):
    """Two memories that fit equally well come with the later one first."""
    events = [event(f"e{n}", "the same words", timestamp=float(n)) for n in (2, 3, 1)]
    await service.add_session_to_memory(session(*events))
    assert [m.id for m in await search(service, "words")] == ["e3", "e2", "e1"]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("Grüße aus KÖLN", "koln grusse"),
        ("straße", "STRASSE"),
        ("Москва", "москва"),
        ("東京に行きたい", "東京"),
        ("ファイル", "ﾌｧｲﾙ"),
        ("한국어 말", "한국어"),
        ("우리 집 고양이는 나비예요", "고양이"),
        ("집에서 쉬어요", "집"),
        ("담당자는 지영입니다", "지영"),
        ("ฉันชอบดื่มกาแฟเย็น", "กาแฟ"),
        ("ຂ້ອຍມັກກາເຟ", "ກາເຟ"),
        ("ខ្ញុំចូលចិត្តកាហ្វេ", "កាហ្វេ"),
        ("ကျွန်တော်ကော်ဖီကြိုက်တယ်", "ကော်ဖီ"),
        ("ང་ཚོའི་ཁང་པའི་སྒོ", "ཁང་པ"),
        ("snake_case names", "case"),
        ("v2.13 of it", "13"),
        ("don't", "don't"),
        ("ﬁne", "fine"),
        ("हिन्दी", "हिन्दी"),
    ],
)
async def test_case_accents_and_scripts_do_not_matter(service, said, asked):
    """A word is found however it is written, in any script."""
    await service.add_memory(**OWNER, memories=[entry(said), entry("something else")])
    assert await texts(service, asked) == [said]


@pytest.mark.parametrize(
    ("said", "asked"),
    [("나비가 잔다", "가방"), ("กาแฟ", "น้ำ"), ("हिन्दी", "नदी"), ("猫が寝る", "犬")],
)
async def test_parts_of_other_words_find_nothing(service, said, asked):
    """A Korean word is no later syllable of another, a Hindi word none of its letters."""
    await service.add_memory(**OWNER, memories=[entry(said)])
    assert await texts(service, asked) == []


@pytest.mark.parametrize(
    "query", ["", "  ", "?!", '"', "'", "*", "()", "^", "-", "\x00", "\ud800", "words:", "owner : "]
)
async def test_a_query_without_words_finds_nothing(service, query):
    """No words, no memories, and no error."""
    await service.add_memory(**OWNER, memories=[entry("tea")])
    assert await texts(service, query) == []


@pytest.mark.parametrize(
    "query",
    [
        'tea"',
        'tea" OR owner:"x',
        "NEAR(tea, 5)",
        "tea AND (",
        "-tea NOT tea",
        "tea*",
        "words : tea",
        "owner:tea",
        "{owner words}: tea",
        "tea'; DROP TABLE memories; --",
        "tea\x00",
        "te\u0301a \ud800 tea",
        "tea " * 5_000,
        "tea " + " ".join(f"w{n}" for n in range(5_000)),
    ],
    ids=lambda query: repr(query)[:30],
)
async def test_no_query_means_anything_to_the_engine(service, query):
    """Whatever syntax full-text search has, a query is its words (S13)."""
    await service.add_memory(**OWNER, memories=[entry("tea"), entry("unrelated")])
    found = await texts(service, query)
    # Of very many words the longest are searched, and `tea` is not among them.
    assert found == ([] if "w4999" in query else ["tea"])


@settings(
    max_examples=examples(75),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=st.text(max_size=60), query=st.text(max_size=60))
async def test_any_text_finds_itself(service, text, query):
    """Any text is a query; one that has words finds the memory that says just the same."""
    owner = {"app_name": "app", "user_id": str(uuid4())}
    await search(service, query, **owner)
    try:
        await service.add_memory(**owner, memories=[entry(text)])
    except StateValueError:
        return  # what no store can hold
    found = await texts(service, text, **owner)
    if any(char.isalnum() for char in text):
        assert found == [text]


# ----- what is refused


async def test_what_cannot_be_stored_is_refused(service):
    """Ids keep the rules that they have everywhere, and what is remembered is JSON."""
    with pytest.raises(InvalidRequestError, match="user_id"):
        await service.search_memory(app_name="app", user_id=" ", query="tea")
    with pytest.raises(InvalidRequestError, match="app_name"):
        await service.add_memory(app_name="", user_id="user", memories=[entry("tea")])
    with pytest.raises(InvalidRequestError, match="session_id"):
        await service.add_events_to_memory(**OWNER, events=[], session_id="a\x00")
    with pytest.raises(StateValueError, match="custom_metadata"):
        await service.add_memory(**OWNER, memories=[], custom_metadata={"a": object()})
    with pytest.raises(StateValueError, match="memory"):
        await service.add_memory(**OWNER, memories=[entry("fine"), entry("lone \ud800")])
    assert await texts(service, "fine") == [], "all or nothing"


async def test_calls_at_once_lose_nothing(service):
    """Concurrent writers each get their memories stored."""
    await asyncio.gather(
        *(service.add_memory(**OWNER, memories=[entry(f"tea w{n}")]) for n in range(20))
    )
    assert all([await texts(service, f"w{n}") == [f"tea w{n}"] for n in range(20)])
