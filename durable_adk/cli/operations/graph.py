"""``durable-adk graph``: an app's graph, or its tree of agents, as a drawing."""

from typing import Literal

import typer

from durable_adk.apps.app_declaration import described
from durable_adk.cli.server import load_app
from durable_adk.ops.graph_drawing import mermaid
from durable_adk.ops.graph_svg import svg


async def graph(*, target: str, language: Literal["mermaid", "svg"]) -> None:
    """Print the drawing of an app."""
    app = load_app(target)
    is_svg = language == "svg"
    drawing = svg(described(app).root_agent) if is_svg else mermaid(app.manifest())
    typer.echo(drawing, nl=False)
