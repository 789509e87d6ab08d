"""Packages of npm that a test needs, in a folder of its own."""

import asyncio
import shutil
import subprocess
from pathlib import Path

from tests.support.waiting import PATIENCE

_QUIET = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--silent")


async def run_command(*command: str) -> str:
    """Run a program to its end; its standard output."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, err.decode()
    return out.decode()


async def install_packages(name: str, parent: Path) -> Path:
    """Copy `tests/support/NAME` to a folder and install what its package.json needs; the copy."""
    folder = parent / name
    ignored = shutil.ignore_patterns("node_modules")
    shutil.copytree(Path(__file__).parent / name, folder, ignore=ignored)
    await run_command("npm", "install", "--prefix", str(folder), *_QUIET)
    return folder
