"""What every artifact service keeps, run against each of them."""

import asyncio
import time
from collections.abc import AsyncGenerator
from datetime import date
from uuid import uuid4

import pytest
from google.genai import types
from hypothesis import HealthCheck, given, settings, strategies as st

from durable_adk.agents import InvocationContext
from durable_adk.artifacts import BaseArtifactService, InMemoryArtifactService
from durable_adk.errors import InvalidRequestError, StateValueError
from durable_adk.sessions import Session
from durable_adk.tools import ToolContext
from tests.support.examples import examples

SCOPE = {"app_name": "app", "user_id": "user", "session_id": "session"}
USER = {"app_name": "app", "user_id": "user"}
PARTS = [
    types.Part(text="a text\r\nwith ü, \x00 and 漢"),
    types.Part(text=""),
    types.Part.from_bytes(data=bytes(range(256)), mime_type="application/pdf"),
    types.Part(inline_data=types.Blob(data=b"", mime_type="image/png", display_name="an ö.png")),
    types.Part(file_data=types.FileData(file_uri="gs://bucket/x", mime_type="video/mp4")),
    types.Part(text="signed", thought_signature=b"\xff\xfe"),
]
ESCAPES = [
    "",
    " ",
    "user:",
    "user: ",
    ".",
    "..",
    "../x",
    "a/../b",
    "a/ .. /b",
    "a//b",
    "a/",
    "/etc/passwd",
    "//host/share",
    "user:/etc/passwd",
    "user:../x",
    "..\\x",
    "\\\\host\\share",
    "C:\\x",
    "c:x",
    "%2e%2e/x",
    "%2E%2E%2Fx",
    "%2fetc/passwd",
    "nul\x00.txt",
    "line\nbreak",
    "\x1b[31m",
    "lone\ud800surrogate",
    "x" * 513,
]


def text(content):
    return types.Part(text=content)


async def save(service, name, content="x", *, key=None, **fields):
    fields = {**SCOPE, "artifact": text(content), **fields}
    return await service.save_artifact(filename=name, save_key=key, **fields)


async def test_versions_count_from_zero(service):
    """Each save of a name is the next version, and an earlier one stays as it was (ART-3)."""
    assert [await save(service, "a", content) for content in "xyz"] == [0, 1, 2]
    assert await save(service, "b") == 0
    assert await service.list_versions(**SCOPE, filename="a") == [0, 1, 2]
    loaded = [await service.load_artifact(**SCOPE, filename="a", version=n) for n in range(3)]
    assert loaded == [text(content) for content in "xyz"]
    assert await service.load_artifact(**SCOPE, filename="a") == text("z")


@pytest.mark.parametrize("part", PARTS, ids=range(len(PARTS)))
async def test_a_part_is_read_back_equal(service, part):
    """Text, bytes and file references come back with every field, also from a dict (ART-8)."""
    await save(service, "as part", artifact=part)
    await save(service, "as dict", artifact=part.model_dump(mode="json", exclude_none=True))
    assert await service.load_artifact(**SCOPE, filename="as part") == part
    assert await service.load_artifact(**SCOPE, filename="as dict") == part


async def test_what_a_user_has_stored_is_known(service):
    """The bytes of all versions of all sessions; deleting gives them back but for a mark."""
    user = {"app_name": "app", "user_id": "u"}
    assert await service.stored_size(**user) == 0
    for session in ("a", "a", "b"):
        saved = {**user, "session_id": session, "filename": "f", "artifact": {"text": "x" * 9_000}}
        await service.save_artifact(**saved)
    await service.save_artifact(**{**saved, "user_id": "another"})
    assert 27_000 < await service.stored_size(**user) < 40_000
    await service.delete_artifact(**user, session_id="a", filename="f")
    await service.delete_artifact(**user, session_id="b", filename="f")
    assert await service.stored_size(**user) < 9_000


async def test_what_is_missing_is_none(service):
    """An unknown name or version, also a negative one, is None and no error (ART-5)."""
    await save(service, "a")
    for name, version in [("b", None), ("b", 0), ("a", 1), ("a", -1)]:
        found = {**SCOPE, "filename": name, "version": version}
        assert await service.load_artifact(**found) is None
        assert await service.get_artifact_version(**found) is None
    assert await service.list_versions(**SCOPE, filename="b") == []
    assert await service.list_artifact_versions(**SCOPE, filename="b") == []


