"""Instruction templates filled from the session's state (AGT-13, TRAP-38)."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from google.genai import types

from durable_adk.errors import InstructionError, raised
from durable_adk.sessions.state import APP_PREFIX, TEMP_PREFIX, USER_PREFIX

LoadArtifact = Callable[[str], Awaitable[types.Part | None]]
"""Loads the latest version of a session's artifact; None if there is none."""

# Double braces are no escape in ADK; a `$` or backslash before them is.
_PLACEHOLDER = re.compile(r"(?<![$\\{])\{+[^{}]*\}+")
_ARTIFACT = "artifact."
_SCOPES = (APP_PREFIX, USER_PREFIX, TEMP_PREFIX)


async def render(
    template: str,
    state: Mapping[str, Any],
    *,
    agent: str,
    load_artifact: LoadArtifact | None = None,
) -> str:
    """Fill the placeholders of an instruction.

    ``{name}`` and ``{app:name}`` become the state value as text, None the empty string;
    ``{artifact.file}`` becomes the artifact's text. With ``?`` before the closing brace, a missing
    value becomes the empty string. Braces around anything but a name are kept, so JSON needs no
    escaping. Placeholders in inserted values are not filled.

    Args:
        template: The instruction.
        state: The state as the step sees it, with prefixed keys.
        agent: The agent's name, for errors.
        load_artifact: Loads artifacts; None if there is no artifact service.

    Raises:
        InstructionError: A name has no value; a retry of the step would not help.
    """
    pieces: list[str] = []
    end = 0
    for match in _PLACEHOLDER.finditer(template):
        value = await _value(match[0], state, load_artifact, f"in agent {agent!r}")
        pieces += [template[end : match.start()], value]
        end = match.end()
    return "".join([*pieces, template[end:]])


async def _value(
    placeholder: str, state: Mapping[str, Any], load_artifact: LoadArtifact | None, where: str
) -> str:
    name = placeholder.strip("{}").strip()
    optional = name.endswith("?")
    name = name.removesuffix("?")
    if name.startswith(_ARTIFACT):
        return await _artifact(
            name.removeprefix(_ARTIFACT), load_artifact, where, optional=optional
        )
    if not _is_state_name(name):
        return placeholder
    if name in state:
        return "" if state[name] is None else str(state[name])
    if optional:
        return ""
    raise InstructionError(f"Context variable not found: `{name}` {where}.")


def _is_state_name(name: str) -> bool:
    scope = next((scope for scope in _SCOPES if name.startswith(scope)), "")
    return name.removeprefix(scope).isidentifier()


async def _artifact(name: str, load: LoadArtifact | None, where: str, *, optional: bool) -> str:
    if load is None:
        raise raised(
            InstructionError,
            "ValueError",  # the type that ADK raises here
            f"There is no artifact service to load artifact `{name}` from {where}.",
        )
    part = await load(name)
    if part is not None:
        return _text(name, part)
    if optional:
        return ""
    raise InstructionError(f"Artifact not found: `{name}` {where}.")


def _text(name: str, part: types.Part) -> str:
    if part.text is not None:
        return part.text
    blob = part.inline_data
    try:
        if blob and blob.data is not None:
            return blob.data.decode()
    except UnicodeDecodeError:
        pass
    kind = blob.mime_type if blob else "no text"
    raise InstructionError(f"Artifact `{name}` is not text ({kind}); an instruction needs text.")
