"""An app: a name and the agents behind it."""

import re

from pydantic import BaseModel, ConfigDict, PrivateAttr, field_validator

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.errors import AgentDefinitionError
from durable_adk.payloads import AgentNode

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


class App(BaseModel):
    """A named tree of agents (semantics APP-1)."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    name: str
    root_agent: BaseAgent
    _manifest: AgentNode | None = PrivateAttr(default=None)

    @field_validator("name")
    @classmethod
    def _usable_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value) or value == "user":
            raise AgentDefinitionError(
                f"The app name {value!r} must start with a letter, hold only letters, digits, "
                "'_' and '-', at most 64 of them, and not be 'user'."
            )
        return value

    def manifest(self) -> AgentNode:
        """What an invocation records of the agents when it opens; made once (design D6)."""
        if self._manifest is None:
            self._manifest = self.root_agent.node()
        return self._manifest

    async def close(self) -> None:
        """Close every agent, in the event loop that ran them."""
        for agent in self.root_agent.walk():
            await agent.close()

    def find_agent(self, name: str) -> BaseAgent:
        """The agent of that name.

        Raises:
            AgentDefinitionError: The app has none (any more).
        """
        agent = self.root_agent.find_agent(name)
        if agent is None:
            known = ", ".join(agent.name for agent in self.root_agent.walk())
            raise AgentDefinitionError(
                f"App {self.name!r} has no agent {name!r}; its agents are {known}."
            )
        return agent
