from google.adk.agents import LlmAgent
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.models.registry import LLMRegistry

from .local_llm import LocalLlm

LLMRegistry.register(LocalLlm)


def average(numbers: list[float]) -> float:
    """The average of numbers."""
    return sum(numbers) / len(numbers)


coder = LlmAgent(
    name="coder",
    model="local/qwen3",
    description="Calculates by code.",
    instruction="You are the coder. Write Python in a ```python block; its output comes back.",
    code_executor=UnsafeLocalCodeExecutor(),
)

root_agent = LlmAgent(
    name="analyst",
    model=LocalLlm(model="local/qwen3"),
    instruction="You are the analyst. Averages by tool, everything else by the coder.",
    tools=[average],
    sub_agents=[coder],
)
