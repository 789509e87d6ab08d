"""What code in a process of its own asks for first."""

import pytest
from pydantic import ValidationError

from durable_adk.code_executors import SubprocessCodeExecutor


def test_it_is_off_unless_asked_for() -> None:
    """S20: constructing it without allow_unsafe=True says what it is and is refused."""
    for fields in ({}, {"allow_unsafe": False}):
        with pytest.raises(ValidationError, match="no security boundary"):
            SubprocessCodeExecutor(**fields)
    assert "not a security boundary" in (SubprocessCodeExecutor.__doc__ or "")
