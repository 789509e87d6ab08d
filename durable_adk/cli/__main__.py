"""``python -m durable_adk.cli`` is ``durable-adk``."""

from durable_adk.cli.program import main

if __name__ == "__main__":
    main()
