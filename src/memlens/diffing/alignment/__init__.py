"""The blocks of two runs' windows as symbols, and the cheapest alignment of the two."""
