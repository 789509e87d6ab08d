"""AG-UI: the protocol of front ends such as CopilotKit."""
