"""Activities: all effects of an invocation on stores, models, tools and user code."""
