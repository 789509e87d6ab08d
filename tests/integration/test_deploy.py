"""What `docker-compose.yml` is built from and runs, as far as that shows without containers."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support.deploy import HOST_ENV, host_environment
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = YAML(typ="safe").load(ROOT / "docker-compose.yml")
SCRIPTS = sorted((ROOT / "deploy").glob("*.sh"))
SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh") if shutil.which(shell)]


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
    """In another folder it is an error, not a default password in place of a set one."""
    command = [shell, "-c", '. "$0"; env', HOST_ENV]
    said = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, env={})
    assert "go to the folder" in said.stderr
    assert "postgresql" not in said.stdout


@pytest.mark.parametrize("script", [*SCRIPTS, HOST_ENV], ids=lambda path: path.name)
def test_scripts_are_what_a_plain_shell_reads(script: Path) -> None:
    """D13: the images have no bash."""
    for shell in SHELLS:
        subprocess.run([shell, "-n", script], check=True)


def schema_run(folder: Path, answers: str) -> tuple[int, list[str]]:
    """What temporal-schema.sh calls its tool with, which answers in the words of a shell."""
    tool = folder / "temporal-sql-tool"
    tool.write_text(f'#!/bin/sh\necho "$SQL_PASSWORD: $*" >> {folder}/calls\n{answers}\n')
    tool.chmod(0o755)
    given = COMPOSE["services"]["temporal-schema"]["environment"]
    environment = {**given, "SQL_PASSWORD": "abc123", "PATH": f"{folder}:{os.defpath}"}
    script = ["sh", ROOT / "deploy" / "temporal-schema.sh"]
    done = subprocess.run(script, env=environment, check=False, timeout=PATIENCE)
    return done.returncode, (folder / "calls").read_text().splitlines()


@pytest.mark.parametrize("answers", ["", 'case "$*" in *setup-schema*) exit 1;; esac'])
def test_temporals_databases_are_made_and_then_brought_up_to_date(
    answers: str, tmp_path: Path
) -> None:
    """D13: each of the two that the server looks for; also where they have a schema already."""
    code, calls = schema_run(tmp_path, answers)
    assert code == 0
    server = "abc123: --plugin postgres12 --ep postgres -u temporal -p 5432 --db"
    schemas = "/etc/temporal/schema/postgresql/v12"
    assert calls == [
        f"{server} temporal create",
        f"{server} temporal setup-schema -v 0.0",
        f"{server} temporal update-schema -d {schemas}/temporal/versioned",
        f"{server} temporal_visibility create",
        f"{server} temporal_visibility setup-schema -v 0.0",
        f"{server} temporal_visibility update-schema -d {schemas}/visibility/versioned",
    ]


@pytest.mark.parametrize(("step", "calls"), [("create", 1), ("update-schema", 3)])
def test_a_schema_that_is_not_there_starts_no_server(step: str, calls: int, tmp_path: Path) -> None:
    """D13: the script ends at once and fails, and compose starts it again."""
    code, called = schema_run(tmp_path, f'case "$*" in *{step}*) exit 1;; esac')
    assert (code != 0, len(called)) == (True, calls)
