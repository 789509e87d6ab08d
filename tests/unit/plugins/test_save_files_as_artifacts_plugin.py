"""The files of a user's message, kept as artifacts."""

import dataclasses

import pytest
from google.genai import types

from durable_adk.context.step_scope import Services
from durable_adk.errors import InvalidRequestError
from durable_adk.plugins import SaveFilesAsArtifactsPlugin
from durable_adk.plugins.run_context import RunContext

WHERE = {"app_name": "app", "user_id": "u", "session_id": "s"}
FILE = types.Blob(data=b"\x89PNG", mime_type="image/png", display_name="../me.png")
MESSAGE = types.Content(
    role="user", parts=[types.Part(text="look"), types.Part(inline_data=FILE), types.Part(text="!")]
)


async def handled(scope, message=MESSAGE, **options):
    """The plugin's answer to a message, and the context it had."""
    context = RunContext(scope)
    plugin = SaveFilesAsArtifactsPlugin(**options)
    answer = await plugin.on_user_message_callback(invocation_context=context, user_message=message)
    return answer, context


async def test_a_file_becomes_an_artifact_and_a_text(make_scope, artifacts):
    """RUN-22: a name that no artifact can have gives way to invocation and index."""
    before = MESSAGE.model_copy(deep=True)
    answer, context = await handled(make_scope())
    name = "artifact_e-1_1"
    assert [part.inline_data for part in answer.parts] == [None] * 3
    assert (answer.role, answer.parts[0].text, answer.parts[2].text) == ("user", "look", "!")
    assert name in answer.parts[1].text
    assert "../me.png" in answer.parts[1].text
    saved = await artifacts.load_artifact(**WHERE, filename=name)
    assert saved.inline_data.data == FILE.data
    assert context.actions.artifact_delta == {name: 0}
    assert before == MESSAGE


async def test_a_repeat_makes_no_second_version(make_scope, artifacts):
    """TRAP-41: the message handled again after a crash answers the same and saves nothing."""
    first, _ = await handled(make_scope())
    again, context = await handled(make_scope())
    assert again == first
    assert context.actions.artifact_delta == {"artifact_e-1_1": 0}
    assert await artifacts.list_versions(**WHERE, filename="artifact_e-1_1") == [0]


async def test_a_message_without_files_is_left_alone(make_scope):
    """Nothing to save is no answer, so later plugins are asked too (PLG-3)."""
    text = types.Content(role="user", parts=[types.Part(text="hi")])
    assert (await handled(make_scope(), text))[0] is None
    assert (await handled(make_scope(), types.Content(role="user")))[0] is None


@pytest.mark.parametrize(
    ("uri", "attach", "referred"),
    [
        ("gs://bucket/x", True, True),
        ("gs://bucket/x", False, False),
        ("file:///tmp/x", True, False),
        ("memory://x", True, False),
    ],
)
async def test_a_model_is_pointed_only_to_what_it_can_read(
    make_scope, artifacts, uri, attach, referred
):
    """A place of ours would be an error at the provider."""
    known = artifacts.get_artifact_version

    async def elsewhere(**kwargs):
        return (await known(**kwargs)).model_copy(update={"canonical_uri": uri})

    artifacts.get_artifact_version = elsewhere
    answer, _ = await handled(make_scope(), attach_file_reference=attach)
    data = [part.file_data for part in answer.parts if part.file_data]
    assert [item.file_uri for item in data] == ([uri] if referred else [])


async def test_without_a_store_the_message_is_refused(make_scope):
    """RUN-22: a file that could not be saved does not slip into the session."""
    scope = dataclasses.replace(make_scope(), services=Services())
    with pytest.raises(InvalidRequestError, match="artifact_service"):
        await handled(scope)


async def test_a_file_is_saved_under_the_name_that_it_was_given(make_scope, artifacts):
    """PLG-7: a tool can load it by the name that the user sees; a second one is a version."""
    blobs = [
        types.Blob(data=data, mime_type="image/png", display_name="cat.png")
        for data in (b"1", b"2")
    ]
    message = types.Content(role="user", parts=[types.Part(inline_data=blob) for blob in blobs])
    answer, context = await handled(make_scope(), message)
    assert [part.text for part in answer.parts] == ['[Uploaded Artifact: "cat.png"]'] * 2
    assert context.actions.artifact_delta == {"cat.png": 1}
    kept = await artifacts.load_artifact(**WHERE, filename="cat.png", version=0)
    assert kept.inline_data.data == b"1"


async def test_an_upload_replaces_no_file_of_other_sessions(make_scope, artifacts):
    """PLG-7: what the user's sessions share cannot be named by an upload."""
    blob = types.Blob(data=b"1", mime_type="image/png", display_name="user:cat.png")
    message = types.Content(role="user", parts=[types.Part(inline_data=blob)])
    _, context = await handled(make_scope(), message)
    assert context.actions.artifact_delta == {"artifact_e-1_0": 0}
    assert await artifacts.load_artifact(**WHERE, filename="user:cat.png") is None
