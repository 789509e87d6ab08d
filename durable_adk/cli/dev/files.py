"""The files that `dev` watches for changes."""

from collections.abc import AsyncGenerator, Collection, Iterator
from pathlib import Path

from watchfiles import Change, awatch  # pyright: ignore[reportUnknownVariableType]: one parameter is partly untyped

_SKIPPED = {"__pycache__", "node_modules", "site-packages", "venv"}


class WatchedFiles:
    """The Python and `.env` files in the agents' folders, and the files that agents have loaded.

    Other files are not watched, because agents may write files next to their code.
    """

    def __init__(self) -> None:
        self._folders: list[Path] = []
        self._files: set[Path] = set()

    def use(self, targets: Collection[Path], files: Collection[Path]) -> None:
        """Change the watched files from the next wait on.

        Args:
            targets: Folders and files that define agents.
            files: The files that these have imported, as absolute paths.
        """
        self._folders = sorted({one for one in targets if one.is_dir()})
        self._files = {*files, *(one for one in targets if one.is_file())}

    async def changes(self) -> AsyncGenerator[list[Path]]:
        """Yield the changed files after each change."""
        while True:
            folders = self._watched()
            async for found in awatch(
                *folders, watch_filter=self._counts, recursive=False, ignore_permission_denied=True
            ):
                if changed := [path for _, name in found if not (path := Path(name)).is_dir()]:
                    yield sorted(changed)
                if self._watched() != folders:
                    break  # watch new folders, too

    def _watched(self) -> list[Path]:
        files = {file.parent for file in self._files}
        below = {one for folder in self._folders for one in _folders_below(folder)}
        return sorted(one for one in {*files, *below} if one.is_dir())

    def _counts(self, change: Change, name: str) -> bool:
        path = Path(name)
        if path in self._files:
            return True
        if path.suffix == ".py" and not path.name.startswith("."):  # a hidden one is an editor's
            return any(map(path.is_relative_to, self._folders))
        new_folder = change is Change.added and path.suffix == "" and path.is_dir()
        return path.name == ".env" or (new_folder and path.name not in _SKIPPED)


def _folders_below(folder: Path) -> Iterator[Path]:
    yield folder
    for inner in folder.iterdir():
        hidden = inner.name.startswith(".") or inner.name in _SKIPPED
        if inner.is_dir() and not hidden and not inner.is_symlink():
            yield from _folders_below(inner)