async def test_what_is_known_of_a_version(service):
    """Number, metadata, time and type are listed, for one version or all (ART-11).

    Metadata is what google-adk's stores write of it.
    """
    before = time.time()
    metadata = {"from": "ü", "none": None, "deep": [{"a": 1.5}], "on": date(2026, 1, 5)}
    await save(service, "a", artifact=PARTS[2], custom_metadata=metadata)
    metadata["deep"].append("changed by the caller later")
    await save(service, "a")
    first, second = await service.list_artifact_versions(**SCOPE, filename="a")
    assert (first.version, second.version) == (0, 1)
    told = {"from": "ü", "none": None, "deep": [{"a": 1.5}], "on": "2026-01-05"}
    assert first.custom_metadata == told
    assert second.custom_metadata == {}
    assert (first.mime_type, second.mime_type) == ("application/pdf", "text/plain")
    assert before - 1 <= first.create_time <= second.create_time <= time.time() + 1
    assert first.canonical_uri != second.canonical_uri
    assert await service.get_artifact_version(**SCOPE, filename="a") == second
    assert await service.get_artifact_version(**SCOPE, filename="a", version=0) == first


async def test_copies_are_independent(service):
    """Changing what was saved or loaded changes nothing in storage."""
    part = text("x")
    await save(service, "a", artifact=part)
    part.text = "changed"
    loaded = await service.load_artifact(**SCOPE, filename="a")
    loaded.text = "changed"
    assert await service.load_artifact(**SCOPE, filename="a") == text("x")


# ----- scopes


async def test_user_names_are_shared_by_the_users_sessions(service):
    """A name with `user:` is seen from every session of the user, others from one (ART-4)."""
    await save(service, "user:profile", "shared")
    await save(service, "profile", "own")
    other = {**SCOPE, "session_id": "other"}
    assert await service.load_artifact(**other, filename="user:profile") == text("shared")
    assert await service.load_artifact(**USER, filename="user:profile") == text("shared")
    assert await service.load_artifact(**other, filename="profile") is None
    assert await save(service, "user:profile", session_id="other") == 1


async def test_names_are_listed_sorted(service):
    """The keys are the session's and the user's, sorted; without a session the user's (ART-6)."""
    for name in ["z", "user:m", "a/b.txt", "ä"]:
        await save(service, name)
    await save(service, "elsewhere", session_id="other")
    assert await service.list_artifact_keys(**SCOPE) == sorted(["z", "user:m", "a/b.txt", "ä"])
    assert await service.list_artifact_keys(**USER) == ["user:m"]
    assert await service.list_artifact_keys(app_name="no", user_id="no", session_id="no") == []


async def test_no_scope_sees_anothers(service):
    """Apps, users and sessions share nothing, whatever their ids look like (I18, S2)."""
    scopes = [
        {"app_name": "a", "user_id": "b", "session_id": "user"},
        {"app_name": "a", "user_id": "b", "session_id": "sessions"},
        {"app_name": "a", "user_id": "b", "session_id": "b"},
        {"app_name": "a/b", "user_id": "c", "session_id": "user"},
        {"app_name": "a", "user_id": "b/c", "session_id": "user"},
        {"app_name": "..", "user_id": "a", "session_id": "../b"},
        {"app_name": "A", "user_id": "B", "session_id": "USER"},
    ]
    for number, scope in enumerate(scopes):
        assert await save(service, "x", str(number), **scope) == 0
    await save(service, "user:x", "user's", app_name="a", user_id="b", session_id="user")
    for number, scope in enumerate(scopes):
        assert await service.load_artifact(**scope, filename="x") == text(str(number))
    assert await service.list_artifact_keys(**scopes[0]) == ["user:x", "x"]
    assert await service.list_artifact_keys(**scopes[3]) == ["x"]


async def test_delete_removes_all_versions(service):
    """A deleted name is gone with its keys and counts from 0 again; missing is no error (ART-7)."""
    await save(service, "a", "old", key="k")
    await save(service, "a")
    await save(service, "b")
    await service.delete_artifact(**SCOPE, filename="a")
    await service.delete_artifact(**SCOPE, filename="never")
    assert await service.list_artifact_keys(**SCOPE) == ["b"]
    assert await service.load_artifact(**SCOPE, filename="a") is None
    assert await save(service, "a", "new", key="k") == 0
    assert await service.load_artifact(**SCOPE, filename="a") == text("new")


# ----- save keys


