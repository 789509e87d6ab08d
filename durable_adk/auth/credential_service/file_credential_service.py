"""Credentials as files in a folder."""

from pathlib import Path

from durable_adk.auth.credential_service._stored import StoredCredentialService
from durable_adk.errors import InvalidRequestError
from durable_adk.storage.folder_objects import FolderObjects


class FileCredentialService(StoredCredentialService):
    """Stores one file per credential, readable only by its owner, for processes on one machine.

    The files are not encrypted: any process of this user can read them.
    """

    def __init__(self, root_dir: str | Path) -> None:
        """Check the folder, and create it if necessary.

        Args:
            root_dir: The folder; created with mode 0700 if it is missing.

        Raises:
            InvalidRequestError: The path is a file, or other users can access the folder.
        """
        root = Path(root_dir)
        if root.exists() and not root.is_dir():
            raise InvalidRequestError(f"{root} is no folder; pass one for credentials.")
        super().__init__(FolderObjects(root, private=True))
        mode = root.stat().st_mode & 0o777
        if mode & 0o077:
            raise InvalidRequestError(
                f"Others may enter {root} (mode {mode:o}), which is for credentials: "
                f"chmod 700 it, or pass another folder."
            )
