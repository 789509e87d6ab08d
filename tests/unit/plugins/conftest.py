"""Contexts of steps, made from nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.context.step_scope import Services, StepScope
from durable_adk.sessions import Session

MakeScope = Callable[..., StepScope]


@pytest.fixture
def artifacts() -> InMemoryArtifactService:
    """An empty store."""
    return InMemoryArtifactService()


@pytest.fixture
def make_scope(artifacts: InMemoryArtifactService) -> MakeScope:
    """Make the scope of a step of agent a in invocation e-1, over a state."""

    def make(state: dict[str, Any] | None = None) -> StepScope:
        return StepScope(
            session=Session(id="s", app_name="app", user_id="u", state=dict(state or {})),
            invocation_id="e-1",
            agent_name="a",
            branch=None,
            user_content=None,
            event_id="e-1.0",
            services=Services(artifacts=artifacts),
        )

    return make
