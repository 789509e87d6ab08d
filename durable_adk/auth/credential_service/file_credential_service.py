"""Credentials as files in a folder."""

import asyncio
import os
import uuid
from pathlib import Path

from pydantic import ValidationError

from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.auth.credential_service._names import hashed
from durable_adk.auth.credential_service.base_credential_service import BaseCredentialService
from durable_adk.errors import InvalidRequestError
from durable_adk.storage.files import sync_folder, write_durably


class FileCredentialService(BaseCredentialService):
    """Stores one file per credential, readable only by its owner, for processes on one machine.

    The files are not encrypted: any process of this user can read them. File names are hashes, so
    that an id cannot escape the folder (S2) and a listing does not reveal ids.
    """

    def __init__(self, root_dir: str | Path) -> None:
        """Check the folder, and create it if necessary.

        Args:
            root_dir: The folder; created with mode 0700 if it is missing.

        Raises:
            InvalidRequestError: The path is a file, or other users can access the folder.
        """
        self._root = Path(root_dir)
        if not self._root.exists():
            # Another process may create it at the same time, e.g. two workers on a new volume.
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._root.is_dir():
            raise InvalidRequestError(f"{self._root} is no folder; pass one for credentials.")
        mode = self._root.stat().st_mode & 0o777
        if mode & 0o077:
            raise InvalidRequestError(
                f"Others may enter {self._root} (mode {mode:o}), which is for credentials: "
                f"chmod 700 it, or pass another folder."
            )

    async def load(self, *, app_name: str, user_id: str, key: str) -> AuthCredential | None:
        """Return the stored credential, or None.

        Raises:
            InvalidRequestError: The file does not hold a credential.
        """
        path = self._path(app_name, user_id, key)
        text = await asyncio.to_thread(_read, path)
        if text is None:
            return None
        try:
            return AuthCredential.from_json(text)
        except ValidationError:
            # Without the cause, which quotes the file's content.
            raise InvalidRequestError(f"{path} does not hold a credential; delete it.") from None

    async def save(
        self, *, app_name: str, user_id: str, key: str, credential: AuthCredential
    ) -> None:
        """Replace the file atomically; a crash leaves either the old or the new one."""
        path = self._path(app_name, user_id, key)
        await asyncio.to_thread(_replace, path, credential.to_json().encode())

    async def delete(self, *, app_name: str, user_id: str, key: str) -> None:
        """Remove the file; idempotent."""
        path = self._path(app_name, user_id, key)
        await asyncio.to_thread(path.unlink, missing_ok=True)

    async def delete_user(self, *, app_name: str, user_id: str, dry_run: bool = False) -> int:
        """Remove the files of a user, or only count them if `dry_run`; return the count."""
        return await asyncio.to_thread(self._remove, hashed(app_name, user_id), dry_run=dry_run)

    def _remove(self, owner: str, *, dry_run: bool) -> int:
        own = list(self._root.glob(f"{owner}-*.json"))
        for path in [] if dry_run else own:
            path.unlink(missing_ok=True)
        return len(own)

    def _path(self, app_name: str, user_id: str, key: str) -> Path:
        return self._root / f"{hashed(app_name, user_id)}-{hashed(key)}.json"


def _read(path: Path) -> bytes | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with os.fdopen(file, "rb") as opened:
        return opened.read()


def _replace(path: Path, content: bytes) -> None:
    draft = path.with_name(f"{uuid.uuid4().hex}.draft")
    try:
        write_durably(draft, content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)