async def test_a_repeated_save_makes_no_version(service):
    """A retry with the same key gets the first save's version, whatever came since (TRAP-41)."""
    assert await save(service, "a", "first", key="k") == 0
    assert await save(service, "a", "between", key="other") == 1
    assert await save(service, "a", "without") == 2
    assert await save(service, "a", "retry", key="k") == 0
    assert await save(service, "a", "retry", key="other") == 1
    assert await service.list_versions(**SCOPE, filename="a") == [0, 1, 2]
    assert await service.load_artifact(**SCOPE, filename="a", version=0) == text("first")


async def test_a_save_key_counts_within_its_name(service):
    """The same key in another name or scope is another save (ART-10)."""
    assert await save(service, "a", key="k") == 0
    assert await save(service, "b", key="k") == 0
    assert await save(service, "a", key="k", session_id="other") == 0
    assert await save(service, "user:a", key="k") == 0
    assert await service.list_artifact_keys(**SCOPE) == ["a", "b", "user:a"]


async def test_saves_at_once_get_a_version_each(service):
    """Concurrent saves lose nothing and share no number; same keys share one (TRAP-41)."""
    saves = [save(service, "a", str(n), key=f"key {n // 2}" if n < 20 else None) for n in range(40)]
    numbers = await asyncio.gather(*saves)
    assert all(numbers[n] == numbers[n + 1] for n in range(0, 20, 2))
    assert sorted(set(numbers)) == list(range(30))
    assert await service.list_versions(**SCOPE, filename="a") == list(range(30))
    for n in range(20, 40):
        found = await service.load_artifact(**SCOPE, filename="a", version=numbers[n])
        assert found == text(str(n))


# ----- what is refused


@pytest.mark.parametrize("name", ESCAPES, ids=repr)
async def test_a_name_that_cannot_serve_is_refused(service, name):
    """A name that is empty, too long, unprintable or leaves its folder is refused by field (S4)."""
    with pytest.raises(InvalidRequestError, match="filename"):
        await save(service, name)
    with pytest.raises(InvalidRequestError, match="filename"):
        await service.load_artifact(**SCOPE, filename=name)
    assert await service.list_artifact_keys(**SCOPE) == []


@pytest.mark.parametrize("field", ["app_name", "user_id", "session_id"])
async def test_an_id_that_cannot_serve_is_refused(service, field):
    """Ids keep the rules that they have everywhere."""
    for bad in ["", " ", "a\x00b", "x" * 129]:
        with pytest.raises(InvalidRequestError, match=field):
            await save(service, "a", **{field: bad})


async def test_a_sessions_name_needs_a_session(service):
    """Without a session only names of the user can be meant."""
    with pytest.raises(InvalidRequestError, match="session_id"):
        await service.save_artifact(**USER, filename="a", artifact=text("x"))


@pytest.mark.parametrize(
    "artifact",
    [
        types.Part(),
        types.Part(function_call=types.FunctionCall(name="f")),
        types.Part(inline_data=types.Blob(mime_type="x/y")),
        types.Part(text="both", inline_data=types.Blob(data=b"", mime_type="x/y")),
        types.Part(text="lone \ud800 surrogate"),
        {"text": 5},
        "text",
    ],
    ids=repr,
)
async def test_what_is_no_artifact_is_refused(service, artifact):
    """Only text, bytes and references to files can be stored (ART-8)."""
    with pytest.raises(InvalidRequestError, match="artifact"):
        await save(service, "a", artifact=artifact)
    assert await service.list_artifact_keys(**SCOPE) == []


async def test_metadata_and_key_are_checked(service):
    """Metadata is JSON, and a save key is no empty string."""
    with pytest.raises(StateValueError, match="custom_metadata"):
        await save(service, "a", custom_metadata={"a": object()})
    with pytest.raises(InvalidRequestError, match="save_key"):
        await save(service, "a", key="")
    assert await service.list_artifact_keys(**SCOPE) == []


# ----- streams


async def pieces(*chunks):
    for chunk in chunks:
        yield chunk


async def stream(service, name, *chunks, **fields):
    fields = {**SCOPE, "chunks": pieces(*chunks), **fields}
    return await service.save_artifact_stream(filename=name, **fields)


async def read(service, name, **fields):
    reader = await service.open_artifact(**SCOPE, filename=name, **fields)
    return reader and b"".join([chunk async for chunk in reader])


