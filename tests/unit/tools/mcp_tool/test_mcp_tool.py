"""What becomes of a server's result."""

from types import SimpleNamespace

import pytest
from mcp import MCPError, types

from durable_adk.tools.mcp_tool.mcp_tool import MAX_RESULT_BYTES, McpTool

IMAGE = types.ImageContent(type="image", data="iVBORw0KGgo=", mime_type="image/png")
LINK = types.ResourceLink(type="resource_link", name="log", uri="file:///log")
TEXT = types.TextContent(type="text", text="no such button")
HUGE = types.ImageContent(type="image", data="A" * MAX_RESULT_BYTES, mime_type="image/png")


class Sessions:
    """Sessions with a server that answers each call with the same result."""

    def __init__(self, result):
        self.result = result

    async def call(self, _call, headers):
        assert headers == {}
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def failed(*content, **fields):
    return types.CallToolResult(content=list(content), is_error=True, **fields)


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (failed(TEXT, TEXT), {"error": "no such button\nno such button"}),
        (failed(), {"error": "The tool failed and does not say why."}),
        (
            failed(structured_content={"code": "QUOTA"}),
            {"error": "The tool failed.", "structuredContent": {"code": "QUOTA"}},
        ),
        (
            failed(TEXT, IMAGE, LINK),
            {
                "error": "no such button",
                "content": [
                    {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
                    {"type": "resource_link", "name": "log", "uri": "file:///log"},
                ],
            },
        ),
        (failed(TEXT, HUGE), {"error": "no such button"}),
        (
            MCPError(-32000, "refused", {"retryAfter": 30}),
            {"error": "The MCP tool click failed: refused", "data": {"retryAfter": 30}},
        ),
        (MCPError(-32000, "refused"), {"error": "The MCP tool click failed: refused"}),
    ],
)
async def test_a_failure_keeps_what_the_server_said(result, told):
    """Text, structured content, images, links and the data of an error reach the model."""
    described = types.Tool(name="click", input_schema={"type": "object"})
    tool = McpTool(mcp_tool=described, mcp_session_manager=Sessions(result))
    context = SimpleNamespace(idempotency_key="run:call")
    assert await tool.run_async(args={}, tool_context=context) == told
