"""Agent cards, which describe an app and how to reach it."""

from collections.abc import Iterator

from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    OpenIdConnectSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

from durable_adk import __version__
from durable_adk.apps.app_declaration import AgentDescription, AppDescription
from durable_adk.server.oidc import discovery_url
from durable_adk.server.settings import ServerSettings


def card_of(
    name: str,
    app: AppDescription | None,
    *,
    url: str,
    settings: ServerSettings,
    whole: bool = True,
) -> AgentCard:
    """Return the card of an app.

    Args:
        name: The app's name.
        app: The app's description, if available.
        url: The app's URL.
        settings: The server's settings, for authentication and push notifications.
        whole: Whether to include the agents and tools below the root agent.
    """
    root = app.root_agent if app else AgentDescription(name=name, kind="BaseAgent")
    skills = list(_skills(root)) if whole else [_skill(root)]
    schemes = _schemes(settings)
    return AgentCard(
        name=name,
        description=root.description or f"The agent {root.name}.",
        version=__version__,
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for binding, version in (("JSONRPC", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "1.0"))
        ],
        capabilities=AgentCapabilities(
            streaming=True,
            push_notifications=settings.push_notifications,
            extended_agent_card=True,
        ),
        default_input_modes=["text/plain", "application/json", "*/*"],
        default_output_modes=["text/plain", "application/json", "*/*"],
        skills=skills,
        security_schemes=schemes,
        security_requirements=[SecurityRequirement(schemes={one: StringList()}) for one in schemes],
    )


def _skills(agent: AgentDescription) -> Iterator[AgentSkill]:
    yield _skill(agent)
    for tool in agent.tools:
        about = str((tool.declaration or {}).get("description") or "")
        name = f"{agent.name}-{tool.name}"
        text = about or f"The tool {tool.name}."
        yield AgentSkill(id=name, name=tool.name, description=text, tags=["tool"])
    for one in agent.sub_agents:
        yield from _skills(one)


def _skill(agent: AgentDescription) -> AgentSkill:
    text = agent.description or f"The agent {agent.name}."
    return AgentSkill(id=agent.name, name=agent.name, description=text, tags=["agent"])


def _schemes(settings: ServerSettings) -> dict[str, SecurityScheme]:
    found: dict[str, SecurityScheme] = {}
    if settings.tokens or settings.tokens_file is not None:
        bearer = HTTPAuthSecurityScheme(scheme="Bearer")
        found["bearer"] = SecurityScheme(http_auth_security_scheme=bearer)
    if settings.oidc is not None:
        oidc = OpenIdConnectSecurityScheme(open_id_connect_url=discovery_url(settings.oidc))
        found["oidc"] = SecurityScheme(open_id_connect_security_scheme=oidc)
    return found
