"""What somebody's shell has after ``. deploy/host.env``."""

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

HOST_ENV = Path(__file__).parents[2] / "deploy" / "host.env"


def host_environment(dot_env: str | None, *, shell: str = "sh") -> dict[str, str]:
    """The variables that it exports.

    Args:
        dot_env: What is in ``.env`` beside the compose file; None: there is none.
        shell: Which one reads it.
    """
    with TemporaryDirectory() as folder:
        (Path(folder) / "deploy").mkdir()
        (Path(folder) / "deploy" / "host.env").write_bytes(HOST_ENV.read_bytes())
        if dot_env is not None:
            (Path(folder) / ".env").write_text(dot_env)
        said = subprocess.run(
            [shell, "-c", ". deploy/host.env && env -0"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
            env={"PATH": os.defpath},
        )
    lines = [line.partition("=") for line in said.stdout.split("\0") if "=" in line]
    shells = {"PWD", "OLDPWD", "SHLVL", "_", "PATH"}
    return {name: value for name, _, value in lines if name not in shells}
