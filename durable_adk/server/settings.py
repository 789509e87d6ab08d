"""Settings of the HTTP server."""

from pathlib import Path

from pydantic import Field

from durable_adk.server.access import AccessSettings
from durable_adk.settings import FiniteSeconds, PushHost


class ServerSettings(AccessSettings):
    """Settings of the HTTP server, from ``DURABLE_ADK_SERVER_*`` variables."""

    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = Field(default=8000, ge=0, le=65535)
    """The port; 0: any free port."""
    public_url: str | None = None
    """The public URL in agent cards, if it differs from the address."""
    push_notifications: bool = True
    """Whether workers send push notifications for clients of A2A."""
    push_hosts: list[PushHost] = Field(
        default_factory=list[PushHost], validation_alias="DURABLE_ADK_PUSH_HOSTS"
    )
    """Same as the workers' `Settings.push_hosts`."""
    apps: list[str] = Field(default_factory=list[str])
    """Names of the apps, as JSON; none: those that workers serve or that have sessions."""
    adk_ui: Path | None = None
    """Folder with the files of ADK's web page; None: those of an installed google-adk."""
    temporal_ui: str | None = None
    """Address of Temporal's UI, for links from invocations."""
    max_list_bytes: int = Field(default=2_000_000, ge=1)
    """Size of states, or of A2A tasks, after which a page of a list ends."""
    max_session_bytes: int = Field(default=50_000_000, ge=1)
    """Maximum bytes of events in a session that is read as a whole."""
    max_stored_bytes: int = Field(default=1_000_000_000, ge=1)
    """Maximum bytes in artifacts, and characters in sessions, of a user of an app. Operators have
    no limit."""
    ping_seconds: FiniteSeconds = Field(default=15.0, gt=0)
    """Seconds between two comments in a stream, which keep its connection open."""
    retry_milliseconds: int = Field(default=1000, ge=0)
    """Milliseconds that a reader waits before it reconnects."""
    drain_seconds: FiniteSeconds = Field(default=10.0, ge=0)
    """Seconds for responses to complete when the server is stopped."""
