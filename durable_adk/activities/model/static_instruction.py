"""Applies an agent's static instruction to a request (AGT-16).

The system instruction and the first contents are the same in every request, so a provider's cache
of them stays valid. Content that changes between requests comes late: after function responses, or
before the user's last message, so that a provider does not mistake it for that message.
"""

from collections.abc import Iterator, Sequence

from google.genai import types

from durable_adk.agents.llm_agent import StaticInstruction
from durable_adk.models.llm_request import SYSTEM_INSTRUCTION

_DYNAMIC = (
    f"{SYSTEM_INSTRUCTION} for this turn, from the application you are part of and not from the "
    "user. Follow it, do not answer it."
)


def static_texts(instruction: StaticInstruction) -> list[str]:
    """Return the text parts of the system instruction, with a placeholder for each file."""
    texts: list[str] = []
    files = 0
    for part in _parts(instruction):
        if part.text is None:
            files += 1
            texts.append(f"[file {files}, which is in the first messages]")
        else:
            texts.append(part.text)
    return texts


def static_files(instruction: StaticInstruction) -> list[types.Content]:
    """Return the parts that a system instruction cannot hold, as the first contents."""
    files = [part for part in _parts(instruction) if part.text is None]
    return [
        types.Content(
            role="user",
            parts=[
                types.Part(text=f"{SYSTEM_INSTRUCTION}, file {number}:"),
                part.model_copy(deep=True),
            ],
        )
        for number, part in enumerate(files, 1)
    ]


def with_dynamic(contents: Sequence[types.Content], text: str) -> list[types.Content]:
    """Insert the instruction of this turn before the user's last message."""
    if not text:
        return list(contents)
    position = len(contents)
    while position > 0 and _is_said(contents[position - 1]):
        position -= 1
    instruction = types.Content(role="user", parts=[types.Part(text=f"{_DYNAMIC}\n\n{text}")])
    return [*contents[:position], instruction, *contents[position:]]


def _is_said(content: types.Content) -> bool:
    """Return whether the content is a message; a function response must stay behind its call."""
    responses = (part.function_response for part in content.parts or [])
    return content.role == "user" and not any(responses)


def _parts(instruction: StaticInstruction) -> Iterator[types.Part]:
    match instruction:
        case types.Content():
            yield from instruction.parts or []
        case list():
            for item in instruction:
                yield _part(item)
        case _:
            yield _part(instruction)


def _part(item: str | types.Part | types.File) -> types.Part:
    match item:
        case str():
            return types.Part(text=item)
        case types.File():
            return types.Part.from_uri(file_uri=item.uri or "", mime_type=item.mime_type)
        case _:
            return item
