"""Code and its results as ADK's values, and as parts of a content."""

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from google.genai import types

Delimiters = tuple[str, str]


@dataclass(frozen=True)
class File:
    """A file that code gets or makes."""

    name: str
    content: str | bytes
    """Its bytes; or, as text, the base64 of them (ADK's convention)."""
    mime_type: str = "text/plain"

    @property
    def data(self) -> bytes:
        """Its bytes.

        Raises:
            ValueError: The content is text, but not base64.
        """
        if isinstance(self.content, bytes):
            return self.content
        try:
            return base64.b64decode(self.content, validate=True)
        except binascii.Error as error:
            raise ValueError(
                f"The content of file {self.name!r} is a str that is not base64; give bytes."
            ) from error


@dataclass
class CodeExecutionInput:
    """What is to be run."""

    code: str
    input_files: list[File] = field(default_factory=list[File])
    execution_id: str | None = None
    """The same for every attempt; of a stateful executor: for the whole session."""


@dataclass
class CodeExecutionResult:
    """What came of it."""

    stdout: str = ""
    stderr: str = ""
    output_files: list[File] = field(default_factory=list[File])
    exit_code: int | None = None
    """None: not known; then anything on stderr is a failure, as in ADK."""

    @property
    def failed(self) -> bool:
        """Whether the code failed; a warning on stderr with exit code 0 is no failure."""
        return bool(self.stderr) if self.exit_code is None else self.exit_code != 0


class CodeExecutionUtils:
    """Parts of a content that are code or a result, in ADK's functions and formats."""

    @staticmethod
    def build_executable_code_part(code: str) -> types.Part:
        """Python code as a part."""
        return types.Part.from_executable_code(code=code, language=types.Language.PYTHON)

    @staticmethod
    def build_code_execution_result_part(
        code_execution_result: CodeExecutionResult,
    ) -> types.Part:
        """A result as a part, in the words the model is told it."""
        failed = code_execution_result.failed
        text = (_failure if failed else _success)(code_execution_result)
        outcome = types.Outcome.OUTCOME_FAILED if failed else types.Outcome.OUTCOME_OK
        return types.Part.from_code_execution_result(outcome=outcome, output=text)

    @staticmethod
    def extract_code_and_truncate_content(
        content: types.Content, code_block_delimiters: Sequence[Delimiters]
    ) -> str | None:
        """Find the first code that has no result yet, and cut the content off behind it.

        What a model writes after its code, results above all, is made up. Function calls go as
        well, wherever they are: the model decides on them anew when it knows the result. Thoughts
        are not run.

        Returns:
            The code, which is the content's last part now; None: no code, the content is as it was.
        """
        parts = content.parts or []
        found = _own_part(parts) or _block(parts, code_block_delimiters)
        if found is None:
            return None
        kept, code = found
        kept = [part for part in kept if not (part.function_call or part.function_response)]
        content.parts = [*kept, CodeExecutionUtils.build_executable_code_part(code)]
        return code

    @staticmethod
    def convert_code_execution_parts(
        content: types.Content,
        code_block_delimiter: Delimiters,
        execution_result_delimiters: Delimiters,
    ) -> None:
        """Make code and results fenced text, for models that do not take them as parts.

        A content of results alone is the user's turn: the model did not say them.
        """
        parts = content.parts or []
        if parts and all(part.code_execution_result for part in parts):
            content.role = "user"
        content.parts = [
            _as_text(part, code_block_delimiter, execution_result_delimiters) for part in parts
        ]


def pending_code(content: types.Content | None) -> str | None:
    """The code a content ends with and that has no result: it is to be run next."""
    part = content.parts[-1] if content and content.parts else None
    return part.executable_code.code if part and part.executable_code else None


def _own_part(parts: Sequence[types.Part]) -> tuple[list[types.Part], str] | None:
    """The first code that came as a part without a result behind it, and the parts before it."""
    for index, part in enumerate(parts):
        answered = index + 1 < len(parts) and parts[index + 1].code_execution_result is not None
        if part.executable_code and part.executable_code.code and not answered:
            return list(parts[:index]), part.executable_code.code
    return None


def _block(
    parts: Sequence[types.Part], delimiters: Sequence[Delimiters]
) -> tuple[list[types.Part], str] | None:
    """The first code block in the text, and what is before it.

    Runs of text parts count as one text: models split them anywhere.
    """
    kept: list[types.Part] = []
    for run in _runs(parts):
        text = "".join(part.text or "" for part in run) if _is_said(run[0]) else ""
        found = _first_block(text, delimiters)
        if found is None:
            kept += run
            continue
        start, code = found
        return [*kept, *([types.Part(text=text[:start])] if start else [])], code
    return None


def _is_said(part: types.Part) -> bool:
    return part.text is not None and not part.thought


def _runs(parts: Sequence[types.Part]) -> Iterator[list[types.Part]]:
    """The parts, neighbours of said text together."""
    run: list[types.Part] = []
    for part in parts:
        if run and not (_is_said(run[-1]) and _is_said(part)):
            yield run
            run = []
        run.append(part)
    if run:
        yield run


def _first_block(text: str, delimiters: Sequence[Delimiters]) -> tuple[int, str] | None:
    """Where the first block begins, and its code."""
    found: list[tuple[int, str]] = []
    for opening, closing in delimiters:
        # Searched as text, so an unclosed block costs one pass and not one a line.
        start = text.find(opening)
        end = text.find(closing, start + len(opening)) if start >= 0 else -1
        if end >= 0 and (code := text[start + len(opening) : end]).strip():
            found.append((start, code))
    return min(found, default=None)


def _as_text(part: types.Part, code: Delimiters, result: Delimiters) -> types.Part:
    if part.executable_code:
        return types.Part(text=f"{code[0]}{part.executable_code.code or ''}{code[1]}")
    if part.code_execution_result:
        # What the code printed must not be able to close its own fence.
        output = _unfenced(part.code_execution_result.output or "", result[1])
        return types.Part(text=f"{result[0]}{output}{result[1]}")
    return part


def _unfenced(output: str, closing: str) -> str:
    fence = closing.strip()
    return re.sub(re.escape(fence), " ".join(fence), output) if fence else output


def _failure(result: CodeExecutionResult) -> str:
    said = result.stderr or f"The code ended with exit code {result.exit_code}."
    return f"{said}\n\nBefore that it printed:\n{result.stdout}" if result.stdout else said


def _success(result: CodeExecutionResult) -> str:
    sections: list[str] = []
    if result.stdout or not result.output_files:
        sections.append(f"Code execution result:\n{result.stdout}\n")
    if result.stderr:
        sections.append(f"Warnings:\n{result.stderr}\n")
    if result.output_files:
        names = ",".join(f"`{file.name}`" for file in result.output_files)
        sections.append(f"Saved artifacts:\n{names}")
    return "\n\n".join(sections)
