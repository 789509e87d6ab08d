"""What `docker-compose.yml` is built from and runs, as far as that shows without containers."""

import re
import shutil
import subprocess
from fnmatch import fnmatchcase
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support.deploy import HOST_ENV, host_environment

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = YAML(typ="safe").load(ROOT / "docker-compose.yml")
SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh") if shutil.which(shell)]


def let_through(path: str) -> bool:
    """Whether a file reaches the build: the last rule that names it or a folder it is in wins."""
    rules = (ROOT / ".dockerignore").read_text().split()
    above = list(accumulate(PurePosixPath(path).parts, lambda folder, name: f"{folder}/{name}"))
    allowed = True
    for rule in rules:
        pattern = rule.removeprefix("!").removeprefix("**/")
        names = PurePosixPath(path).parts if "**/" in rule else above
        # A `*` of a rule stands for names of one folder, that of fnmatch for any: compare depths.
        if any(fnmatchcase(n, pattern) and n.count("/") == pattern.count("/") for n in names):
            allowed = rule.startswith("!")
    return allowed


def copied() -> list[str]:
    """What the Dockerfile takes from the repository."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


def test_the_image_is_given_what_it_copies() -> None:
    """D13: each COPY finds its files, which .dockerignore leaves out unless it names them."""
    assert len(copied()) >= 6
    for source in copied():
        assert (ROOT / source).exists(), source
        assert let_through(source), source
    assert let_through("durable_adk/cli/key.py")


def test_the_image_is_given_nothing_else() -> None:
    """No secret, history or environment of the machine that builds it gets into a layer."""
    for left in (".env", ".git/config", "keys", "tests/conftest.py", ".venv/bin/python"):
        assert not let_through(left), left
    assert not let_through("durable_adk/cli/__pycache__/key.pyc")


def test_what_workers_keep_in_files_is_of_all_and_stays() -> None:
    """S14: a credential given to one worker is there for the others, and for those after them.

    A new volume takes the owner and the mode of the image's folder, so the image has to have it.
    """
    (folder,) = re.findall(r"DURABLE_ADK_DATA_DIR=(\S+)", DOCKERFILE)
    mounts = dict(volume.split(":")[1::-1] for volume in COMPOSE["services"]["worker"]["volumes"])
    assert mounts[folder] in COMPOSE["volumes"]
    assert f"install -d -o durable -g durable -m 700 {folder}\n" in DOCKERFILE


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_of_the_host_use_the_passwords_of_the_compose_file(shell: str) -> None:
    """D18: one place to set them; without it both have the same defaults."""
    passwords = "# ours\nSTORE_PASSWORD=abc123\nS3_KEY=key1\nS3_SECRET=secret1\n"
    told = host_environment(passwords, shell=shell)
    assert ":abc123@127.0.0.1" in told["DURABLE_ADK_STORE"]
    assert (told["AWS_ACCESS_KEY_ID"], told["AWS_SECRET_ACCESS_KEY"]) == ("key1", "secret1")
    # Compose would take these over a later change of the file.
    assert not {"STORE_PASSWORD", "S3_KEY", "S3_SECRET"} & told.keys()
    plain = host_environment(None, shell=shell)
    assert plain.keys() == told.keys()
    worker = COMPOSE["services"]["worker"]["environment"]
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert worker[name].endswith(f":-{plain[name]}}}")


def test_commands_of_the_host_use_all_that_the_workers_use() -> None:
    """D18: a client with the workers' store and a Temporal of its own would start another one."""
    worker = COMPOSE["services"]["worker"]["environment"]
    assert host_environment(None).keys() == worker.keys() - {"GEMINI_API_KEY"}
    services = [service.get("ports", []) for service in COMPOSE["services"].values()]
    published = {port.rpartition(":")[0] for ports in services for port in ports}
    used = set(re.findall(r"127\.0\.0\.1:\d+", HOST_ENV.read_text()))
    assert len(used) == 4
    assert used <= published


@pytest.mark.parametrize("shell", SHELLS)
def test_elsewhere_nothing_is_set(shell: str, tmp_path: Path) -> None:
    """Who is in another folder is told, and gets no default password in place of a set one."""
    command = [shell, "-c", '. "$0"; env', HOST_ENV]
    said = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, env={})
    assert "go to the folder" in said.stderr
    assert "postgresql" not in said.stdout
