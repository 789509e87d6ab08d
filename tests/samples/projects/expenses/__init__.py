from .agent import root_agent
