"""An agent on a model that its own 60 lines ask: any server of OpenAI's chat completions."""
