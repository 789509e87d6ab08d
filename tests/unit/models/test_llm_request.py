"""What a model is asked."""

import pytest
from google.genai import types

from durable_adk.models import LlmRequest


class StubTool:
    def __init__(self, name, description="", *, declared=True):
        self.name = name
        self.declaration = types.FunctionDeclaration(name=name, description=description)
        self.declared = declared

    def get_declaration(self):
        return self.declaration if self.declared else None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "a\n\nb"),
        ("x", "x\n\na\n\nb"),
        (["x", types.Part(text="y")], ["x", types.Part(text="y"), "a", "b"]),
        (types.Part(text="x"), [types.Part(text="x"), "a", "b"]),
    ],
)
def test_instructions_are_appended(before, after):
    """Pieces follow what is there, a blank line between texts; empty ones vanish (AGT-15)."""
    request = LlmRequest(config=types.GenerateContentConfig(system_instruction=before))
    request.append_instructions(["a", "", "b"])
    request.append_instructions([])
    assert request.config.system_instruction == after


def test_instructions_are_appended_to_a_content():
    """A Content stays one, because the client refuses lists that hold Contents."""
    shared = types.UserContent("x")
    request = LlmRequest(config=types.GenerateContentConfig(system_instruction=shared))
    request.append_instructions(["a"])
    assert [part.text for part in request.config.system_instruction.parts] == ["x", "a"]
    assert len(shared.parts) == 1


def test_all_tools_are_declared_in_one():
    """All declarations are in one Tool; the last of a name wins (TOL-2)."""
    search = types.Tool(google_search=types.GoogleSearch())
    request = LlmRequest(config=types.GenerateContentConfig(tools=[search]))
    request.append_tools([StubTool("f", "old"), StubTool("g")])
    request.append_tools([StubTool("f", "new"), StubTool("hidden", declared=False)])
    kept, declared = request.config.tools
    assert kept is search
    described = [(d.name, d.description) for d in declared.function_declarations]
    assert described == [("g", ""), ("f", "new")]
    assert set(request.tools_dict) == {"f", "g", "hidden"}


def test_a_snapshot_stands_still():
    """Changes to a request do not reach its snapshot; the tools are the same objects."""
    request = LlmRequest(contents=[types.UserContent("a")])
    tool = StubTool("f")
    request.append_tools([tool])
    snapshot = request.snapshot()
    request.contents[0].parts[0].text = "b"
    request.append_tools([StubTool("g")])
    request.append_instructions(["x"])
    assert snapshot.contents[0].parts[0].text == "a"
    assert snapshot.config.system_instruction is None
    assert len(snapshot.config.tools[0].function_declarations) == 1
    assert snapshot.tools_dict == {"f": tool}


def test_an_instruction_may_be_a_content() -> None:
    """As in ADK: its texts go into the system instruction, its files into the contents."""
    request = LlmRequest()
    request.append_instructions(["before"])
    picture = types.Part.from_bytes(data=b"x", mime_type="image/png")
    instruction = types.Content(parts=[types.Part(text="look"), picture, types.Part(text="well")])
    added = request.append_instructions(instruction)
    assert request.contents == added
    assert [content.parts[1] for content in added] == [picture]
    name = added[0].parts[0].text.removesuffix(":")
    told = request.config.system_instruction
    assert told == f"before\n\nlook\n\n[{name}, which is in the messages]\n\nwell"
    assert request.append_instructions(["x"]) == []


@pytest.mark.parametrize("wrong", ["text", [1], None])
def test_other_instructions_are_refused(wrong: object) -> None:
    """A text is no list of texts: it would be taken for its letters."""
    with pytest.raises(TypeError, match="instructions must be"):
        LlmRequest().append_instructions(wrong)