async def test_a_stream_is_a_version_like_any_other(service):
    """What came in pieces is loaded whole, and what came whole is read in pieces (ART-3)."""
    metadata = {"a": [1]}
    assert await stream(service, "a", b"x", b"", b"yz", mime_type="a/b") == 0
    assert await stream(service, "a", custom_metadata=metadata) == 1
    assert await save(service, "a", "\u00fc") == 2
    loaded = [await service.load_artifact(**SCOPE, filename="a", version=n) for n in range(2)]
    assert loaded[0] == types.Part.from_bytes(data=b"xyz", mime_type="a/b")
    assert loaded[1].inline_data.data == b""
    assert [await read(service, "a", version=n) for n in range(2)] == [b"xyz", b""]
    assert await read(service, "a") == "\u00fc".encode()
    first, second, third = await service.list_artifact_versions(**SCOPE, filename="a")
    assert [known.mime_type for known in (first, second, third)] == [
        "a/b",
        "application/octet-stream",
        "text/plain",
    ]
    assert second.custom_metadata == metadata


async def test_a_reader_tells_what_it_reads_and_begins_anew(service):
    """Number, size and type are known before a byte is read; each loop has all of it."""
    await save(service, "a", artifact=PARTS[2])
    reader = await service.open_artifact(**SCOPE, filename="a")
    assert (reader.version, reader.size, reader.mime_type) == (0, 256, "application/pdf")
    for _ in range(2):
        assert b"".join([chunk async for chunk in reader]) == bytes(range(256))
    text_reader = await service.open_artifact(**SCOPE, filename="a", version=1)
    assert text_reader is None
    assert await service.open_artifact(**SCOPE, filename="b") is None


async def test_a_stream_that_breaks_leaves_nothing(service):
    """The error is the stream's own, whatever its class, and there is no version."""

    async def broken():
        yield b"x" * 100
        raise FileNotFoundError("where the bytes come from")

    with pytest.raises(FileNotFoundError, match="where the bytes come from"):
        await stream(service, "a", chunks=broken(), save_key="k")
    assert await service.list_artifact_keys(**SCOPE) == []
    assert await stream(service, "a", b"whole", save_key="k") == 0


async def test_a_repeated_stream_makes_no_version(service):
    """A save key holds for both ways to save (TRAP-41)."""
    assert await stream(service, "a", b"first", save_key="k") == 0
    assert await save(service, "a", key="other") == 1
    assert await stream(service, "a", b"retry", save_key="k") == 0
    assert await stream(service, "a", b"retry", save_key="other") == 1
    assert await save(service, "a", key="k") == 0
    assert await service.list_versions(**SCOPE, filename="a") == [0, 1]
    assert await read(service, "a", version=0) == b"first"


@pytest.mark.parametrize("name", ESCAPES, ids=repr)
async def test_a_stream_has_the_same_names(service, name):
    """What cannot be a name is none for streams either (S4)."""
    with pytest.raises(InvalidRequestError, match="filename"):
        await stream(service, name, b"x")
    with pytest.raises(InvalidRequestError, match="filename"):
        await read(service, name)


async def test_a_reader_follows_references_within_its_scope(service):
    """It reads what `load_artifact` loads; what lies elsewhere has no bytes here (ART-8)."""
    await save(service, "target", "old")
    await save(service, "link", artifact=refer(f"{URI}/target/versions/0"))
    await save(service, "elsewhere", artifact=PARTS[4])
    assert await read(service, "link") == b"old"
    with pytest.raises(InvalidRequestError, match="load_artifact"):
        await read(service, "elsewhere")


# ----- references


def refer(uri):
    return types.Part(file_data=types.FileData(file_uri=uri))


URI = "artifact://apps/app/users/user/sessions/session/artifacts"


async def test_a_reference_is_followed(service):
    """`artifact://` gives the content of the version that it names (ART-8)."""
    await save(service, "reports/a b.pdf", "old")
    await save(service, "reports/a b.pdf", "new")
    await save(
        service,
        "user:link",
        artifact=refer("artifact://apps/app/users/user/artifacts/user:x/versions/0"),
    )
    await save(service, "user:x", "user's")
    await save(service, "link", artifact=refer(f"{URI}/reports/a%20b.pdf/versions/0"))
    await save(service, "gone", artifact=refer(f"{URI}/gone%20too/versions/7"))
    assert await service.load_artifact(**SCOPE, filename="link") == text("old")
    assert await service.load_artifact(**SCOPE, filename="user:link") == text("user's")
    assert await service.load_artifact(**SCOPE, filename="gone") is None


