from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.loop_agent import LoopAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent

from .config import MODEL
from .subagents import climate_researcher, critic, food_researcher, refiner

research = ParallelAgent(
    name="Research",
    sub_agents=[climate_researcher, food_researcher],
    description="Runs the researchers side by side.",
)

editor = LlmAgent(
    name="Editor",
    model=MODEL,
    instruction="""You write a brief from these findings.
    Climate: {climate_result}
    Food: {food_result}""",
    output_key="brief",
)

polish = LoopAgent(name="Polish", sub_agents=[critic, refiner], max_iterations=3)

root_agent = SequentialAgent(
    name="CityBrief",
    sub_agents=[research, editor, polish],
    description="Researches a city and writes a brief.",
)
