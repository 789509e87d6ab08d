"""Data files in users' messages."""

import base64

from google.genai import types

from durable_adk.code_executors.data_files import files_in, named


def blob(data: bytes, mime_type: str = "text/csv") -> types.Part:
    return types.Part.from_bytes(data=data, mime_type=mime_type)


def said(*parts: types.Part, role: str = "user") -> types.Content:
    return types.Content(role=role, parts=list(parts))


def test_a_file_has_one_name_wherever_it_is_met() -> None:
    """The name in the prompt is that in the working folder, at every later step too."""
    once = said(types.Part(text="look"), blob(b"a,b\n1,2\n"))
    (file,) = files_in([None, once, said(blob(b"a,b\n1,2\n"))])
    assert (file.data, file.mime_type) == (b"a,b\n1,2\n", "text/csv")
    assert file.content == base64.b64encode(file.data).decode()
    texts = [part.text for part in named(once).parts or []]
    assert texts == ["look", f"\nAvailable file: `{file.name}`\n"]


def test_only_users_data_files_are_taken() -> None:
    """Pictures go to the model, and what a model made is no upload."""
    picture = said(blob(b"x", "image/png"))
    made = said(blob(b"a,b"), role="model")
    assert files_in([picture, made]) == []
    assert named(picture) is picture
    assert named(made) is made
