"""What names an artifact, checked before any store sees it (reliability S4)."""

import re
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import unquote

from durable_adk.errors import InvalidRequestError
from durable_adk.json_values import check_id

USER_PREFIX = "user:"
MAX_FILENAME = 512
"""Characters of a name, prefix included."""

_BAD = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DRIVE = re.compile(r"[A-Za-z]:")


class Scope(NamedTuple):
    """Whose artifacts: those of a session, or without one those of the user."""

    app_name: str
    user_id: str
    session_id: str | None


class ArtifactKey(NamedTuple):
    """One name in one scope. Never joined into one string, so no two can be mistaken (S2)."""

    scope: Scope
    filename: str
    """As the caller wrote it, with its prefix."""


def scope_of(app_name: str, user_id: str, session_id: str | None) -> Scope:
    """The scope of a session, or of the user when there is none.

    Raises:
        InvalidRequestError: An id cannot serve.
    """
    session = None if session_id is None else check_id(session_id, "session_id")
    return Scope(check_id(app_name, "app_name"), check_id(user_id, "user_id"), session)


def key_of(app_name: str, user_id: str, session_id: str | None, filename: str) -> ArtifactKey:
    """The key of an artifact; the prefix of its name tells the scope (semantics ART-4).

    Raises:
        InvalidRequestError: An id or the name cannot serve, or a session's name has no session.
    """
    scope = scope_of(app_name, user_id, session_id)
    check_filename(filename)
    if filename.startswith(USER_PREFIX):
        return ArtifactKey(scope._replace(session_id=None), filename)
    if scope.session_id is None:
        raise InvalidRequestError(
            f"session_id is missing: filename {filename!r} belongs to a session. Pass one, or "
            f"begin the name with {USER_PREFIX!r}."
        )
    return ArtifactKey(scope, filename)


def component(name: str, mark: str = "~") -> str:
    """A part of a path for any text: begins readably, and is another for every other text.

    The hash tells apart what a file system may not: case, composed and decomposed letters, what
    lies behind 255 bytes. It also keeps every name from meaning something to the store.
    """
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:40]
    return f"{readable}{mark}{sha256(name.encode()).hexdigest()[:32]}"


def check_filename(filename: object) -> None:
    """Raise InvalidRequestError unless the name is a path that stays in its folder.

    The stores here would keep any name safely, but a name also goes to people's disks and into
    URLs. So it is read the way each of those might: with backslashes, and percent-decoded.
    """
    if not isinstance(filename, str) or not filename.removeprefix(USER_PREFIX).strip():
        raise InvalidRequestError("filename is empty; pass a name like 'report.pdf'.")
    if len(filename) > MAX_FILENAME:
        raise InvalidRequestError(
            f"filename is {len(filename)} characters long; at most {MAX_FILENAME} are allowed."
        )
    if bad := _BAD.search(filename):
        raise InvalidRequestError(
            f"filename holds the control character {bad[0]!r} at index {bad.start()}; remove it."
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
