"""What `docker-compose.yml` is built from and runs, as far as that shows without containers."""

import os
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
COLLECTOR: dict[str, Any] = YAML(typ="safe").load(ROOT / "deploy" / "otel-collector.yaml")
SCRIPTS = sorted((ROOT / "deploy").glob("*.sh"))
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
    done = subprocess.run(script, env=environment, check=False, timeout=60)
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


def test_the_collector_has_what_its_pipelines_name() -> None:
    """D13: each component of a pipeline is defined, and each that is defined is used."""
    pipelines = COLLECTOR["service"]["pipelines"].values()
    for kind in ("receivers", "processors", "exporters"):
        assert {name for pipeline in pipelines for name in pipeline[kind]} == COLLECTOR[kind].keys()
        assert all(pipeline[kind] for pipeline in pipelines)


def test_the_collector_listens_where_it_is_looked_for() -> None:
    """D13: workers send, Jaeger gets, and Prometheus scrapes, by names and ports of the stack."""
    services = COMPOSE["services"]
    ports = {port.rpartition(":")[2] for port in services["otel-collector"]["ports"]}
    receiver = COLLECTOR["receivers"]["otlp"]["protocols"]["http"]["endpoint"]
    exporters = COLLECTOR["exporters"]
    listened = {receiver, exporters["prometheus"]["endpoint"]}
    assert {place.rpartition(":")[2] for place in listened} == ports
    sent = services["worker"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"]
    assert sent == f"http://otel-collector:{receiver.rpartition(':')[2]}"
    assert exporters["otlp/jaeger"]["endpoint"].partition(":")[0] in services
