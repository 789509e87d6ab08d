"""Draws an app's graph, or its tree of agents, as SVG."""

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from durable_adk.apps.app_declaration import AgentDescription
from durable_adk.apps.graph_layout import DrawnEdge, DrawnNode, graph_layout, shortened

_STYLE = """
svg { color-scheme: light dark; --back: #fff; --line: #64748b; --text: #0f172a; --soft: #475569;
  --node: #f8fafc; --group: #f1f5f9; font: 13px system-ui, sans-serif; background: var(--back); }
@media (prefers-color-scheme: dark) { svg { --back: #16181d; --line: #8b98a9; --text: #e6eaf0;
  --soft: #a9b4c2; --node: #22262e; --group: #1b1e25; } }
.shape { fill: var(--node); stroke: var(--line); stroke-width: 1.5; }
.workflow .shape { fill: var(--group); stroke-dasharray: 5 4; }
.join .shape { stroke-width: 3; }
.edge { fill: none; stroke: var(--line); stroke-width: 1.5; }
.below { stroke-dasharray: 2 4; }
text { fill: var(--text); text-anchor: middle; dominant-baseline: central; }
.facts, .label { fill: var(--soft); font-size: 11px; }
.label { paint-order: stroke; stroke: var(--back); stroke-width: 5px; }
.tip { fill: var(--line); }
"""


def svg(root: AgentDescription) -> str:
    """Return a drawing of an app as one SVG document, without scripts and references.

    Nodes whose routes decide what follows are hexagons, joins have thick borders, and a graph in
    the graph is a box around its nodes. Dotted edges lead to an agent's sub-agents.

    Raises:
        InvalidRequestError: The library that places the nodes is not installed.
    """
    drawn = graph_layout(root)
    size = f'width="{drawn.width:g}" height="{drawn.height:g}"'
    box = f'viewBox="0 0 {drawn.width:g} {drawn.height:g}"'
    groups = [line for node in drawn.nodes if _is_group(node) for line in _node(node)]
    body = [line for node in drawn.nodes if not _is_group(node) for line in _node(node)]
    lines = [line for edge in drawn.edges for line in _edge(edge)]
    labels = [line for edge in drawn.edges for line in _label(edge)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {box}>'
    title = f"<title>{escape(root.name)}</title>"
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" '
        'markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
        '<path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    style = f"<style>{_STYLE}</style>"
    return "\n".join([head, title, style, tip, *groups, *lines, *body, *labels, "</svg>"]) + "\n"


def _is_group(node: DrawnNode) -> bool:
    return node.kind == "workflow"


def _node(node: DrawnNode) -> Iterator[str]:
    yield f'<g class="{node.kind}{" join" if node.joins else ""}">'
    yield f"<title>{escape(' — '.join(filter(None, (node.path, node.facts))))}</title>"
    yield _shape(node)
    middle, label = node.x + node.width / 2, shortened(node.label)
    first = node.y + (22 if _is_group(node) or node.facts else node.height / 2)
    first -= 4 if node.facts and not _is_group(node) else 0
    yield f'<text x="{middle:g}" y="{first:g}">{escape(label)}</text>'
    if node.facts:
        facts = escape(shortened(node.facts))
        yield f'<text class="facts" x="{middle:g}" y="{first + 16:g}">{facts}</text>'
    yield "</g>"


def _shape(node: DrawnNode) -> str:
    x, y, width, height = node.x, node.y, node.width, node.height
    if node.decides and not _is_group(node):
        points = [
            (x, y + height / 2),
            (x + 14, y),
            (x + width - 14, y),
            (x + width, y + height / 2),
        ]
        points += [(x + width - 14, y + height), (x + 14, y + height)]
        listed = " ".join(f"{one:g},{other:g}" for one, other in points)
        return f'<polygon class="shape" points="{listed}"/>'
    corner = height / 2 if node.kind in ("start", "end") else 7
    return (
        f'<rect class="shape" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
        f'rx="{corner:g}"/>'
    )


def _edge(edge: DrawnEdge) -> Iterator[str]:
    path = "L".join(f"{one.x:g} {one.y:g}" for one in edge.points)
    kind = "edge below" if edge.below else "edge"
    yield f'<path class="{kind}" d={quoteattr("M" + path)} marker-end="url(#tip)"/>'


def _label(edge: DrawnEdge) -> Iterator[str]:
    if edge.label_at is not None:
        at = edge.label_at
        yield f'<text class="label" x="{at.x:g}" y="{at.y:g}">{escape(edge.label)}</text>'