@pytest.mark.parametrize(
    "uri",
    [
        "artifact://",
        f"{URI}/x",
        f"{URI}/x/versions/-1",
        f"{URI}/../x/versions/0",
        "artifact://apps/app/users/victim/sessions/session/artifacts/x/versions/0",
        "artifact://apps/app/users/victim/artifacts/user:x/versions/0",
        "artifact://apps/other/users/user/artifacts/user:x/versions/0",
        "artifact://apps/app/users/user/sessions/other/artifacts/x/versions/0",
        "artifact://apps/app/users/user/artifacts/x/versions/0",
    ],
)
async def test_a_reference_stays_in_its_scope(service, uri):
    """A reference that is malformed or leads to another tenant or session is refused (S4)."""
    with pytest.raises(InvalidRequestError):
        await save(service, "link", artifact=refer(uri))


async def test_a_users_name_refers_to_no_session(service):
    """What all sessions share cannot lead into one of them."""
    with pytest.raises(InvalidRequestError, match="scope"):
        await save(service, "user:link", artifact=refer(f"{URI}/x/versions/0"))


async def test_references_in_a_circle_end(service):
    """References are followed five deep; then it is an error and no endless loop (ART-8)."""
    await save(service, "self", artifact=refer(f"{URI}/self/versions/0"))
    with pytest.raises(InvalidRequestError, match="references"):
        await service.load_artifact(**SCOPE, filename="self")
    await save(service, "0", "end")
    for n in range(5):
        await save(service, str(n + 1), artifact=refer(f"{URI}/{n}/versions/0"))
    assert await service.load_artifact(**SCOPE, filename="5") == text("end")


# ----- any name


NAMES = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=500
) | st.text(st.sampled_from("aA.%2eE/\\:~_ ü\u0308user"), min_size=1, max_size=40)


@settings(
    max_examples=examples(75),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(names=st.sets(NAMES, min_size=1, max_size=5), session=NAMES.filter(lambda s: s.strip()))
@pytest.mark.thorough
async def test_any_name_serves_or_is_refused(service, tmp_path, names, session):
    """A name is refused, or keeps its own content and is listed as written, inside the folder."""
    scope = {"app_name": str(uuid4()), "user_id": session[:128], "session_id": session[-128:]}
    kept = set()
    for name in names:
        try:
            assert await save(service, name, name, **scope) == 0
        except InvalidRequestError as error:
            assert "filename" in error.message or "_id" in error.message  # noqa: PT017 # refusing is one of two right answers
        else:
            kept.add(name)
    for name in kept:
        assert await service.load_artifact(**scope, filename=name) == text(name)
    if kept:
        assert await service.list_artifact_keys(**scope) == sorted(kept)
    assert {path.name for path in tmp_path.iterdir()} <= {"folder"}


# ----- all of a user


async def test_a_user_is_forgotten_as_a_whole(service):
    """S6: names of the user and of sessions, and nobody else's; a dry run only counts."""
    other = {**SCOPE, "user_id": "other"}
    for scope in (SCOPE, other, {**SCOPE, "session_id": "second"}):
        await save(service, "a.txt", "text", **scope)
    await save(service, "user:b.txt", "text", **SCOPE)
    whose = {**USER, "session_ids": ["session", "second"]}
    assert await service.delete_user(**whose, dry_run=True) == 3
    assert await service.list_artifact_keys(**SCOPE) == ["a.txt", "user:b.txt"]
    assert await service.delete_user(**whose) == 3
    assert await service.delete_user(**whose) == 0
    assert await service.list_artifact_keys(**SCOPE) == []
    assert await service.list_artifact_keys(**other) == ["a.txt"]


async def test_a_service_with_adks_save_serves() -> None:
    """ART-10: an application's own service need not know keys, and may."""
    kept: list[str | None] = []

    async def pieces() -> AsyncGenerator[bytes]:
        yield b"x"

    class Plain(InMemoryArtifactService):
        async def save_artifact(
            self, *, app_name, user_id, filename, artifact, session_id=None, custom_metadata=None
        ):
            kept.append(filename)
            return len(kept) - 1

    class Keyed(Plain):
        async def save_artifact(self, **given):
            kept.append(given["save_key"])
            return 0

    session = Session(id="s", app_name="app", user_id="u")
    for service in (Plain(), Keyed()):
        told = InvocationContext(invocation_id="i", session=session, artifact_service=service)
        await ToolContext(told, function_call_id="c").save_artifact("f", text("x"))
    assert kept == ["f", '["i","","c","",1]']
    keyed = {"filename": "g", "chunks": pieces(), "save_key": "k"}
    await BaseArtifactService.save_artifact_stream(Plain(), **SCOPE, **keyed)
    assert kept[2:] == ["g"]
