"""The verbs: one module each, with a click command that returns its exit code."""
