"""Artifact names and scopes, validated before any store uses them (S4)."""

import re
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import unquote

from durable_adk.errors import InvalidRequestError
from durable_adk.json_values import check_id

USER_PREFIX = "user:"
MAX_FILENAME = 512
"""Maximum characters of a name, prefix included."""

_BAD = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DRIVE = re.compile(r"[A-Za-z]:")


class ArtifactScope(NamedTuple):
    """The owner of artifacts: a session, or the user if there is none."""

    app_name: str
    user_id: str
    session_id: str | None


class ArtifactKey(NamedTuple):
    """One name in one scope. Never joined into one string, so that keys cannot collide (S2)."""

    scope: ArtifactScope
    filename: str
    """The name as the caller wrote it, with its prefix."""


def scope_of(app_name: str, user_id: str, session_id: str | None) -> ArtifactScope:
    """Return the scope of a session, or of the user if there is none.

    Raises:
        InvalidRequestError: An id is invalid.
    """
    session = None if session_id is None else check_id(session_id, "session_id")
    return ArtifactScope(check_id(app_name, "app_name"), check_id(user_id, "user_id"), session)


def key_of(app_name: str, user_id: str, session_id: str | None, filename: str) -> ArtifactKey:
    """Return the key of an artifact; the prefix of its name determines the scope (ART-4).

    Raises:
        InvalidRequestError: An id or the name is invalid, or a session's name has no session.
    """
    scope = scope_of(app_name, user_id, session_id)
    check_filename(filename)
    if filename.startswith(USER_PREFIX):
        return ArtifactKey(scope._replace(session_id=None), filename)
    if scope.session_id is None:
        raise InvalidRequestError(
            f"session_id is missing: filename {filename!r} belongs to a session. Pass one, or "
            f"start the name with {USER_PREFIX!r}."
        )
    return ArtifactKey(scope, filename)


def component(name: str) -> str:
    """Return a path component for any text: a readable prefix and a hash.

    The hash distinguishes names that a file system may not: by case, by composed and decomposed
    letters, or beyond 255 bytes. It also prevents names that are special to the store.
    """
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:40]
    return f"{readable}-{sha256(name.encode()).hexdigest()[:32]}"


def check_filename(filename: object) -> None:
    """Raise InvalidRequestError unless the name is a relative path that stays in its folder.

    The stores of this package accept any name safely, but names also end up on users' disks and in
    URLs. So a name is also checked with backslashes as separators, and percent-decoded.
    """
    if not isinstance(filename, str) or not filename.removeprefix(USER_PREFIX).strip():
        raise InvalidRequestError("filename is empty; pass a name like 'report.pdf'.")
    if len(filename) > MAX_FILENAME:
        raise InvalidRequestError(
            f"filename is {len(filename)} characters long; at most {MAX_FILENAME} are allowed."
        )
    if bad := _BAD.search(filename):
        raise InvalidRequestError(
            f"filename contains the control character {bad[0]!r} at index {bad.start()}; remove it."
        )
    path = filename.removeprefix(USER_PREFIX)
    if not (_stays(path) and _stays(unquote(path))):
        raise InvalidRequestError(
            f"filename {filename!r} is not a path inside a folder: it must not be absolute, nor "
            "have an empty part, '.' or '..'."
        )


def _stays(path: str) -> bool:
    parts = path.replace("\\", "/").split("/")
    return not _DRIVE.match(path) and {"", ".", ".."}.isdisjoint(part.strip() for part in parts)
