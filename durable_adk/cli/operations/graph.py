"""``durable-adk graph``: an app's graph, or its tree of agents, as a drawing."""

import typer

from durable_adk.cli.server import load_app
from durable_adk.ops.graph_drawing import mermaid


async def graph(*, target: str) -> None:
    """Print the drawing of an app in Mermaid's language."""
    typer.echo(mermaid(load_app(target).manifest()), nl=False)
