"""Two runs compared: their allocations aligned, every difference named, every byte accounted for."""
