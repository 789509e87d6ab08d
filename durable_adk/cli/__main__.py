"""Entry point of ``python -m durable_adk.cli``, the same as ``durable-adk``."""

from durable_adk.cli.program import main

if __name__ == "__main__":
    main()
