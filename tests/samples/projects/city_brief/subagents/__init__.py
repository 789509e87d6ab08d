from .research import climate_researcher, food_researcher
from .writing import critic, refiner
