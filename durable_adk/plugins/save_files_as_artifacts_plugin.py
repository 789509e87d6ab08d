"""A plugin that saves the files of a user's message as artifacts."""

from contextlib import suppress

from google.genai import types

from durable_adk.errors import InvalidRequestError
from durable_adk.plugins.base_plugin import BasePlugin
from durable_adk.plugins.run_context import RunContext
from durable_adk.sessions.state import USER_PREFIX

_READABLE_BY_MODELS = ("gs://", "https://", "http://")


class SaveFilesAsArtifactsPlugin(BasePlugin):
    """Saves the files of a user's message, and names them in the message (RUN-22).

    So neither the session nor a workflow history holds their bytes. Processing the message again
    after a crash creates no second version: the context saves under the same key.
    """

    def __init__(
        self, name: str = "save_files_as_artifacts_plugin", *, attach_file_reference: bool = True
    ) -> None:
        """Set the name, and whether to attach references.

        Args:
            name: The plugin's name.
            attach_file_reference: Also add a reference after the text, if models can read from the
                artifact's storage.
        """
        super().__init__(name)
        self._attach = attach_file_reference

    async def on_user_message_callback(
        self, *, invocation_context: RunContext, user_message: types.Content
    ) -> types.Content | None:
        """Replace each part with inline data by a text that names its artifact.

        Raises:
            InvalidRequestError: There is no artifact service.
        """
        if not any(part.inline_data for part in user_message.parts or []):
            return None
        parts: list[types.Part] = []
        for index, part in enumerate(user_message.parts or []):
            parts += await self._saved(invocation_context, part, index)
        return types.Content(role=user_message.role, parts=parts)

    async def _saved(self, context: RunContext, part: types.Part, index: int) -> list[types.Part]:
        blob = part.inline_data
        if blob is None:
            return [part]
        filename, version = await _save(context, part, blob.display_name or "", index)
        other = blob.display_name not in (None, "", filename)
        suffix = f' (the file "{blob.display_name}")' if other else ""
        text = types.Part(text=f'[Uploaded Artifact: "{filename}"]{suffix}')
        return [text, *await self._reference(context, filename, version, blob)]

    async def _reference(
        self, context: RunContext, filename: str, version: int, blob: types.Blob
    ) -> list[types.Part]:
        """Return a part that references the artifact, if models can read it."""
        if not self._attach:
            return []
        known = await context.get_artifact_version(filename, version)
        if known is None or not known.canonical_uri.startswith(_READABLE_BY_MODELS):
            return []
        data = types.FileData(
            file_uri=known.canonical_uri,
            mime_type=blob.mime_type,
            display_name=blob.display_name,
        )
        return [types.Part(file_data=data)]


async def _save(
    context: RunContext, part: types.Part, display_name: str, index: int
) -> tuple[str, int]:
    """Save a file under the user's name for it, else under a generated one, as in ADK.

    A name in use gets another version, so nothing is overwritten. An upload cannot use names with
    the prefix ``user:``, which the user's other sessions share.
    """
    if display_name and not display_name.startswith(USER_PREFIX):
        with suppress(InvalidRequestError):  # not a valid artifact name
            return display_name, await context.save_artifact(display_name, part)
    filename = f"artifact_{context.invocation_id}_{index}"
    return filename, await context.save_artifact(filename, part)
