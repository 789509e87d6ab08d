"""Activities: every effect of an invocation on stores, models, tools and user code."""
