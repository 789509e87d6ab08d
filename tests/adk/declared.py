"""The differences that are declared, each with its row in docs/use/adk-compatibility.md."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What is left out of both tellings before they are compared."""

    row: str
    """Of "The differences in one list", without its links."""
    shown: str
    """A scenario that is not the same without the rule."""
    where: str
    """Pattern of the places, as `Difference.where` names them."""
    text: str | None = None
    """Pattern of what is left out of the text there; None: all that is there."""
    only: Any = None
    """None, or the one value that is left out."""
    of_agents: bool = False
    """Whether it is left out of conversations without a graph only."""

    def of(self, where: str, value: Any) -> Any:
        """The value at a place, or what is left of it; None: nothing."""
        if not re.fullmatch(self.where, where):
            return value
        if self.text is None:
            return None if self.only is None or value == self.only else value
        return re.sub(self.text, "", value, flags=re.DOTALL)


_TEXTS = "Texts for the model"
_EVENT = r"(turns\.\d+|kept\.[^.]+)\.events\.\d+"
_FUNCTION = r"requests\.\d+\.config\.tools\.\d+\.function_declarations\.\d+"

EVERYWHERE = (
    Rule(
        row="Graph workflows, task mode",
        shown="the_capital_of_france",
        where=rf"{_EVENT}\.node_info",
        of_agents=True,
    ),
    Rule(
        row="Chunks",
        shown="text_comes_in_chunks",
        where=rf"{_EVENT}\.custom_metadata\.partial",
    ),
    Rule(
        row="Notes on events",
        shown="a_refund_is_approved",
        where=rf"{_EVENT}\.custom_metadata\.adk_\w+",
    ),
    Rule(  # what the two before leave
        row="Notes on events",
        shown="a_refund_is_approved",
        where=rf"{_EVENT}\.custom_metadata",
        only={},
    ),
    Rule(
        row=_TEXTS,
        shown="the_capital_of_france",
        where=rf"{_FUNCTION}\.parameters_json_schema\.(.*\.)?title",
    ),
    Rule(
        row=_TEXTS,
        shown="the_user_chooses",
        where=rf"{_FUNCTION}\.description",
        text=r"\n\n(Note: this takes a while|NOTE: This is a long-running).*"
        r"|^(Leave the loop|Exits the loop).*"
        r"|^(Hand the conversation over to|Transfer the query to another agent).*"
        r"|^(Gives your final answer|Set your final response).*"
        r"|^(Show the user some options|Provides the options).*"
        r"|^(Shows you the content of artifacts|Loads artifacts into).*",
    ),
    Rule(
        row=_TEXTS,
        shown="the_next_message_goes_to_who_has_it",
        where=r"requests\.\d+\.config\.system_instruction",
        text=r'\s*You are an agent\. Your internal name is "\w+"\.'
        r'( (Your description is|The description about you is) "[^"]*"\.)?'
        r"|\s*(Other agents can take this|You have a list of other agents to transfer to).*"
        r"|\s*(Give your final answer by calling|IMPORTANT: You have access to other tools).*",
    ),
    Rule(
        row=_TEXTS,
        shown="a_sequence_in_order",
        where=r"requests\.\d+\.contents\.\d+\.parts\.\d+\.text",
        text=r"For context: (below|what another agent did).*"
        r"|<<<(QUOTE|BEGIN_QUOTED_AGENT_CONTENT>>>)\n.*",
    ),
    Rule(
        row=_TEXTS,
        shown="shipped_plugins_instruct_and_retry",
        where=r".*\.reflection_guidance",
    ),
)
"""What differs in every conversation."""

DECLARED: Mapping[str, Mapping[str, Sequence[str]]] = json.loads(
    Path(__file__).with_name("declared.json").read_text()
)
"""What differs in single ones: by scenario and row, the kinds (`Difference.kind`).

`python -m tests.adk.record` writes the kinds that there are; the row of a new one is left empty.
"""

ONLY_OURS = {
    "an_agent_does_io_in_steps": "Bodies of custom agents",
    "a_body_makes_mistakes": "Bodies of custom agents",
    "callbacks_end_the_agent": "`end_invocation`",
    "a_tool_ends_the_agent": "`end_invocation`",
    "what_is_not_json_fails_the_run": "State values",
}
"""Scenarios that cannot be written for google-adk, and the rows that say so."""
