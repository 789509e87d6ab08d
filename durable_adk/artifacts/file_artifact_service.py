"""Artifacts in a folder."""

from pathlib import Path

from durable_adk.artifacts._stored import StoredArtifactService
from durable_adk.storage.folder_objects import FolderObjects


class FileArtifactService(StoredArtifactService):
    """Artifacts in files under a folder, which any number of processes may share.

    A completed save survives a crash of the machine; an interrupted one leaves nothing visible. The
    file system must support hard links and atomic renames, as local ones and NFS do.
    """

    def __init__(self, root_dir: Path | str) -> None:
        """Configure the folder, which the first save creates.

        Args:
            root_dir: The folder. Nothing outside of it is read or written, because names are hashed
                (S4).
        """
        super().__init__(FolderObjects(Path(root_dir).absolute()))
