"""Code and its results as ADK values and as content parts."""

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from google.genai import types

Delimiters = tuple[str, str]


@dataclass(frozen=True)
class File:
    """An input or output file of code."""

    name: str
    content: str | bytes
    """The file's bytes, or their base64 as text (ADK's convention)."""
    mime_type: str = "text/plain"

    @property
    def data(self) -> bytes:
        """The file's bytes.

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
    """Code to run, with its input files."""

    code: str
    input_files: list[File] = field(default_factory=list[File])
    execution_id: str | None = None
    """The same for all attempts, and for a stateful executor for the whole session."""


@dataclass
class CodeExecutionResult:
    """The output of an execution."""

    stdout: str = ""
    stderr: str = ""
    output_files: list[File] = field(default_factory=list[File])
    exit_code: int | None = None
    """None if unknown; any output on stderr then counts as a failure, as in ADK."""

    @property
    def failed(self) -> bool:
        """Whether the code failed; output on stderr with exit code 0 is only a warning."""
        return bool(self.stderr) if self.exit_code is None else self.exit_code != 0


class CodeExecutionUtils:
    """Builds and extracts code and result parts, with ADK's functions and formats."""

    @staticmethod
    def build_executable_code_part(code: str) -> types.Part:
        """Return Python code as a part."""
        return types.Part.from_executable_code(code=code, language=types.Language.PYTHON)

    @staticmethod
    def build_code_execution_result_part(
        code_execution_result: CodeExecutionResult,
    ) -> types.Part:
        """Return a result as a part, with the text that the model receives."""
        failed = code_execution_result.failed
        text = (_failure if failed else _success)(code_execution_result)
        outcome = types.Outcome.OUTCOME_FAILED if failed else types.Outcome.OUTCOME_OK
        return types.Part.from_code_execution_result(outcome=outcome, output=text)

    @staticmethod
    def extract_code_and_truncate_content(
        content: types.Content, code_block_delimiters: Sequence[Delimiters]
    ) -> str | None:
        """Find the first code without a result, and truncate the content after it.

        Text that a model writes after its code, especially results, is invented. Function calls are
        removed wherever they are, because the model decides again once it has the result. Code in
        thoughts is ignored.

        Returns:
            The code, which is now the content's last part; None if there is no code, in which case
            the content is unchanged.
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
        """Convert code and results to fenced text, for models that do not accept them as parts.

        A content that consists only of results gets the role ``user``, as the model did not write
        them.
        """
        parts = content.parts or []
        if parts and all(part.code_execution_result for part in parts):
            content.role = "user"
        content.parts = [
            _as_text(part, code_block_delimiter, execution_result_delimiters) for part in parts
        ]


def pending_code(content: types.Content | None) -> str | None:
    """Return the code at the end of a content, which has no result yet and runs next."""
    part = content.parts[-1] if content and content.parts else None
    return part.executable_code.code if part and part.executable_code else None


def _own_part(parts: Sequence[types.Part]) -> tuple[list[types.Part], str] | None:
    """Find the first code part without a result after it; return the parts before it, and it."""
    for index, part in enumerate(parts):
        answered = index + 1 < len(parts) and parts[index + 1].code_execution_result is not None
        if part.executable_code and part.executable_code.code and not answered:
            return list(parts[:index]), part.executable_code.code
    return None


def _block(
    parts: Sequence[types.Part], delimiters: Sequence[Delimiters]
) -> tuple[list[types.Part], str] | None:
    """Find the first code block in the text; return the parts before it and the code.

    Consecutive text parts are joined first, because models split text anywhere.
    """
    kept: list[types.Part] = []
    for run in _runs(parts):
        text = "".join(part.text or "" for part in run) if _is_plain_text(run[0]) else ""
        found = _first_block(text, delimiters)
        if found is None:
            kept += run
            continue
        start, code = found
        return [*kept, *([types.Part(text=text[:start])] if start else [])], code
    return None


def _is_plain_text(part: types.Part) -> bool:
    return part.text is not None and not part.thought


def _runs(parts: Sequence[types.Part]) -> Iterator[list[types.Part]]:
    """Group the parts, with consecutive text parts in one group."""
    run: list[types.Part] = []
    for part in parts:
        if run and not (_is_plain_text(run[-1]) and _is_plain_text(part)):
            yield run
            run = []
        run.append(part)
    if run:
        yield run


def _first_block(text: str, delimiters: Sequence[Delimiters]) -> tuple[int, str] | None:
    """Return the start offset and the code of the first block."""
    found: list[tuple[int, str]] = []
    for opening, closing in delimiters:
        # Plain text search: an unclosed block costs one pass, not one per line.
        start = text.find(opening)
        end = text.find(closing, start + len(opening)) if start >= 0 else -1
        if end >= 0 and (code := text[start + len(opening) : end]).strip():
            found.append((start, code))
    return min(found, default=None)


def _as_text(part: types.Part, code: Delimiters, result: Delimiters) -> types.Part:
    if part.executable_code:
        return types.Part(text=f"{code[0]}{part.executable_code.code or ''}{code[1]}")
    if part.code_execution_result:
        # The code's output must not be able to close its own fence.
        output = _unfenced(part.code_execution_result.output or "", result[1])
        return types.Part(text=f"{result[0]}{output}{result[1]}")
    return part


def _unfenced(output: str, closing: str) -> str:
    fence = closing.strip()
    return re.sub(re.escape(fence), " ".join(fence), output) if fence else output


def _failure(result: CodeExecutionResult) -> str:
    message = result.stderr or f"The code ended with exit code {result.exit_code}."
    return f"{message}\n\nBefore that it printed:\n{result.stdout}" if result.stdout else message


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
