"""A step to plan in."""

import pytest

from durable_adk.context.activity import CallbackContext
from durable_adk.context.step_scope import StepScope
from durable_adk.sessions import Session


@pytest.fixture
def context() -> CallbackContext:
    """The context of a model call, with an empty state."""
    session = Session(id="s", app_name="app", user_id="u")
    return CallbackContext(
        StepScope(
            session=session, invocation_id="i", agent_name="me", branch=None, user_content=None
        )
    )
