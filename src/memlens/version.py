"""Which release of memlens this is."""

__version__ = "0.1.0"
