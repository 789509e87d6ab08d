from google.adk.agents.llm_agent import LlmAgent

from ..config import MODEL

climate_researcher = LlmAgent(
    name="ClimateResearcher",
    model=MODEL,
    instruction="You research the climate of the city that the user names. One sentence.",
    output_key="climate_result",
)

food_researcher = LlmAgent(
    name="FoodResearcher",
    model=MODEL,
    instruction="You research the food of the city that the user names. One sentence.",
    output_key="food_result",
)
