from acme_audit import AuditPlugin
from google.adk.agents import LlmAgent
from google.adk.apps import App

TICKETS = {4711: "The printer is on fire."}


def open_ticket(ticket: int) -> str:
    """Shows a ticket."""
    return TICKETS[ticket]


root_agent = LlmAgent(
    name="help_line",
    model="gemini-2.5-flash",
    instruction="You answer the help line.",
    tools=[open_ticket],
)

app = App(
    name="help_line",
    root_agent=root_agent,
    plugins=[AuditPlugin(secrets=["swordfish"])],
)
