"""Settings of the HTTP server."""

from pathlib import Path

from pydantic import Field

from durable_adk.server.access import AccessSettings
from durable_adk.settings import FiniteSeconds, PushHost


class ServerSettings(AccessSettings):
    """Settings of the HTTP server, from ``DURABLE_ADK_SERVER_*`` variables."""

    host: str = "127.0.0.1"
    """The address to listen at."""
    port: int = Field(default=8000, ge=0, le=65535)
    """The port; 0: any free one."""
    public_url: str | None = None
    """The address that clients use, if it is another one, for agent cards."""
    push_notifications: bool = True
    """Whether clients of A2A may have push notifications sent, by the workers."""
    push_hosts: list[PushHost] = Field(
        default_factory=list[PushHost], validation_alias="DURABLE_ADK_PUSH_HOSTS"
    )
    """The workers' `Settings.push_hosts`."""
    apps: list[str] = Field(default_factory=list[str])
    """Names of the apps, as JSON; none: those that workers serve or that have sessions."""
    adk_ui: Path | None = None
    """Folder of the files of ADK's web page; None: those of an installed google-adk."""
    temporal_ui: str | None = None
    """Address of Temporal's UI, which invocations are linked to."""
    max_list_bytes: int = Field(default=2_000_000, ge=1)
    """Size of the states, or of A2A's tasks, with which a page of a list ends."""
    max_session_bytes: int = Field(default=50_000_000, ge=1)
    """Most bytes of events of a session that is read as a whole."""
    max_stored_bytes: int = Field(default=1_000_000_000, ge=1)
    """Most bytes in the artifacts, and characters in the sessions, that a user of an app may have.
    Operators have no bound."""
    ping_seconds: FiniteSeconds = Field(default=15.0, gt=0)
    """Seconds between two comments in a stream, which keep its connection open."""
    retry_milliseconds: int = Field(default=1000, ge=0)
    """How long a reader waits before it connects again."""
    drain_seconds: FiniteSeconds = Field(default=10.0, ge=0)
    """Seconds for responses to complete when the server is stopped."""
