"""A model looks into artifacts."""

import io
import zipfile

import pytest
from google.genai import types

from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.context.activity import ToolContext
from durable_adk.context.step_scope import Services, StepScope
from durable_adk.models import LlmRequest
from durable_adk.sessions import Session
from durable_adk.tools import load_artifacts_tool as module
from durable_adk.tools.load_artifacts_tool import load_artifacts_tool


@pytest.fixture
def context():
    scope = StepScope(
        session=Session(id="session", app_name="app", user_id="user"),
        invocation_id="i1",
        agent_name="agent",
        branch=None,
        user_content=None,
        services=Services(artifacts=InMemoryArtifactService()),
    )
    return ToolContext(scope, function_call_id="c1")


def response(names, *, name="load_artifacts"):
    answer = types.FunctionResponse(name=name, response={"artifact_names": names})
    return types.Content(role="user", parts=[types.Part(function_response=answer)])


def blob(data, kind):
    return types.Part.from_bytes(data=data, mime_type=kind)


async def processed(context, *contents):
    request = LlmRequest(contents=list(contents))
    await load_artifacts_tool.process_llm_request(tool_context=context, llm_request=request)
    return request


async def shown(context, part):
    """What the model sees of an artifact."""
    await context.save_artifact("name", part)
    request = await processed(context, response(["name"]))
    return request.contents[-1].parts[1]


async def test_the_model_is_told_what_there_is(context):
    """The names, of the session and the user, are in the instructions (TOL-25)."""
    await context.save_artifact("reports/ä.pdf", types.Part(text="x"))
    await context.save_artifact("user:photo.png", types.Part(text="x"))
    request = await processed(context)
    assert '["reports/ä.pdf", "user:photo.png"]' in request.config.system_instruction
    assert request.tools_dict == {"load_artifacts": load_artifacts_tool}
    assert request.contents == []


async def test_without_artifacts_nothing_is_said(context):
    """No artifacts, no instruction; the tool is there all the same."""
    request = await processed(context)
    assert request.config.system_instruction is None
    assert "load_artifacts" in request.tools_dict


async def test_very_many_names_are_cut_short(context):
    """The list has an end, and says that there are more."""
    for n in range(203):
        await context.save_artifact(f"file{n:03}", types.Part(text="x"))
    instruction = (await processed(context)).config.system_instruction
    assert "file199" in instruction
    assert "file200" not in instruction
    assert "and 3 more" in instruction


async def test_what_was_asked_for_is_shown_once(context):
    """The content follows the call's response in that request and in no later one (TOL-25)."""
    await context.save_artifact("a", types.Part(text="old"))
    await context.save_artifact("a", types.Part(text="content of a"))
    await context.save_artifact("user:b", types.Part(text="content of b"))
    asked = response(["a", "b", "a", "../c", "missing"])
    request = await processed(context, asked)
    texts = [[part.text for part in content.parts] for content in request.contents[1:]]
    assert texts == [
        ['Content of artifact "a":', "content of a"],
        ['Content of artifact "b":', "content of b"],
        ['Content of artifact "../c":', '[There is no artifact "../c".]'],
        ['Content of artifact "missing":', '[There is no artifact "missing".]'],
    ]
    assert all(content.role == "user" for content in request.contents)
    later = types.Content(role="model", parts=[types.Part(text="I have seen it.")])
    assert (await processed(context, asked, later)).contents == [asked, later]


async def test_all_calls_of_one_turn_are_served(context):
    """Parallel calls, also beside other tools', have one content of responses; all are served."""
    for name in "abc":
        await context.save_artifact(name, types.Part(text=name))
    calls = [response(["a"]), response(["c"], name="other_tool"), response(["b"])]
    together = types.Content(role="user", parts=[part for c in calls for part in c.parts])
    request = await processed(context, together)
    assert [content.parts[1].text for content in request.contents[1:]] == ["a", "b"]


WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def document(prefix="w", name="word/document.xml"):
    """A Word document of two paragraphs."""
    file = io.BytesIO()
    p, t = f"{prefix}:p", f"{prefix}:t"
    first = f'<{p}><{t} xml:space="preserve">A &amp; </{t}><{t}>B</{t}></{p}>'
    second = f'<{p} a="1"><{t}>C</{t}></{p}>'
    with zipfile.ZipFile(file, "w") as whole:
        whole.writestr(name, f'<{prefix}:d xmlns:{prefix}="{WORD}">{first}{second}</{prefix}:d>')
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "kind", "data", "text"),
    [
        ("a.csv", "application/octet-stream", b"a,b", "a,b"),
        ("A.JSON", "application/unknown", b"{}", "{}"),
        ("a", "image/svg", b"<svg/>", "<svg/>"),
        ("a.docx", "application/zip", document(), "A & B\nC"),
        ("a", "application/octet-stream", document("x"), "A & B\nC"),
        ("a.docx", "application/zip", document(name="other.xml"), "[This is application/zip"),
        ("a.docx", "application/octet-stream", b"PK\x03\x04broken", "[This is application/octet"),
    ],
)
async def test_uploads_of_browsers_are_readable(context, name, kind, data, text):
    """Tables, documents and drawings are text, by their name or content where the type is none."""
    await context.save_artifact(name, blob(data, kind))
    request = await processed(context, response([name]))
    assert request.contents[-1].parts[1].text.startswith(text)


@pytest.mark.parametrize("args", [{}, {"artifact_names": []}, {"artifact_names": {"a": 1}}])
async def test_names_may_be_missing(context, args):
    """As in ADK: a call that names none shows none; the status says what to call."""
    assert "required" not in load_artifacts_tool.get_declaration().parameters_json_schema
    answer = await load_artifacts_tool.run_async(args=args, tool_context=context)
    assert answer["artifact_names"] == []
    assert "load_artifacts" in answer["status"]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (blob(b"a,b\n", "text/csv; charset=utf-8"), "a,b\n"),
        (blob('{"ä": 1}'.encode(), "application/json"), '{"ä": 1}'),
        (blob(b"<svg/>", "image/svg+xml"), "<svg/>"),
        (blob(b"\xff", "text/plain"), "\ufffd"),
        (blob(b"PK", "application/zip"), "[This is application/zip, 2 bytes, which"),
        (blob(b"", "image/png"), "[This is image/png, 0 bytes, which"),
        (types.Part(text=""), ""),
    ],
)
async def test_text_is_shown_as_text_and_the_rest_described(context, part, text):
    """Text of any type is text; what no model can read is said to be there."""
    found = (await shown(context, part)).text
    assert found.startswith(text)
    assert bool(found) == bool(text)


async def test_pictures_are_shown_as_they_are(context):
    """What a model can see or hear goes into the request itself, without a display name."""
    picture = types.Part(inline_data=types.Blob(data=b"x", mime_type="IMAGE/PNG", display_name="n"))
    assert await shown(context, picture) == blob(b"x", "image/png")
    file = types.Part(file_data=types.FileData(file_uri="gs://b/x", mime_type="video/mp4"))
    assert await shown(context, file) == file


async def test_a_request_keeps_below_what_providers_take(context, monkeypatch):
    """Long text is cut, and binaries stop at the limit of all together."""
    monkeypatch.setattr(module, "_MAX_BYTES", 10)
    monkeypatch.setattr(module, "_MAX_TEXT", 5)
    for name in "abc":
        await context.save_artifact(name, blob(b"123456", "image/png"))
    await context.save_artifact("d", types.Part(text="1234567"))
    request = await processed(context, response(["a", "b", "d"]))
    first, second, third = (content.parts[1] for content in request.contents[1:])
    assert first.inline_data.data == b"123456"
    assert second.text == "[This is image/png, 6 bytes, too much for one message.]"
    assert third.text == "12345\n[2 more characters are left out.]"


async def test_the_response_holds_names_only(context):
    """What is stored of a call is the names, so that content never enters the session."""
    await context.save_artifact("a", types.Part(text="content"))
    result = await load_artifacts_tool.run_async(
        args={"artifact_names": ["a", 5]}, tool_context=context
    )
    assert result["artifact_names"] == ["a"]
    assert "content of" not in str(result)
    one = await load_artifacts_tool.run_async(args={"artifact_names": "a"}, tool_context=context)
    assert one["artifact_names"] == ["a"]


async def test_odd_contents_do_no_harm(context):
    """Contents without parts, and responses without names, ask for nothing."""
    empty = types.FunctionResponse(name="load_artifacts")
    contents = types.Content(role="user", parts=[types.Part(function_response=empty)])
    assert len((await processed(context, contents)).contents) == 1
    assert len((await processed(context, types.Content(role="user"))).contents) == 1
