"""Scripts of several processes that use one artifact service."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

PROLOGUE = """
import asyncio, json, os, resource, signal, sys, threading, urllib.request
from google.genai import types
from durable_adk.artifacts import artifacts_at

scope = {"app_name": "app", "user_id": "user", "session_id": "session"}
service = artifacts_at(sys.argv[1])

def save(name, text, key=None):
    part = types.Part(text=text)
    return service.save_artifact(**scope, filename=name, artifact=part, save_key=key)

def fork(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return pid
"""


def run(script: str, place: Path | str) -> list[Any]:
    """What a script prints, by line: it may use all that the prologue has.

    Args:
        script: Python.
        place: The folder or uri that its `service` keeps artifacts in.
    """
    command = [sys.executable, "-c", PROLOGUE + textwrap.dedent(script), str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    return [json.loads(line) for line in done.stdout.splitlines()]
