"""Analyzers of a series of windows as one thing: whether memory grows over it, and the phases of its windows."""
