"""Push notification configurations; workers deliver the notifications."""

import re

from a2a.server.tasks.push_notification_config_store import normalize_push_notification_config
from a2a.types import AuthenticationInfo, TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError

from durable_adk.errors import InvalidRequestError
from durable_adk.http.webhook_address import NOT_PUBLIC, addresses_of
from durable_adk.json_values import check_id
from durable_adk.server.protocols.a2a.task import TaskView
from durable_adk.sessions.records import PUSH
from durable_adk.wire.webhook import PushConfig

_MAX_CONFIGS = 10
"""Maximum number of a task's configurations."""
_MAX_LENGTH = 4_096
"""Maximum length of the texts of a configuration."""
_SCHEME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


async def checked(
    params: TaskPushNotificationConfig, task_id: str, allowed: list[str]
) -> PushConfig:
    """Validate a sender's configuration for a task.

    Args:
        params: The configuration; a missing id becomes the task's, as in the official server.
        task_id: Id of the task.
        allowed: Hosts that need not be public, see `addresses_of`.

    Raises:
        InvalidParamsError: A field is missing or invalid, or notifications must not be sent to its
            URL.
        InvalidRequestError: Its id is invalid.
    """
    config = normalize_push_notification_config(task_id, params)
    has_authentication = config.HasField("authentication")
    scheme, credentials = config.authentication.scheme, config.authentication.credentials
    if has_authentication and not (scheme and credentials):
        raise InvalidParamsError(
            "authentication needs scheme and credentials; without them leave it out."
        )
    for name, text, form in (
        ("token", config.token, _HEADER),
        ("authentication.scheme", scheme, _SCHEME),
        ("authentication.credentials", credentials, _HEADER),
    ):
        if text and not form.fullmatch(text):
            raise InvalidParamsError(f"{name} cannot be sent in a header; use visible ASCII.")
    for name, text in (("url", config.url), ("token", config.token), ("credentials", credentials)):
        if len(text) > _MAX_LENGTH:
            raise InvalidParamsError(f"{name} is longer than {_MAX_LENGTH} characters.")
    await _check_url(config.url, allowed)
    return PushConfig(
        id=check_id(config.id, "id"),
        url=config.url,
        token=config.token or None,
        scheme=scheme or None,
        credentials=credentials or None,
    )


async def _check_url(url: str, allowed: list[str]) -> None:
    try:
        await addresses_of(url, allowed)
    except InvalidRequestError as error:
        raise InvalidParamsError(error.message) from None
    except OSError:  # the same text, or users could probe the names of this network
        raise InvalidParamsError(NOT_PUBLIC) from None


async def store(view: TaskView, config: PushConfig, *, create_session: bool = False) -> None:
    """Store a configuration with the session of its task.

    Raises:
        InvalidRequestError: The task already has the maximum number of configurations.
    """
    await view.services.session_service.put_push_config(
        view.key,
        invocation_id=view.task_id,
        name=config.id,
        body=config.to_json(),
        limit=_MAX_CONFIGS,
        create_session=create_session,
    )


async def stored(view: TaskView) -> list[TaskPushNotificationConfig]:
    """Return the configurations of a task, without their secrets."""
    notes = await view.services.session_service.read_notes(
        view.key, invocation_id=view.task_id, kind=PUSH
    )
    return [shown(view, PushConfig.from_json(note.body)) for note in notes]


async def find(view: TaskView, config_id: str) -> TaskPushNotificationConfig:
    """Return a configuration of a task, without its secrets.

    Raises:
        TaskNotFoundError: The task has no configuration with this id.
    """
    for one in await stored(view):
        if one.id == config_id:
            return one
    raise TaskNotFoundError(f"The task has no push notification configuration {config_id!r}.")


async def remove(view: TaskView, config_id: str) -> None:
    """Delete a configuration of a task, if it exists."""
    await view.services.session_service.remove_push_config(
        view.key, invocation_id=view.task_id, name=config_id
    )


def shown(view: TaskView, config: PushConfig) -> TaskPushNotificationConfig:
    """Return a configuration without its secrets, which only the notified server receives."""
    found = TaskPushNotificationConfig(id=config.id, task_id=view.task_id, url=config.url)
    if config.scheme:
        found.authentication.CopyFrom(AuthenticationInfo(scheme=config.scheme))
    return found
